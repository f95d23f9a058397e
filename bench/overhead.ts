import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { havePostgres, haveRedis, type Server, startPostgres, startRedis } from '../test/support/servers.js';

/**
 * What Promptmill costs beside the calls themselves: rows per second and CPU per row against an endpoint that
 * answers at once, for a bare undici loop and for `promptmill run` on each store, in one run of this program.
 * The ratios are the result; the absolute figures are the machine's.
 *
 *   npm run bench -- [--rows 20000] [--concurrency 100] [--stores redis,embedded,postgres] [--rounds 3]
 */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '20000' },
    concurrency: { type: 'string', default: '100' },
    stores: { type: 'string', default: 'redis,embedded,postgres' },
    rounds: { type: 'string', default: '3' },
    out: { type: 'string', default: 'bench/results/overhead.json' },
  },
});
const rows = Number(values.rows);
const concurrency = Number(values.concurrency);
const folder = mkdtempSync(join(tmpdir(), 'promptmill-bench-'));
const root = join(import.meta.dirname, '..');

interface Measured {
  readonly name: string;
  readonly seconds: number;
  readonly rows_per_second: number;
  /** CPU of the process itself, user and system, per row. */
  readonly cpu_us_per_row: number;
  /** Highest resident memory of the process. */
  readonly peak_mb: number;
  /** Highest resident memory of the Redis server. */
  readonly redis_peak_mb?: number;
}

const servers: Server[] = [];
const stub = spawn(process.execPath, ['--import', 'tsx', join(root, 'bench/stub.ts')], {
  stdio: ['ignore', 'pipe', 'inherit'],
  cwd: root,
});
try {
  const [port] = await once(stub.stdout, 'data');
  const url = `http://127.0.0.1:${String(port).trim()}`;
  const input = await generate();
  const results: Measured[] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    results.push(await bareLoop(url, input));
    for (const store of values.stores.split(',')) results.push(await promptmill(url, input, store));
  }
  report(results);
} finally {
  stub.kill();
  for (const server of servers) await server.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Rows as a run over reviews has them: a short id and a sentence or two. */
async function generate(): Promise<string> {
  const path = join(folder, 'rows.csv');
  const file = createWriteStream(path);
  file.write('id,review\n');
  for (let i = 1; i <= rows; i++) {
    const line = `${i},"I bought item ${i} last month and it works well, though the strap is shorter than in the picture. Would buy again."\n`;
    if (!file.write(line)) await once(file, 'drain');
  }
  file.end();
  await once(file, 'close');
  writeFileSync(
    join(folder, 'job.yaml'),
    JSON.stringify({
      service: { deployment: 'lm-35-turbo-instruct' },
      input: { path, require: ['review'] },
      prompt:
        'Classify the sentiment of the review as positive, negative or neutral.\nReview: {{ review }}\nSentiment:',
      parameters: { max_tokens: 5, temperature: 0, stop: ['\n'] },
      answer: { labels: ['positive', 'negative', 'neutral'] },
      limits: { concurrency },
    }),
  );
  return path;
}

async function bareLoop(url: string, input: string): Promise<Measured> {
  const target = `${url}/openai/deployments/lm-35-turbo-instruct/completions?api-version=2023-09-15-preview`;
  const output = join(folder, 'bare.csv');
  return measure('bare loop', [
    '--import',
    'tsx',
    join(root, 'bench/bare-loop.ts'),
    target,
    input,
    output,
    String(concurrency),
  ]);
}

async function promptmill(url: string, input: string, store: string): Promise<Measured> {
  const server = await serverOf(store);
  const output = join(folder, `${store}.csv`);
  const args = [join(root, 'dist/cli.js'), 'run', join(folder, 'job.yaml'), '--quiet', '--overwrite'];
  const measured = await measure(
    `promptmill on ${store}`,
    [...args, '--input', input, '--output', output, '--queue', server?.url ?? store],
    { PROMPTMILL_BASE_URL: url, PROMPTMILL_API_KEY: 'bench', PROMPTMILL_STATE_DIR: join(folder, 'state') },
    server,
  );
  const records = readFileSync(output, 'utf8').split('\n').length - 2;
  if (records !== rows) throw new Error(`${store}: ${records} records for ${rows} rows`);
  return measured;
}

async function serverOf(store: string): Promise<Server | null> {
  if (store === 'embedded') return null;
  if (store === 'redis' ? !haveRedis() : !havePostgres()) throw new Error(`${store} is not installed`);
  const known = servers.find((server) => server.url.startsWith(store));
  if (known !== undefined) return known;
  const server =
    store === 'redis' ? await startRedis({ args: ['--appendfsync', 'everysec'] }) : await startPostgres();
  servers.push(server);
  return server;
}

/** Runs a process and looks at it in /proc until it ends; the times are those of its last look, 20 ms before the end. */
async function measure(
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  server: Server | null = null,
): Promise<Measured> {
  const began = performance.now();
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  let last = { cpu: 0, peak: 0 };
  let redisPeak = 0;
  const timer = setInterval(() => {
    last = look(child) ?? last;
    if (server?.url.startsWith('redis')) redisPeak = Math.max(redisPeak, rss(server.pid));
  }, 20);
  const [code] = await once(child, 'exit');
  clearInterval(timer);
  if (code !== 0) throw new Error(`${name} ended with code ${code}`);
  const seconds = (performance.now() - began) / 1000;
  return {
    name,
    seconds: round(seconds),
    rows_per_second: Math.round(rows / seconds),
    cpu_us_per_row: round((last.cpu * 1e6) / rows),
    peak_mb: Math.round(last.peak / 1e6),
    ...(redisPeak > 0 && { redis_peak_mb: Math.round(redisPeak / 1e6) }),
  };
}

function look(child: ChildProcess): { cpu: number; peak: number } | null {
  try {
    const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    const ticks = Number(fields[11]) + Number(fields[12]);
    // Gone from the status of a process that is about to end: then the look before counts.
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1];
    return peak === undefined ? null : { cpu: ticks / 100, peak: Number(peak) * 1024 };
  } catch {
    return null;
  }
}

function rss(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
}

function round(n: number): number {
  return Math.round(n * 100) / 100;
}

/** The median round of each, and its ratio to the baseline of the same run. */
function report(results: readonly Measured[]): void {
  const names = [...new Set(results.map(({ name }) => name))];
  const medians = names.flatMap((name) => {
    const sorted = results.filter((each) => each.name === name).sort((a, b) => a.seconds - b.seconds);
    return sorted[Math.floor(sorted.length / 2)] ?? [];
  });
  const baseline = medians[0];
  const table = medians.map((each) => ({
    ...each,
    of_bare_loop: baseline === undefined ? 1 : round(each.rows_per_second / baseline.rows_per_second),
  }));
  console.table(table);
  const machine = {
    cpus: cpus().length,
    model: cpus()[0]?.model,
    memory_gb: Math.round(totalmem() / 1e9),
    node: process.version,
  };
  writeFileSync(
    values.out,
    `${JSON.stringify({ rows, concurrency, machine, medians: table, results }, null, 2)}\n`,
  );
  console.log(`written to ${values.out}; start-up of each process is included`);
}
