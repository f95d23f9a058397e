import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Stats } from '../src/emulator/stats.js';
import { havePostgres, startPostgres, startRedis } from '../test/support/servers.js';

/**
 * How much of a quota is used, and how many calls are refused, with the quota in the job file and without it, by one
 * worker and by four on one store. Counted by the emulator, from ten seconds after the first call on.
 *
 *   npm run bench:quota -- [--seconds 50] [--cases requests,tokens] [--workers 1,4] [--store redis] [--silent]
 *
 * A worker is a run of its own; all of them have one queue and one quota. With `--silent`
 * answers say nothing of the quota in their headers, so that only refusals tell.
 */
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    cases: { type: 'string', default: 'requests,tokens' },
    limits: { type: 'string', default: 'configured,none' },
    workers: { type: 'string', default: '1,4' },
    store: { type: 'string', default: 'redis' },
    latency: { type: 'string', default: '120' },
    silent: { type: 'boolean', default: false },
    log: { type: 'boolean', default: false },
  },
});
const SKIPPED_S = 10;
const seconds = Number(values.seconds);
const root = join(import.meta.dirname, '..');
const cli = join(root, 'dist/cli.js');
/** Most tokens of an answer; with them a request of the token-bound case is admitted on about 280 tokens. */
const MAX_TOKENS = { requests: 5, tokens: 200 } as const;
const QUOTAS = {
  requests: {
    unit: 'requests',
    perMinute: 600,
    option: '--requests-per-minute',
    limit: 'requests_per_minute',
  },
  tokens: { unit: 'tokens', perMinute: 90_000, option: '--tokens-per-minute', limit: 'tokens_per_minute' },
} as const;
type Case = keyof typeof QUOTAS;

const table: Record<string, unknown>[] = [];
for (const name of values.cases.split(',')) {
  if (name !== 'requests' && name !== 'tokens') throw new Error(`no such case: ${name}`);
  for (const limits of values.limits.split(',')) {
    for (const workers of values.workers.split(',').map(Number)) {
      table.push(await measure(name, limits === 'configured', workers));
      console.log(JSON.stringify(table.at(-1)));
    }
  }
}
console.table(table);

async function measure(name: Case, configured: boolean, workers: number): Promise<Record<string, unknown>> {
  const { perMinute, option, unit } = QUOTAS[name];
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-quota-'));
  const server = await serverOf();
  const emulator = spawn(
    process.execPath,
    [
      cli,
      'emulate',
      '--port',
      '0',
      '--latency',
      values.latency,
      '--latency-per-token',
      '1',
      option,
      String(perMinute),
      ...(values.silent ? ['--no-quota-headers'] : []),
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env['PATH'] } },
  );
  const runs: ChildProcess[] = [];
  try {
    const url = await addressOf(emulator);
    const env = {
      PATH: process.env['PATH'],
      PROMPTMILL_BASE_URL: url,
      PROMPTMILL_API_KEY: 'emulator-test-key-1',
      PROMPTMILL_STATE_DIR: join(folder, 'state'),
      PROMPTMILL_QUEUE: server?.url ?? 'embedded',
    };
    for (let i = 0; i < workers; i++) {
      const job = writeJob(folder, name, i, configured);
      const log = values.log ? (['--log-level', 'info'] as const) : [];
      runs.push(
        spawn(process.execPath, [cli, 'run', job, '--quiet', ...log], {
          env,
          cwd: folder,
          stdio: ['ignore', 'ignore', 'inherit'],
        }),
      );
    }
    while ((await statsOf(url)).requests === 0) await sleep(20);
    await sleep(SKIPPED_S * 1000);
    const [before, began] = [await statsOf(url), performance.now()];
    await sleep(seconds * 1000);
    const [after, ended] = [await statsOf(url), performance.now()];
    for (const run of runs) run.kill('SIGTERM');
    await Promise.all(runs.map((run) => once(run, 'exit')));
    const admitted = (stats: Stats): number => stats.by_status['200'] ?? 0;
    const refused = (stats: Stats): number => stats.by_status['429'] ?? 0;
    const calls = admitted(after) - admitted(before);
    const prompts = (after.usage.prompt_tokens - before.usage.prompt_tokens) / Math.max(1, calls);
    const used = unit === 'requests' ? calls : calls * (prompts + MAX_TOKENS[name]);
    const refusals = refused(after) - refused(before);
    return {
      quota: `${perMinute} ${unit} a minute`,
      limits: configured ? 'configured' : 'none',
      workers,
      'used, %': percent(used / ((perMinute * (ended - began)) / 60_000)),
      'refused, %': percent(refusals / Math.max(1, calls + refusals)),
      'refused from the start': refused(after),
      failed: failedRows(folder, workers),
    };
  } finally {
    for (const run of runs) if (run.exitCode === null) run.kill('SIGKILL');
    emulator.kill();
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function serverOf(): Promise<{ url: string; stop(): Promise<void> } | null> {
  if (values.store === 'embedded') return null;
  if (values.store === 'postgres' && havePostgres()) return startPostgres();
  return startRedis({ args: ['--appendfsync', 'everysec'] });
}

async function addressOf(emulator: ChildProcess): Promise<string> {
  let said = '';
  return new Promise((resolve, reject) => {
    const hear = (data: Buffer): void => {
      said += String(data);
      const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
      if (url !== undefined) resolve(url);
    };
    emulator.stdout?.on('data', hear);
    emulator.stderr?.on('data', hear);
    emulator.once('exit', () => reject(new Error(`the emulator did not start: ${said}`)));
  });
}

async function statsOf(url: string): Promise<Stats> {
  const response = await fetch(`${url}/stats`);
  const stats: Stats = JSON.parse(await response.text());
  return stats;
}

/** Rows enough that no run ends before the measurement. */
function writeJob(folder: string, name: Case, i: number, configured: boolean): string {
  const { limit, perMinute } = QUOTAS[name];
  const rows = Array.from(
    { length: 3_000 },
    (_, row) => `${row},"Item ${row} of ${i} came late, but it works."`,
  );
  const text = 'The strap is shorter than in the picture, and the colour is another one. '.repeat(4);
  writeFileSync(join(folder, `rows-${i}.csv`), `id,review\n${rows.join('\n')}\n`);
  const path = join(folder, `job-${i}.yaml`);
  writeFileSync(
    path,
    JSON.stringify({
      name: `quota-${i}`,
      service: { deployment: 'lm-35-turbo-instruct' },
      input: { path: join(folder, `rows-${i}.csv`) },
      prompt: `${name === 'tokens' ? text : ''}Review: {{ review }}\nSentiment, positive or negative:`,
      parameters: { max_tokens: MAX_TOKENS[name], temperature: 0 },
      output: { path: join(folder, `out-${i}.csv`) },
      limits: { concurrency: 20, ...(configured && { [limit]: perMinute }) },
    }),
  );
  return path;
}

/** Of the manifests, which the stopped runs leave. */
function failedRows(folder: string, workers: number): number {
  let failed = 0;
  for (let i = 0; i < workers; i++) {
    failed += JSON.parse(readFileSync(join(folder, `out-${i}.csv.run.json`), 'utf8')).tally.rows.failed;
  }
  return failed;
}

function percent(share: number): number {
  return Math.round(share * 1000) / 10;
}
