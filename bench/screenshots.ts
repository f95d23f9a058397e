import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import type { Page } from 'playwright-core';
import { openStore } from '../src/queue/open-store.js';
import { QueueViews } from '../src/queue/queue-views.js';
import { startWeb } from '../src/web/web.js';
import { type Running, Workplace } from '../test/support/promptmill.js';
import { startRedis } from '../test/support/servers.js';
import { startChromium } from '../test/web/chromium.js';

/**
 * Takes the pictures of docs/dashboard.md: real runs on a private Redis, against the emulator, in a headless Chromium.
 * Takes about two minutes.
 *
 *   npm run screenshots
 */
const root = join(import.meta.dirname, '..');
const images = join(root, 'docs/images');
const login = { user: 'promptmill', password: 'for-pictures-only' };
const log = pino({ level: 'silent' });

const work = new Workplace();
const redis = await startRedis();
const emulator = work.start([
  'emulate',
  ...['--port', '0', '--latency', '150', '--latency-per-token', '3', '--seed', '3'],
  ...['--fail', '500:0.004', '--fail', 'reset:0.002', '--filter-prompt-rate', '0.006'],
]);
const started: Running[] = [emulator];
let stopEverything = async (): Promise<void> => {};
try {
  const serviceUrl = await told(emulator.process.stderr, /PROMPTMILL_BASE_URL=(\S+)/);
  const env = {
    PROMPTMILL_BASE_URL: serviceUrl,
    PROMPTMILL_QUEUE: redis.url,
  };
  cpSync(join(root, 'jobs'), work.path('jobs'), { recursive: true });
  cpSync(join(root, 'samples'), work.path('samples'), { recursive: true });
  manyReviews(40_000, 'samples/reviews-2026.csv');

  const store = await openStore(redis.url, { stateDir: work.path('state'), onWarning: () => {} });
  const views = new QueueViews(store, log);
  const version: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
  const web = await startWeb({ board: store.board, queues: views, login, port: 0, version, log });
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
  ]) {
    const { code, stderr } = await work.run(
      ['run', `jobs/${job}.yaml`, '--quiet', '--overwrite', ...flags],
      env,
    );
    if (code !== 0 && code !== 1) throw new Error(stderr);
  }

  console.log('a run of now, with one worker and then with two');
  const input = ['--input', 'samples/reviews-2026.csv', '--output', 'out/reviews-2026.csv'];
  started.push(work.start(['run', 'jobs/sentiment.yaml', '--quiet', ...input], env));
  await sleep(25_000);
  started.push(work.start(['work', '--concurrency', '30'], env));
  await sleep(35_000);

  mkdirSync(images, { recursive: true });
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
  await wide.screenshot({ path: join(images, 'dashboard.png'), fullPage: true });

  const narrow = await page(360, 1180);
  await narrow.goto(web.url);
  await narrow.locator('#past tr').nth(3).waitFor();
  await narrow.screenshot({ path: join(images, 'dashboard-narrow.png') });

  await wide.locator('#past .job').first().click();
  await wide.locator('#sections section').nth(4).waitFor();
  await wide.screenshot({ path: join(images, 'run.png'), fullPage: true });

  await wide.goto(`${web.url}/queues/`);
  await wide.locator('a[href*="queue/promptmill"]').first().click();
  await wide.getByText('not shown').first().waitFor();
  await wide.screenshot({ path: join(images, 'bull-board.png') });
  console.log(`pictures are in ${images}`);
} finally {
  await stopEverything();
  for (const { process } of started) process.kill('SIGTERM');
  await Promise.all(started.map(({ ended }) => ended));
  await redis.stop();
  work.remove();
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
  work.write(name, `${header}\n${rows.join('\n')}\n`);
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
