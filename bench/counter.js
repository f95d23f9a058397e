import fs from 'node:fs';
import { Session } from 'node:inspector';
import { syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';

/**
 * Preloaded into a process whose doings are counted (`node --import`), which takes some tenths of a second and a little of
 * each call, so such a process is not timed. When it ends, the counts are written as JSON to the file that BENCH_COUNTS
 * names; `meter.ts` has the form. The embedded store has no connection whose writes could be counted: what counts there are the
 * writes to the file of its ledger.
 */
const counted = { fsyncs: 0, changes: 0 };
/** Writes to connections, by the port at the other end: one for each time that something is sent. */
const writes = {};

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
const { openSync } = fs;
/** Descriptor of the file that was opened last of those of a ledger: while it is written anew that is the new one. */
let ledger = null;
fs.openSync = (path, ...rest) => {
  const descriptor = openSync(path, ...rest);
  if (/\/ledger(\.new-\w+)?$/.test(path)) ledger = descriptor;
  else if (ledger === descriptor) ledger = null;
  return descriptor;
};
watch(fs, ['writeSync'], ([descriptor]) => {
  if (descriptor === ledger) counted.changes++;
});
syncBuiltinESMExports();

process.on('exit', () => {
  fs.writeFileSync(process.env.BENCH_COUNTS, JSON.stringify({ writes, ...counted, modules: modules() }));
});

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
