import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Redis } from 'ioredis';
import { mostPrefetched } from '../src/worker/batcher.js';
import { CLI, redis as startRedis } from './contestants.js';
import { Endpoint } from './endpoint.js';
import { writeJob, writeReviews } from './input.js';
import { type Fleet, type FleetTrial, occasion, rounded, saveResult } from './results.js';
import { show } from './tables.js';

/**
 * What several `promptmill work` processes make of a run with `--no-work`: rows a second from the first call to the last,
 * CPU of the collector, the workers and Redis, and Redis commands for each row. At the end a run of two workers of which
 * one is killed when nearly everything is called: how long the run waits for its rows. Each output must be whole, with no
 * call beyond one a row but those that the kill leaves unknown (docs/guarantees.md). A trial that fails is left out.
 *
 *   npm run bench:fleet -- [--trials 1x50x200,2x50x200,4x50x200,3x20x100,1rx50x200,2rx50x200] [--seconds 20] [--dry]
 *
 * A trial is workers × calls in flight of each × milliseconds an answer; it has the rows of so many seconds. With an `r` it
 * has no workers, but so many runs of the deployment that call for themselves.
 */
const { values } = parseArgs({
  options: {
    trials: { type: 'string', default: '1x50x200,2x50x200,4x50x200,3x20x100,1rx50x200,2rx50x200' },
    seconds: { type: 'string', default: '20' },
    dry: { type: 'boolean', default: false },
  },
});
/** Of the run of which a worker is killed. */
const KILLED: Plan = { runs: 0, workers: 2, concurrency: 50, latencyMs: 100, rows: 5_000 };
const CALLED_BEFORE_KILL = 0.98;

interface Plan {
  /** That call for themselves; with 0 there is one, and the workers call for it. */
  readonly runs: number;
  readonly workers: number;
  readonly concurrency: number;
  readonly latencyMs: number;
  /** Of all runs together. */
  readonly rows: number;
}

/** A fleet at work. */
interface Running {
  readonly endpoint: Endpoint;
  readonly runs: readonly ChildProcess[];
  readonly workers: readonly ChildProcess[];
}

