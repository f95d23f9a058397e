import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { pino } from 'pino';
import type { Page } from 'playwright-core';
import { startWeb } from '../src/ops/web/web.js';
import { QueueViews } from '../src/queue/queue-views.js';
import { openStore } from '../src/store/open.js';
import { startChromium } from '../test/ops/web/chromium.js';
import { startRedis } from '../test/support/servers.js';

/**
 * Takes the pictures of docs/dashboard.md, docs/report.md and docs/batches.md: real runs on a private Redis, against the emulator, in a headless Chromium.
 * Takes about two minutes.
 *
 *   npm run screenshots
 */
const root = join(import.meta.dirname, '..');
const images = join(root, 'docs/images');
const login = { user: 'promptmill', password: 'for-pictures-only' };
const log = pino({ level: 'silent' });

/** Pictures of the report: the width of a desk, the same in the dark, of a phone, and of paper (A4 less its margins). */
const REPORTS = [
  { name: 'report', media: 'screen', viewport: { width: 1120, height: 1500 } },
  { name: 'report-dark', media: 'screen', viewport: { width: 1120, height: 1500 }, colorScheme: 'dark' },
  { name: 'report-narrow', media: 'screen', viewport: { width: 360, height: 1180 } },
  { name: 'report-print', media: 'print', viewport: { width: 690, height: 1000 } },
] as const;
const MANY = 'samples/reviews-2026.csv';

/** A night in batches, which expire before they have answered all. */
const NIGHT = {
  name: 'batches',
  seconds: 20,
  settings: ['service.tier=batch', 'limits.batch.requests=2000', 'limits.canary=20', 'limits.deadline=20m'],
  viewport: { width: 1120, height: 620 },
} as const;

