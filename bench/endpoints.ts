import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type Emulator, startEmulator } from '../src/emulator/server.js';
import { percent } from './quota-trial.js';

/**
 * How much of the quotas of two endpoints one run uses, where a third refuses its key. Counted by their emulators, from
 * twenty seconds after the first call on; then again while the first is down, and after it has come back.
 *
 *   npm run bench:endpoints -- [--seconds 40] [--down 60] [--configured] [--route balance] [--log]
 */
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '40' },
    down: { type: 'string', default: '60' },
    configured: { type: 'boolean', default: false },
    route: { type: 'string', default: 'balance' },
    log: { type: 'boolean', default: false },
  },
});
const QUOTA = { west: 600, east: 300 } as const;
type Name = keyof typeof QUOTA;
const NAMES: readonly Name[] = ['west', 'east'];
/** Time in which the run finds the endpoint again, in seconds. */
const SETTLE_S = 20;

const folder = mkdtempSync(join(tmpdir(), 'promptmill-endpoints-'));
const cli = join(import.meta.dirname, '../dist/cli.js');
/** Calls that the emulators answered which are closed. */
const closed = { west: 0, east: 0 };
const emulators = { west: await begin('west'), east: await begin('east') };
const revoked = await startEmulator();

function begin(name: Name, port = 0): Promise<Emulator> {
  const quota = { requestsPerMinute: QUOTA[name] };
  return startEmulator({ port, quota, quotaHeaders: false, latency: { baseMs: 120, perTokenMs: 1 } });
}

function writeJob(): string {
  const rows = Array.from({ length: 10_000 }, (_, row) => `${row},"Item ${row} came late, but it works."`);
  writeFileSync(join(folder, 'rows.csv'), `id,review\n${rows.join('\n')}\n`);
  const endpoint = (name: string, { url }: Emulator, requests_per_minute?: number) => ({
    ...{ name, base_url: url, deployment: 'lm-35-turbo-instruct', key: `${name.toUpperCase()}_KEY` },
    ...(values.configured && requests_per_minute && { requests_per_minute }),
  });
  const endpoints = [
    endpoint('north', revoked),
    ...NAMES.map((name) => endpoint(name, emulators[name], QUOTA[name])),
  ];
  const path = join(folder, 'job.yaml');
  writeFileSync(
    path,
    JSON.stringify({
      name: 'endpoints',
      service: { endpoints, route: values.route },
      input: { path: join(folder, 'rows.csv') },
      prompt: 'Review: {{ review }}\nSentiment, positive or negative:',
      parameters: { max_tokens: 5, temperature: 0 },
      output: { path: join(folder, 'out.csv') },
    }),
  );
  return path;
}

let isDown = false;
const told = (name: Name, status: string): number =>
  isDown && name === 'west' ? 0 : (emulators[name].stats().by_status[status] ?? 0);
const answered = (name: Name): number => closed[name] + told(name, '200');
const refused = (): number => NAMES.reduce((sum, name) => sum + told(name, '429'), 0);

async function measure(what: string, names: readonly Name[], seconds: number): Promise<void> {
  const before = { west: answered('west'), east: answered('east'), refused: refused() };
  await sleep(seconds * 1000);
  const calls = names.map((name) => answered(name) - before[name]);
  const all = calls.reduce((a, b) => a + b);
  const used = names.map((name, i) => [
    `${name}, %`,
    percent((calls[i] ?? 0) / ((QUOTA[name] * seconds) / 60)),
  ]);
  const refusals = percent((refused() - before.refused) / Math.max(1, all));
  console.log(JSON.stringify({ what, seconds, ...Object.fromEntries(used), 'refused, %': refusals }));
}

const [key = ''] = emulators.west.keys;
const env = {
  PATH: process.env['PATH'],
  ...{ NORTH_KEY: 'revoked', WEST_KEY: key, EAST_KEY: key },
  PROMPTMILL_STATE_DIR: join(folder, 'state'),
};
const run = spawn(process.execPath, [cli, 'run', writeJob(), '--quiet', '--log-level', 'info'], {
  env,
  stdio: ['ignore', 'ignore', 'pipe'],
});
run.stderr.on('data', (text) => values.log && process.stderr.write(text));
try {
  while (answered('west') + answered('east') === 0 && run.exitCode === null) await sleep(20);
  const seconds = Number(values.seconds);
  await sleep(SETTLE_S * 1000);
  await measure('both', NAMES, seconds);
  const port = Number(new URL(emulators.west.url).port);
  closed.west = answered('west');
  await emulators.west.close();
  isDown = true;
  await measure('west is down', ['east'], Number(values.down));
  emulators.west = await begin('west', port);
  isDown = false;
  await sleep(SETTLE_S * 1000);
  await measure('west is back', NAMES, seconds);
  const ended = once(run, 'exit');
  run.kill('SIGTERM');
  await ended;
  const { tally, calls, endpoints } = JSON.parse(readFileSync(join(folder, 'out.csv.run.json'), 'utf8'));
  const made = answered('west') + answered('east');
  console.log(JSON.stringify({ rows: tally.rows, answered: made, calls, endpoints }));
} finally {
  run.kill('SIGKILL');
  await Promise.all([emulators.west.close(), emulators.east.close(), revoked.close()]);
  rmSync(folder, { recursive: true, force: true });
}