const folder = mkdtempSync(join(tmpdir(), 'promptmill-fleet-'));
try {
  const trials: FleetTrial[] = [];
  for (const text of values.trials.split(',')) {
    const done = await orNull(text, () => trial(planOf(text)));
    if (done === null) continue;
    const { figures } = done;
    trials.push(figures);
    console.log(
      `${text.padEnd(10)}  ${String(figures.rows).padStart(6)} rows  ${figures.rows_per_second} rows/s, ${figures.of_ideal} of the ideal`,
    );
  }
  const fleet: Fleet = { ...occasion(), trials, after_kill_s: await orNull('a killed worker', afterKill) };
  if (!values.dry) saveResult('fleet', fleet);
  show('fleet', { fleet, dry: values.dry });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Null when it failed, which is told. */
async function orNull<Result>(what: string, work: () => Promise<Result>): Promise<Result | null> {
  try {
    return await work();
  } catch (error) {
    console.log(`left out: ${what}: ${error instanceof Error ? error.message : String(error)}`);
    return null;
  }
}

function planOf(text: string): Plan {
  const [count = 1, concurrency = 1, latencyMs = 1] = text.replace('r', '').split('x').map(Number);
  const rows = Math.round(count * concurrency * (1000 / latencyMs) * Number(values.seconds));
  const each = { concurrency, latencyMs, rows };
  return text.includes('r') ? { ...each, runs: count, workers: 0 } : { ...each, runs: 0, workers: count };
}

/** Seconds from the kill to the end of the run. */
async function afterKill(): Promise<number> {
  let killed = 0;
  const { endedMs } = await trial(KILLED, async ({ endpoint, runs, workers }) => {
    const enough = KILLED.rows * CALLED_BEFORE_KILL;
    while (!runs.every(hasEnded) && (await endpoint.stats()).calls < enough) await sleep(20);
    workers[0]?.kill('SIGKILL');
    killed = performance.now();
  });
  return rounded((endedMs - killed) / 1000, 1);
}

async function trial(
  plan: Plan,
  during: (fleet: Running) => Promise<void> = async () => {},
): Promise<{ figures: FleetTrial; endedMs: number }> {
  const { workers: count, concurrency, latencyMs, rows } = plan;
  const outputs = Array.from({ length: Math.max(plan.runs, 1) }, (_, i) => join(folder, `out-${i}.csv`));
  const rowsOfEach = rows / outputs.length;
  await writeReviews(join(folder, 'rows.csv'), rowsOfEach, 0.2);
  writeJob(folder, concurrency);
  const endpoint = await Endpoint.start();
  const server = await startRedis();
  const redis = new Redis(server.url);
  const processes: ChildProcess[] = [];
  const said: string[] = [];
  const start = (...args: readonly string[]): ChildProcess => {
    const child = spawn(process.execPath, [CLI, ...args, '--queue', server.url], {
      cwd: folder,
      env: { PATH: process.env['PATH'], PROMPTMILL_BASE_URL: endpoint.url, PROMPTMILL_API_KEY: 'bench' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.stderr?.on('data', (text) => said.push(String(text)));
    processes.push(child);
    return child;
  };
  try {
    await endpoint.begin(latencyMs);
    const workers = Array.from({ length: count }, () => start('work', '--concurrency', String(concurrency)));
    while ((await redis.hlen('promptmill:board:{worker}:text')) < count) {
      if (workers.some(hasEnded)) throw new Error(`a worker ended before the run began:\n${said.join('')}`);
      await sleep(50);
    }
    await redis.config('RESETSTAT');
    const redisBefore = await redisCpu(redis);
    const runs = outputs.map((output) =>
      start(
        ...['run', 'job.yaml', '--quiet', '--overwrite', '--output', output],
        ...(plan.runs === 0 ? ['--no-work'] : []),
      ),
    );
    const cpuOfRuns = runs.map(watchCpu);
    const cpuOfWorkers = workers.map(watchCpu);
    await Promise.all([...runs.map(ended), during({ endpoint, runs, workers })]);
    const endedMs = performance.now();
    const { calls, first_ms, last_ms, middle } = await endpoint.stats();
    const lost =
      workers.filter(({ signalCode }) => signalCode === 'SIGKILL').length *
      (concurrency + mostPrefetched(concurrency));
    const codes = runs.map(({ exitCode }) => exitCode);
    const whole = outputs.every((output) => isWhole(output, rowsOfEach));
    if (codes.some((code) => code !== 0) || !whole || calls > rows + lost) {
      throw new Error(
        `exit ${codes.join()}, ${calls} calls for ${rows} rows, or the output is not whole:\n${said.join('')}`,
      );
    }
    const info = await redis.info('all');
    const perRow = (sum: number): number => rounded(sum / rows, 1);
    const sumOf = (cpus: readonly (() => number)[]): number => cpus.reduce((sum, cpu) => sum + cpu(), 0);
    const callers = plan.runs + count;
    const figures: FleetTrial = {
      ...{ runs: plan.runs, workers: count, concurrency, latency_ms: latencyMs, rows },
      rows_per_second: Math.round(calls / ((last_ms - first_ms) / 1000)),
      of_ideal: rounded(middle.calls / middle.ms / ((callers * concurrency) / latencyMs), 3),
      collector_us_per_row: perRow(sumOf(cpuOfRuns) * 1e6),
      workers_us_per_row: perRow(sumOf(cpuOfWorkers) * 1e6),
      redis_us_per_row: perRow(((await redisCpu(redis)) - redisBefore) * 1e6),
      redis_commands_per_row: perRow(commandsOf(info)),
      bytes_in_per_row: Math.round(figure(info, 'total_net_input_bytes') / rows),
      bytes_out_per_row: Math.round(figure(info, 'total_net_output_bytes') / rows),
    };
    return { figures, endedMs };
  } finally {
    for (const child of processes) if (!hasEnded(child)) child.kill('SIGTERM');
    await Promise.all(processes.map(ended));
    redis.disconnect();
    endpoint.stop();
    await server.stop();
  }
}

function isWhole(output: string, rows: number): boolean {
  const records = readFileSync(output, 'utf8').trimEnd().split('\n').slice(1);
  const ids = records.map((line) => Number(line.split(',')[0]));
  return ids.length === rows && ids.every((id, i) => id === i + 1);
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

async function ended(child: ChildProcess): Promise<void> {
  if (!hasEnded(child)) await once(child, 'exit');
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

/** Calls of all commands, those inside of scripts included. */
function commandsOf(info: string): number {
  return [...info.matchAll(/^cmdstat_[^:]+:calls=(\d+)/gm)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0,
  );
}

function figure(info: string, name: string): number {
  return Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? 0);
}

async function redisCpu(redis: Redis): Promise<number> {
  const info = await redis.info('cpu');
  return figure(info, 'used_cpu_user') + figure(info, 'used_cpu_sys');
}
