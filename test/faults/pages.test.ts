import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { compareDocument } from '../../src/compare/compare-document.js';
import { renderHtml } from '../../src/render/html.js';
import { runDocument } from '../../src/render/run-document.js';
import { MemoryBeats, queueView, runBeat, workerBeat } from '../ops/web/beats.js';
import { startChromium } from '../ops/web/chromium.js';
import { clippedTexts, WIDTHS } from '../ops/web/clipped.js';
import { type Dashboard, LOGIN, startDashboard } from '../ops/web/dashboard.js';
import { describeInChromium } from '../ops/web/in-chromium.js';
import { sampleReport } from '../render/sample-reports.js';

const RUN = '20261121-020000-aaaaaa';
const ENDED = '20261120-020000-bbbbbb';

/** Three labels are the usual case, and thousands of rows. */
const CONFUSION = {
  positive: { positive: 13_105, negative: 135, neutral: 205 },
  negative: { positive: 135, negative: 3_105, neutral: 97, '(none)': 1_205 },
  neutral: { positive: 205, negative: 1_310, neutral: 3_105 },
};

describeInChromium('every page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-widths-'));
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(async () => {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Opens a page at each width, and returns what is clipped in it. */
  async function clippedAt(url: string, ready: string): Promise<Record<number, string[]>> {
    const found: Record<number, string[]> = {};
    const context = await browser.newContext({
      httpCredentials: { username: LOGIN.user, password: LOGIN.password },
    });
    const page = await context.newPage();
    await page.goto(url);
    await page.locator(ready).first().waitFor();
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      const clipped = await clippedTexts(page);
      if (clipped.length > 0) found[width] = clipped;
    }
    await context.close();
    return found;
  }

  const written = (name: string, page: string): string => {
    const path = join(folder, `${name}.html`);
    writeFileSync(path, page);
    return `file://${path}`;
  };

  it('fault 101: a text that is cut off is found', async () => {
    const cut = '<div style="width: 40px; overflow: hidden"><p style="width: 90px">3,105 rows</p></div>';
    expect(await clippedAt(written('cut', cut), 'p')).toHaveProperty('390', [
      expect.stringMatching(/^3,105/),
    ]);
    expect(await clippedAt(written('whole', '<p>3,105 rows</p>'), 'p')).toEqual({});
  });

  it('fault 101: of a report shows all numbers, with the usual three labels as well', async () => {
    for (const name of ['plain', 'gold', 'one', 'empty', 'arabic'] as const) {
      const report = sampleReport(name);
      const page = await renderHtml(runDocument(report));
      expect(await clippedAt(written(name, page), 'h1'), name).toEqual({});
    }
    const gold = sampleReport('gold');
    const { scores } = gold.summary;
    if (scores === undefined) throw new Error('the sample has no scores');
    const { '(none)': _, ...negative } = CONFUSION.negative;
    for (const confusion of [{ ...CONFUSION, negative }, CONFUSION]) {
      const summary = { ...gold.summary, scores: { ...scores, confusion } };
      const page = await renderHtml(runDocument({ ...gold, summary }));
      expect(await clippedAt(written('labels', page), '.matrix')).toEqual({});
    }
  });

  it('fault 101: of a comparison shows all numbers', async () => {
    const both = <T>(value: T) => ({ a: value, b: value });
    const usage = { prompt_tokens: 12_000_000, completion_tokens: 90_000, total_tokens: 12_090_000 };
    const facts = (output: string) => ({
      output,
      rows: 20_000,
      job: 'review-sentiment',
      run: RUN,
      emulated: false,
    });
    const report = {
      ...{ rows: 20_000, agreement: 0.91, kappa: 0.87, changed: 1_810, only_in_a: 0, only_in_b: 0 },
      transitions: CONFUSION,
      tokens: both(usage),
      cost: both(1_234.567_891),
      latency_ms: both({ p50: 1_310, p90: 3_105, p95: 3_205, p99: 13_105, max: 61_000 }),
      answered: { rows: 19_000, changed: 1_800, agreement: 0.905, kappa: 0.86 },
      verdict: {
        ...{ rows: 19_000, better: 1_031, worse: 1_012, p: 0.69, needed: 2_100_000, says: 'even' as const },
        accuracy_a: { value: 0.912, low: 0.892, high: 0.928 },
        accuracy_b: { value: 0.913, low: 0.893, high: 0.929 },
        ...{ macro_f1_a: 0.871, macro_f1_b: null, invalid_a: 1_234, invalid_b: 1_301, unanswered: 12_345 },
      },
      first_changed: { columns: [], rows: [] },
      prompt_changes: [`- ${'Say whether the review is good. '.repeat(9)}`, '+ Rate it.'],
      setting_changes: [{ name: 'parameters.temperature', a: '0', b: '0.7' }],
      ...{ parts: null, by: null, notes: [], a: facts('out/monday.csv'), b: facts('out/tuesday.csv') },
    };
    const answers = ['positive', 'negative', 'It works, mostly.', 'It does not.'];
    const rows = [['17', 'negative', 'better', ...answers, 'A lamp', 'It fell. '.repeat(100)]];
    const columns = ['row', 'gold', 'b_is', 'answer_a', 'answer_b', 'text_a', 'text_b', 'title', 'review'];
    const page = await renderHtml(compareDocument(report, { columns, rows }));
    expect(await clippedAt(written('compare', page), 'h1')).toEqual({});
  });

  it('faults 101 and 103: of the dashboard shows all numbers, and asks no address but its own', async () => {
    const beats = new MemoryBeats();
    const figures = {
      rows: { total: 920_480, completed: 860_460, filtered: 20_005, failed: 10_003, skipped: 30_012 },
      input: { path: 'samples/reviews.csv', sha256: 'a'.repeat(64), rows: 1_000_000 },
      answers_invalid: 13_105,
      usage: { prompt_tokens: 112_000_000, completion_tokens: 900_000, total_tokens: 112_900_000 },
      cost: 1_234.567_89,
    };
    await beats.run(runBeat({ known: 930_000 }, figures));
    await beats.run(runBeat({ state: 'finished' }, { ...figures, run: ENDED }, ENDED));
    await beats.worker(workerBeat());
    const dashboard = await startDashboard({ beats, queues: { views: () => [queueView()] } });
    try {
      const pages = {
        '/': '#queues tbody td',
        [`/runs/${RUN}`]: '#sections td',
        [`/runs/${ENDED}`]: '#sections td',
      };
      for (const [path, ready] of Object.entries(pages))
        expect(await clippedAt(dashboard.url + path, ready), path).toEqual({});
      for (const path of Object.keys(pages)) {
        const { page, asked, refused } = await watched(dashboard, path);
        expect(
          asked.filter((url) => !url.startsWith(`${dashboard.url}/`) && !url.startsWith('data:')),
        ).toEqual([]);
        expect(refused, path).toEqual([]);
        await page.context().close();
      }
    } finally {
      await dashboard.close();
    }
  });

  /** A page, what it asked for, and what its rules kept it from. */
  async function watched(
    dashboard: Dashboard,
    path: string,
  ): Promise<{ page: Page; asked: string[]; refused: string[] }> {
    const context = await browser.newContext({
      httpCredentials: { username: LOGIN.user, password: LOGIN.password },
    });
    const page = await context.newPage();
    const asked: string[] = [];
    const refused: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    page.on('console', (message) => message.type() === 'error' && refused.push(message.text()));
    await page.goto(dashboard.url + path);
    await page.waitForLoadState('networkidle');
    return { page, asked, refused };
  }
});
