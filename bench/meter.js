import fs from 'node:fs';
import { Session } from 'node:inspector';
import { syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';

/**
 * Preloaded into a process that is measured (`node --import`). When the process ends, what it took is written as JSON to
 * the file that BENCH_METER names; `meter.ts` has the form. With BENCH_STATEMENTS=1 it counts the statements that PGlite
 * gets: the embedded store has no connection whose writes could be counted.
 */
const counted = { fsyncs: 0, statements: 0 };
/** Writes to connections, by the port at the other end: one for each time that something is sent. */
const writes = {};

/** First bytes of messages to PostgreSQL. */
const [SYNC, QUERY] = Buffer.from('SQ');

/** Has `count` called whenever one of the methods is, with its arguments and its object. */
function watch(object, names, count) {
  for (const name of names) {
    const method = object[name];
    object[name] = function (...args) {
      count(args, this);
      return method.apply(this, args);
    };
  }
}

watch(Socket.prototype, ['_write', '_writev'], (_, { remotePort }) => {
  writes[remotePort] = (writes[remotePort] ?? 0) + 1;
});
const sync = () => counted.fsyncs++;
const handle = await fs.promises.open(process.execPath);
watch(Object.getPrototypeOf(handle), ['sync', 'datasync'], sync);
await handle.close();
watch(fs, ['fsync', 'fsyncSync', 'fdatasync', 'fdatasyncSync'], sync);
syncBuiltinESMExports();
if (process.env.BENCH_STATEMENTS === '1') {
  const { PGlite } = await import('@electric-sql/pglite');
  // A statement is several messages of PostgreSQL's protocol, and one of them is a Sync or a Query.
  watch(PGlite.prototype, ['execProtocolStream'], ([message]) => {
    if (message[0] === SYNC || message[0] === QUERY) counted.statements++;
  });
}

process.on('exit', () => {
  const { userCPUTime, systemCPUTime } = process.resourceUsage();
  const figures = {
    cpu_us: userCPUTime + systemCPUTime,
    main_us: mainThreadTime(),
    peak_bytes: peak(),
    writes,
    ...counted,
    modules: modules(),
  };
  fs.writeFileSync(process.env.BENCH_METER, JSON.stringify(figures));
});

/** Of this thread, in µs; null where the system does not tell. */
function mainThreadTime() {
  try {
    return Number(fs.readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1000;
  } catch {
    return null;
  }
}

/** Not the `maxRSS` of the process, which begins with that of the process that started it. */
function peak() {
  try {
    return Number(/VmHWM:\s+(\d+) kB/.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1]) * 1024;
  } catch {
    return process.resourceUsage().maxRSS * 1024;
  }
}

/** Files of code that were loaded, CommonJS and ES modules. */
function modules() {
  const files = new Set();
  const session = new Session();
  session.connect();
  session.on('Debugger.scriptParsed', ({ params: { url } }) => {
    if (/^(file:|\/)/.test(url)) files.add(url);
  });
  session.post('Debugger.enable');
  session.disconnect();
  return files.size;
}