/** Where the runs work, as a user has it: the paths in the pictures are relative to it. */
const folder = mkdtempSync(join(tmpdir(), 'promptmill-pictures-'));
const redis = await startRedis();
const emulator = start([
  'emulate',
  ...['--port', '0', '--latency', '150', '--latency-per-token', '3', '--seed', '3'],
  ...['--fail', '500:0.004', '--fail', 'reset:0.002', '--filter-prompt-rate', '0.006'],
]);
const started: ChildProcess[] = [emulator];
let stopEverything = async (): Promise<void> => {};
try {
  const serviceUrl = await told(emulator.stderr, /PROMPTMILL_BASE_URL=(\S+)/);
  const env = {
    PROMPTMILL_BASE_URL: serviceUrl,
    PROMPTMILL_QUEUE: redis.url,
  };
  cpSync(join(root, 'jobs'), join(folder, 'jobs'), { recursive: true });
  cpSync(join(root, 'samples'), join(folder, 'samples'), { recursive: true });
  manyReviews(90_000, MANY);

  const store = await openStore(redis.url, { stateDir: join(folder, 'state'), onWarning: () => {} });
  const views = new QueueViews(store, log);
  const version: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
  const web = await startWeb({ keyValue: store.keyValue, queues: views, login, port: 0, version, log });
  const browser = await startChromium();
  stopEverything = async () => {
    await browser.close();
    await web.close();
    await views.close();
    await store.close();
  };

  console.log('runs of the past');
  for (const [job, ...flags] of [
    ['extraction', '--limit', '80'],
    ['sentiment', '--limit', '200'],
    ['extraction', '--output', 'out/messages-2.jsonl'],
    ['sentiment', '--output', 'out/reviews-2.csv'],
    ['sentiment', '--input', MANY, '--limit', '4000', '--output', 'out/reviews-3.csv'],
  ]) {
    const run = start(['run', `jobs/${job}.yaml`, '--quiet', '--overwrite', ...flags], env);
    const [code] = await once(run, 'exit');
    if (code !== 0) throw new Error(`a run of ${job} ended with ${code}`);
  }

  mkdirSync(images, { recursive: true });
  console.log('the report of one of them');
  for (const { name, media, ...options } of REPORTS) {
    const context = await browser.newContext(options);
    const report = await context.newPage();
    await report.emulateMedia({ media });
    await report.goto(pathToFileURL(join(folder, 'out/reviews-3.report.html')).href);
    await report.screenshot({ path: join(images, `${name}.png`) });
    await context.close();
  }

  console.log('a night in batches');
  const night = start([
    ...['run', 'jobs/sentiment.yaml', '--quiet', '--emulate', '--input', MANY, '--limit', '6000'],
    ...['--output', 'out/night.csv', '--batch-seconds', String(NIGHT.seconds), '--batch-fail', 'expire:0.9'],
    ...NIGHT.settings.flatMap((field) => ['--set', field]),
  ]);
  if ((await once(night, 'exit'))[0] !== 0) throw new Error('the night failed');
  const morning = await browser.newPage({ viewport: NIGHT.viewport });
  await morning.goto(pathToFileURL(join(folder, 'out/night.emulated.report.html')).href);
  await morning.evaluate('document.querySelector("#cost").scrollIntoView()');
  await morning.screenshot({ path: join(images, `${NIGHT.name}.png`) });
  await morning.close();

  console.log('a run of now, with one worker and then with two');
  const input = ['--input', MANY, '--output', 'out/reviews-2026.csv'];
  started.push(start(['run', 'jobs/sentiment.yaml', '--quiet', ...input], env));
  await sleep(25_000);
  started.push(start(['work', '--concurrency', '30'], env));
  await sleep(35_000);

  const page = async (width: number, height: number): Promise<Page> =>
    browser.newPage({
      viewport: { width, height },
      httpCredentials: { username: login.user, password: login.password },
      timezoneId: 'UTC',
    });
  const wide = await page(1200, 960);
  await wide.goto(web.url);
  await wide.locator('.spark path.line[d^=M]').waitFor();
  await wide.locator('#past tr').nth(3).waitFor();
  await wide.locator('#queues td').first().waitFor();
  await wide.screenshot({ path: join(images, 'dashboard.png'), fullPage: true });

  const narrow = await page(360, 1180);
  await narrow.goto(web.url);
  await narrow.locator('#past tr').nth(3).waitFor();
  await narrow.screenshot({ path: join(images, 'dashboard-narrow.png') });

  await wide.locator('#past .job').first().click();
  await wide.locator('#sections section').nth(4).waitFor();
  await wide.screenshot({ path: join(images, 'run.png'), fullPage: true });
  console.log(`pictures are in ${images}`);
} finally {
  await stopEverything();
  for (const child of started) {
    if (child.exitCode !== null) continue;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}

/** Starts a command of this build, with a key that opens nothing but the emulator. */
function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
  return spawn(process.execPath, [join(root, 'dist/cli.js'), ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], PROMPTMILL_API_KEY: 'for-pictures-only', ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** The sample's reviews over and over, each with an id of its own. */
function manyReviews(count: number, name: string): void {
  const [header = '', ...lines] = readFileSync(join(root, 'samples/reviews.csv'), 'utf8')
    .trimEnd()
    .split('\n');
  // Records that go over several lines are left out, so that each line is one.
  const records = lines.filter(
    (line) => /^R\d+,.*[^"],/.test(line) && (line.match(/"/g) ?? []).length % 2 === 0,
  );
  const rows = Array.from({ length: count }, (_, i) => {
    const record = records[i % records.length] ?? '';
    return record.replace(/^R\d+/, `R${String(i + 1).padStart(6, '0')}`);
  });
  writeFileSync(join(folder, name), `${header}\n${rows.join('\n')}\n`);
}

/** What a line of a process tells. */
async function told(stream: NodeJS.ReadableStream | null, pattern: RegExp): Promise<string> {
  if (stream === null) throw new Error('the process has no standard error');
  for await (const line of createInterface({ input: stream })) {
    const found = pattern.exec(line)?.[1];
    if (found !== undefined) return found;
  }
  throw new Error(`the process ended without ${pattern}`);
}
