import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readRuns } from '../../src/ops/heartbeat.js';
import { startWeb, type Web } from '../../src/ops/web/web.js';
import { QueueViews } from '../../src/queue/queue-views.js';
import type { KeyValue } from '../../src/store/key-value.js';
import type { Store } from '../../src/store/store.js';
import { oddBeats } from '../ops/odd-beats.js';
import { runBeat, workerBeat } from '../ops/web/beats.js';
import { chromiumPath, startChromium } from '../ops/web/chromium.js';
import { AUTHORIZATION, LOGIN } from '../ops/web/dashboard.js';
import { Workplace } from '../support/promptmill.js';
import { describeEachStore } from '../support/stores.js';

const LONG = 3_600_000;
const log = pino({ level: 'silent' });
const SOUND = runBeat().run;

/** A summary without what a moment changes, as the beat was made a little later than the file, and without what only the file has. */
function lasting(summary: Record<string, unknown>): Record<string, unknown> {
  const { finished_at: _, duration_s: __, rows_per_second: ___, details: ____, ...rest } = summary;
  return rest;
}

describeEachStore('odd beats', (under, kind) => {
  const work = new Workplace();
  let store: Store;
  let keyValue: KeyValue;
  let web: Web;
  let views: QueueViews | null;
  const env = (): Record<string, string> => ({
    PROMPTMILL_QUEUE: under().target,
    PROMPTMILL_STATE_DIR: under().stateDir,
  });
  const get = (path: string): Promise<Response> =>
    fetch(web.url + path, { headers: { authorization: AUTHORIZATION } });

  beforeAll(async () => {
    store = await under().open();
    keyValue = store.keyValue;
    for (const { id, text } of oddBeats()) {
      await keyValue.put('run', id, text, LONG);
      await keyValue.put('worker', id, text, LONG);
    }
    const queue = 'x'.repeat(2_000_000);
    await keyValue.put(
      'run',
      'of-two-megabytes',
      JSON.stringify({ ...runBeat({ run: 'of-two-megabytes' }), queue }),
      LONG,
    );
    if (under().kind === 'embedded') {
      const folder = join(under().stateDir, 'board', 'run');
      mkdirSync(join(folder, 'a-folder'));
      symlinkSync('/dev/zero', join(folder, 'a-link'));
      execFileSync('mkfifo', [join(folder, 'a-pipe')]);
    }
    await keyValue.put('run', SOUND, JSON.stringify(runBeat()), LONG);
    await keyValue.put('worker', workerBeat().id, JSON.stringify(workerBeat()), LONG);
    views = under().kind === 'embedded' ? null : new QueueViews(store, log);
    web = await startWeb({ keyValue, queues: views, login: LOGIN, port: 0, version: '1.2.3', log });
  });
  afterAll(async () => {
    await web.close();
    await views?.close();
    work.remove();
  });

  it('fault 85: the status shows the others', async () => {
    const { code, stdout, stderr } = await work.call(['status'], env());
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(new RegExp(`^review-sentiment +${SOUND} `, 'm'));
    expect(stdout).toMatch(/^night1 +4711 +6 /m);
    expect(stdout.length).toBeLessThan(20_000);
    const json = await work.call(['status', '--json'], env());
    expect(JSON.parse(json.stdout).runs).toContainEqual(
      expect.objectContaining({ run: SOUND, job: 'review-sentiment' }),
    );
    expect(json.stdout).not.toContain('of-two-megabytes');
  });

  it('fault 85: the dashboard and the metrics show the others', async () => {
    const look = async () => JSON.parse(await (await get('/api/state')).text());
    // A store that takes longer than two seconds is not waited for: the page shows what was heard before.
    await expect
      .poll(async () => (await look()).running)
      .toContainEqual(expect.objectContaining({ id: SOUND, percentText: '50 %' }));
    const state = await look();
    expect(state.workers).toContainEqual(expect.objectContaining({ id: workerBeat().id }));
    const metrics = await (await get('/metrics')).text();
    expect(metrics).toContain(
      `promptmill_rows_total{job="review-sentiment",run="${SOUND}",outcome="completed"} 460`,
    );
    expect(metrics).not.toMatch(/(NaN|Infinity|undefined)$/m);
    // At once: on a busy machine each takes the two seconds that the store is waited for.
    const paths = [...oddBeats(), { id: SOUND }].flatMap(({ id }) => [
      `/api/runs/${id}`,
      `/runs/${id}/summary.json`,
    ]);
    const statuses = await Promise.all(paths.map(async (path) => (await get(path)).status));
    for (const [i, status] of statuses.entries()) expect(status, paths[i]).toBeOneOf([200, 404]);
  });

  // What a page makes of a beat has nothing to do with the store that it comes from.
  if (kind === 'embedded')
    it('fault 85: the pages show the others in a browser, and run nothing', async ({ skip }) => {
      if (chromiumPath() === null && process.env['CI'] !== 'true') skip('chromium is not installed');
      const browser: Browser = await startChromium();
      try {
        const page = await browser.newPage({
          httpCredentials: { username: LOGIN.user, password: LOGIN.password },
        });
        // A busy machine takes its time; only what hangs is to fail.
        page.setDefaultTimeout(90_000);
        const unwanted: string[] = [];
        page.on('dialog', (dialog) => {
          unwanted.push(dialog.message());
          void dialog.dismiss();
        });
        page.on('pageerror', (error) => unwanted.push(error.message));
        await page.goto(web.url);
        await page.locator(`#running [data-key="${SOUND}"]`).waitFor();
        for (const id of ['markup', 'many-names', 'huge-sums']) {
          await page.goto(`${web.url}/runs/${id}`);
          await page.locator('#run:not([hidden])').waitFor();
        }
        expect(unwanted).toEqual([]);
        const width = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
        expect(width).toBeLessThanOrEqual(0);
      } finally {
        await browser.close();
      }
    });

  it('fault 85: a run among them comes back from the board with its whole summary', async () => {
    work.write(
      'twice.csv',
      `id,note\n${['a', 'b', 'a', 'c', 'b', ''].map((note, i) => `${i},${note}`).join('\n')}\n`,
    );
    const job = work.job({
      input: { path: 'twice.csv', require: ['note'], dedupe: true },
      prompt: 'Is this positive, negative or neutral?\nReview: {{ note }}\nSentiment:',
      parameters: { temperature: 0, max_tokens: 5 },
      answer: { labels: ['positive', 'negative', 'neutral'] },
      prices: { prompt: 0.5, completion: 1.5 },
      output: { path: 'twice-out.csv' },
    });
    const { code, stderr } = await work.call(['run', job, '--emulate'], env());
    expect(code, stderr).toBe(0);
    const summary = work.json('twice-out.emulated.summary.json');
    expect(summary).toMatchObject({ reused: { copied: 2, carried: 0 } });
    const listed = readRuns(await keyValue.list('run')).find(({ beat }) => beat.run === summary['run']);
    expect(lasting({ ...listed?.beat.summary })).toEqual(lasting(summary));
    // The dashboard may have looked last when the run had just begun.
    const page = async () => {
      const answer = await get(`/runs/${summary['run']}/summary.json`);
      return answer.status === 200 ? lasting(JSON.parse(await answer.text())) : null;
    };
    await expect.poll(page).toEqual(lasting(summary));
  });

  it('fault 85: thousands of them are no more than a look can hold', async () => {
    const padding = { waiting: 'x'.repeat(4_000) };
    const all = Array.from({ length: 6_000 }, (_, i) => `forged-${i}`);
    for (let i = 0; i < all.length; i += 200) {
      await Promise.all(
        all
          .slice(i, i + 200)
          .map((run) => keyValue.put('run', run, JSON.stringify(runBeat({ run, ...padding })), LONG)),
      );
    }
    // Of two texts of one millisecond neither is the newest.
    const { now } = await keyValue.get('run', SOUND);
    await expect.poll(async () => (await keyValue.get('run', SOUND)).now).toBeGreaterThan(now);
    await keyValue.put('run', SOUND, JSON.stringify(runBeat()), LONG);
    const { code, stdout, stderr } = await work.call(['status'], env());
    expect(code, stderr).toBe(0);
    expect(stdout).toContain(SOUND);
    expect(stdout).toMatch(/^and [\d,]+ more, in --json$/m);
    const ids = (await keyValue.list('run')).map(({ name }) => name);
    expect(ids[0]).toBe(SOUND);
    expect(ids.length).toBeLessThanOrEqual(5_000);
    expect((await get('/api/state')).status).toBe(200);
  });
});
