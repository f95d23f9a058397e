import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Redis } from 'ioredis';
import { startRedis } from '../test/support/servers.js';

/**
 * What several `promptmill work` processes make of a run with `--no-work`: rows a second from the first call to the last,
 * CPU of the collector and of Redis, and Redis commands for each row. At the end a run of which one worker is killed and
 * one asked to end: its output must be whole, and no row paid for beyond the calls in flight of the one that was killed.
 *
 *   npm run bench:fleet -- [--rows 20000] [--workers 1,4] [--concurrency 50] [--latency 200] [--no-kill]
 */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '20000' },
    workers: { type: 'string', default: '1,4' },
    concurrency: { type: 'string', default: '50' },
    latency: { type: 'string', default: '200' },
    'no-kill': { type: 'boolean', default: false },
  },
});
const rows = Number(values.rows);
const concurrency = Number(values.concurrency);
const root = join(import.meta.dirname, '..');
const cli = join(root, 'dist/cli.js');
const folder = mkdtempSync(join(tmpdir(), 'promptmill-fleet-'));

interface Stats {
  readonly calls: number;
  readonly first_ms: number;
  readonly last_ms: number;
}

interface Fleet {
  readonly url: string;
  readonly redis: Redis;
  readonly workers: readonly ChildProcess[];
  readonly run: ChildProcess;
}

