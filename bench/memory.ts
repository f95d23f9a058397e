import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { haveRedis, type Server } from '../test/support/servers.js';
import { promptmill, redis, type Task } from './contestants.js';
import { Endpoint } from './endpoint.js';
import { writeJob, writeReviews } from './input.js';
import { metered } from './meter.js';
import { type Memory, occasion, rounded, saveResult } from './results.js';
import { show } from './tables.js';
import { MEMORY_ROWS } from './targets.js';

/**
 * Peak memory of `promptmill run` over few rows and over many, on a new store each. Without a Redis server on this machine
 * the embedded store alone is measured.
 *
 *   npm run bench:memory -- [--rows 30000,1000000] [--dry]
 */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: Object.values(MEMORY_ROWS).join() },
    dry: { type: 'boolean', default: false },
  },
});
const CONCURRENCY = 100;

const folder = mkdtempSync(join(tmpdir(), 'promptmill-memory-'));
const endpoint = await Endpoint.start();
try {
  const runs: Memory['runs'][number][] = [];
  const job = writeJob(folder, CONCURRENCY);
  for (const rows of values.rows.split(',').map(Number)) {
    const input = await writeReviews(join(folder, 'rows.csv'), rows, 0.3);
    const task = { url: endpoint.url, folder, input, job, concurrency: CONCURRENCY };
    if (haveRedis()) runs.push(await runOn(await redis(), rows, task));
    runs.push(await runOn(null, rows, task));
    for (const run of runs.filter((each) => each.rows === rows)) {
      console.log(
        `${run.store.padEnd(8)}  ${String(rows).padStart(7)} rows  ${run.peak_mb} MB  ${run.seconds} s`,
      );
    }
  }
  const memory: Memory = { ...occasion(), runs };
  if (!values.dry) saveResult('memory', memory);
  show('memory', { memory, dry: values.dry });
} finally {
  endpoint.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function runOn(
  server: Server | null,
  rows: number,
  about: Omit<Task, 'output' | 'stateDir'>,
): Promise<Memory['runs'][number]> {
  const stateDir = join(folder, `state-${rows}`);
  await endpoint.begin(0);
  try {
    const { seconds, peak_bytes } = await metered(
      promptmill(server, { ...about, stateDir, output: join(folder, 'out.csv') }),
    );
    return {
      store: server === null ? 'embedded' : 'redis',
      rows,
      peak_mb: Math.round(peak_bytes / 1e6),
      store_mb: server === null ? null : Math.round(peakOf(server) / 1e6),
      seconds: rounded(seconds, 1),
    };
  } finally {
    await server?.stop();
    rmSync(stateDir, { recursive: true, force: true });
  }
}

function peakOf({ pid }: Server): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024;
}