writeFileSync(
  join(folder, 'rows.csv'),
  `id,review\n${Array.from({ length: rows }, (_, i) => `${i + 1},"Item ${i + 1} works well, though the strap is shorter than in the picture. Would buy again."`).join('\n')}\n`,
);
writeFileSync(
  join(folder, 'job.yaml'),
  JSON.stringify({
    service: { deployment: 'lm-35-turbo-instruct' },
    input: { path: 'rows.csv', require: ['review'] },
    prompt: 'Classify the sentiment as positive, negative or neutral.\nReview: {{ review }}\nSentiment:',
    parameters: { max_tokens: 5, temperature: 0 },
    output: { path: 'out.csv' },
    limits: { concurrency },
  }),
);
try {
  const table: Record<string, unknown>[] = [];
  let one = 0;
  for (const count of values.workers.split(',').map(Number)) {
    const { figures, rate } = await measure(count, async () => {});
    if (one === 0) one = rate;
    table.push({ workers: count, ...figures, ratio: rounded(rate / one) });
    console.log(JSON.stringify(table.at(-1)));
  }
  if (!values['no-kill']) {
    const { figures } = await measure(4, disturb);
    table.push({ workers: '4, one killed, one asked to end', ...figures });
  }
  console.log(
    `${rows} rows, ${values.latency} ms, ${concurrency} calls at once in each worker, ${cpus().length} cores`,
  );
  console.table(table);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** After a quarter of the calls one worker is killed, after a half one is asked to end. */
async function disturb({ url, workers }: Fleet): Promise<void> {
  await called(url, rows / 4);
  workers[0]?.kill('SIGKILL');
  await called(url, rows / 2);
  workers[1]?.kill('SIGTERM');
}

async function called(url: string, calls: number): Promise<void> {
  while ((await statsOf(url)).calls < calls) await sleep(20);
}

async function measure(count: number, during: (fleet: Fleet) => Promise<void>) {
  const stub = spawn(process.execPath, ['--import', 'tsx', join(root, 'bench/stub.ts'), values.latency], {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: root,
  });
  const server = await startRedis({ args: ['--appendfsync', 'everysec'] });
  const redis = new Redis(server.url);
  const processes: ChildProcess[] = [];
  try {
    const [port] = await once(stub.stdout, 'data');
    const url = `http://127.0.0.1:${String(port).trim()}`;
    const start = (args: readonly string[]): ChildProcess => {
      const child = spawn(process.execPath, [cli, ...args], {
        cwd: folder,
        env: { PATH: process.env['PATH'], PROMPTMILL_BASE_URL: url, PROMPTMILL_API_KEY: 'bench' },
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      processes.push(child);
      return child;
    };
    const workers = Array.from({ length: count }, () =>
      start(['work', '--queue', server.url, '--concurrency', String(concurrency)]),
    );
    while ((await redis.hlen('promptmill:board:{worker}:text')) < count) await sleep(50);
    await redis.config('RESETSTAT');
    const before = await redisCpu(redis);
    const run = start(['run', 'job.yaml', '--no-work', '--quiet', '--overwrite', '--queue', server.url]);
    const cpuOfRun = watchCpu(run);
    const cpuOfWorkers = workers.map(watchCpu);
    const [[code]] = await Promise.all([once(run, 'exit'), during({ url, redis, workers, run })]);
    const stats = await statsOf(url);
    const figures = await figuresOf(Number(code), stats, redis, (await redisCpu(redis)) - before);
    Object.assign(figures, {
      'collector µs/row': perRow(cpuOfRun()),
      'workers µs/row': perRow(cpuOfWorkers.reduce((sum, cpu) => sum + cpu(), 0)),
    });
    return { figures, rate: stats.calls / ((stats.last_ms - stats.first_ms) / 1000) };
  } finally {
    for (const child of processes) if (child.exitCode === null) child.kill('SIGTERM');
    await Promise.all(processes.map(ended));
    redis.disconnect();
    stub.kill();
    await server.stop();
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

function perRow(seconds: number): number {
  return Math.round((seconds * 1e6) / rows);
}

/** Seconds of CPU that a process took from now on, as of the last look before it ended; 0 where there is no /proc. */
function watchCpu({ pid }: ChildProcess): () => number {
  const look = (): number | null => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) / 100;
    } catch {
      return null;
    }
  };
  const before = look() ?? 0;
  let last = before;
  const timer = setInterval(() => {
    last = look() ?? last;
  }, 100);
  timer.unref();
  return () => {
    clearInterval(timer);
    return last - before;
  };
}

async function figuresOf(code: number, stats: Stats, redis: Redis, cpu: number) {
  const ids = readFileSync(join(folder, 'out.csv'), 'utf8')
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => Number(line.split(',')[0]));
  const whole = ids.length === rows && ids.every((id, i) => id === i + 1);
  const { calls, duration_s } = JSON.parse(readFileSync(join(folder, 'out.summary.json'), 'utf8'));
  const commands = commandsOf(await redis.info('commandstats'));
  const net = await redis.info('stats');
  const bytes = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(net)?.[1] ?? 0);
  console.log(
    commands
      .slice(0, 16)
      .map(([name, n]) => `${name} ${rounded(n / rows)}`)
      .join(', '),
  );
  return {
    'rows/s': Math.round(stats.calls / ((stats.last_ms - stats.first_ms) / 1000)),
    'duration, s': duration_s,
    exit: code,
    whole,
    'calls beyond one a row': stats.calls - rows,
    repeated: calls.repeated,
    'Redis µs/row': Math.round((cpu * 1e6) / rows),
    'Redis commands/row': rounded(commands.reduce((sum, [, n]) => sum + n, 0) / rows),
    'B/row in': Math.round(bytes('total_net_input_bytes') / rows),
    'B/row out': Math.round(bytes('total_net_output_bytes') / rows),
  };
}

/** Calls of each command, those inside of scripts included, most frequent first. */
function commandsOf(info: string): [string, number][] {
  return [...info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)]
    .map(([, name = '', calls = '0']): [string, number] => [name, Number(calls)])
    .sort((a, b) => b[1] - a[1]);
}

async function redisCpu(redis: Redis): Promise<number> {
  const info = await redis.info('cpu');
  const of = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? 0);
  return of('used_cpu_user') + of('used_cpu_sys');
}

async function statsOf(url: string): Promise<Stats> {
  const response = await fetch(`${url}/stats`);
  const stats: Stats = JSON.parse(await response.text());
  return stats;
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
