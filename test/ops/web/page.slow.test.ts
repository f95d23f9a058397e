import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { WebOptions } from '../../../src/ops/web/web.js';
import { MemoryBeats, queueView, runBeat, workerBeat } from './beats.js';
import { startChromium } from './chromium.js';
import { type Dashboard, LOGIN, startDashboard } from './dashboard.js';
import { describeInChromium } from './in-chromium.js';

/** Whatever is put into a page as markup would run this. */
const MARKUP = '<img src=x onerror="document.title=`owned`"><script>document.title="owned"</script>';
const RUN = '20261121-020000-aaaaaa';
/** A busy machine takes its time; only what hangs is to fail. */
const TIMEOUT_MS = 90_000;

describeInChromium('the page in a browser', () => {
  let browser: Browser;
  let beats: MemoryBeats;
  let dashboard: Dashboard;
  /** What the page complained of: scripts that failed, and what its own rules kept from running. */
  const complaints: string[] = [];

  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(() => browser.close());
  beforeEach(() => {
    beats = new MemoryBeats();
    complaints.length = 0;
  });
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close();
    await dashboard.close();
    expect(complaints).toEqual([]);
  });

  /** Opens a page of a dashboard over what is on the board, as somebody who is logged in. */
  async function open(path = '/', width = 1200, queues: WebOptions['queues'] = null): Promise<Page> {
    dashboard = await startDashboard({ beats, queues });
    const context = await browser.newContext({
      viewport: { width, height: 800 },
      httpCredentials: { username: LOGIN.user, password: LOGIN.password },
    });
    context.setDefaultTimeout(TIMEOUT_MS);
    const page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => {
      // Only a test that ends the dashboard under the page sees that.
      const refused = message.text().includes('ERR_CONNECTION_REFUSED');
      if (message.type() === 'error' && !refused) complaints.push(message.text());
    });
    await page.goto(dashboard.url + path);
    return page;
  }

  it('shows a run, follows it to its end, and says so to a screen reader', async () => {
    await beats.run(runBeat());
    await beats.worker(workerBeat());
    const page = await open();
    const card = page.locator('#running article');
    await card.getByText('500 of 1,000 rows').waitFor();
    const bar = card.getByRole('progressbar', { name: 'Progress of review-sentiment' });
    expect(await bar.getAttribute('aria-valuenow')).toBe('500');
    expect(await bar.getAttribute('aria-valuetext')).toBe(
      '50 %, 500 of 1,000 rows known, 480 of them written',
    );
    expect(await card.locator('.legend').innerText()).toMatch(/460 completed 95\.8 %/);
    expect(await page.title()).toBe('50 % review-sentiment – Promptmill');
    expect(await page.locator('#workers').innerText()).toMatch(
      /night1, 4711.*8 of 50.*200: 470, 429: 7, timeout: 3/s,
    );

    await beats.run(runBeat({ known: 640, waiting: 'waiting for the service until 10:42:05' }));
    await card.getByText('640 of 1,000 rows').waitFor();
    await card.getByText('waiting for the service until 10:42:05').waitFor();
    expect(await card.locator('.pill').innerText()).toBe('Waiting');

    await beats.run(runBeat({ state: 'finished', known: 1000 }));
    await page.locator('#past').getByText('review-sentiment').waitFor();
    await card.waitFor({ state: 'detached' });
    expect(await page.getByRole('status').innerText()).toBe('review-sentiment: Finished, 3 failed');
    expect(await page.locator('#idle').innerText()).toContain('promptmill run jobs/sentiment.yaml');
  });

  it('shows the entries of the queues, and why the failed ones did', async () => {
    await beats.run(runBeat());
    const page = await open('/', 1200, { views: () => [queueView()] });
    const { name } = queueView();
    const queues = page.getByRole('region', { name: 'Queues' }).getByRole('table');
    await queues.getByRole('row').nth(1).waitFor();
    expect(await queues.innerText()).toMatch(/Queue\s+Waiting\s+Active\s+Delayed\s+Failed/);
    expect(await queues.innerText()).toMatch(new RegExp(`${name}\\s+13,105\\s+40\\s+205\\s+1,310$`));
    const failed = page.getByRole('region', { name: 'Failed entries' }).getByRole('row').nth(1);
    expect(await failed.innerText()).toMatch(
      /x1-3105\s+3,105–3,124\s+Nov 21, 2026, .*\s+refused: not a chunk of this deployment$/,
    );
  });

  it('tells of a run that was lost, and of a store that is away', async () => {
    await beats.run(runBeat(), 60_000);
    const page = await open();
    await page.getByText('No word from it for 1 min 0 s').waitFor();
    await dashboard.close();
    await page.getByText(/^No answer since/).waitFor();
  });

  it('fault 59: markup in names and answers is shown as text, on every page', async () => {
    const summary = {
      job: MARKUP,
      output: MARKUP,
      stopped: `code: ${MARKUP}`,
      answers: { [MARKUP]: 10 },
      errors: { [MARKUP]: 1 },
    };
    await beats.run(runBeat({ host: MARKUP, waiting: MARKUP }, summary));
    await beats.run(runBeat({ state: 'stopped' }, summary, 'stopped-run'));
    const [queue] = workerBeat().queues;
    const queues = queue === undefined ? [] : [{ ...queue, deployment: MARKUP, waiting: MARKUP }];
    await beats.worker(workerBeat({ host: MARKUP, queues, calls: { [MARKUP]: 1 } }));

    const page = await open('/', 1200, { views: () => [queueView({ id: MARKUP, reason: MARKUP })] });
    await page.locator('#past').getByText(MARKUP).waitFor();
    await page.locator('#queues').getByText(MARKUP).nth(1).waitFor();
    const markup = (one: Page) => one.locator('main :is(img, script)').count();
    expect(await markup(page)).toBe(0);
    expect(await page.locator('#running h3').innerText()).toBe(MARKUP);
    await page.goto(`${dashboard.url}/runs/${RUN}`);
    await page.locator('#sections').getByText(MARKUP).first().waitFor();
    expect(await markup(page)).toBe(0);
    expect(await page.title()).toBe(`${MARKUP} – Promptmill`);
  });

  it('can be used with a keyboard alone, and the focus stays where it is while figures change', async () => {
    await beats.run(runBeat());
    for (let i = 0; i < 25; i++) await beats.run(runBeat({ state: 'finished' }, {}, `past-${i}`));
    const page = await open();
    await page.locator('#past tr').nth(19).waitFor();
    const everything = await page.locator('a:visible, button:visible, summary:visible, .skip').count();
    const reached = new Set<string>();
    for (let i = 0; i < everything; i++) {
      await page.keyboard.press('Tab');
      reached.add(
        await page.evaluate('[...document.querySelectorAll("*")].indexOf(document.activeElement) + ""'),
      );
      const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle');
      expect(outline, `the focus is seen at stop ${i + 1}`).not.toBe('none');
    }
    expect(reached.size).toBe(everything);

    await page.locator('#running summary').focus();
    await page.keyboard.press('Enter');
    const input = page.locator('#running article', { hasText: RUN }).getByText('samples/reviews.csv');
    await input.waitFor();
    await beats.run(runBeat({}, { started_at: '2026-11-21T03:00:00.000Z' }, 'another-run'));
    await beats.run(runBeat({ known: 777 }));
    await page.getByText('777 of 1,000 rows').waitFor();
    expect(await page.evaluate('document.activeElement.tagName')).toBe('SUMMARY');
    expect(await input.isVisible()).toBe(true);

    await page.getByRole('button', { name: 'Show all 25' }).focus();
    await page.keyboard.press('Enter');
    expect(await page.locator('#past tr').count()).toBe(25);
    expect(await page.evaluate('document.activeElement.closest("#past") !== null')).toBe(true);
    await page.keyboard.press('Enter');
    await page.locator('#job').getByText('review-sentiment').waitFor();
  });

  it('fits a screen of 360 pixels, whatever the names', async () => {
    const long = 'a-very-long-name-without-any-place-to-break-'.repeat(4);
    await beats.run(runBeat({ host: long, waiting: long }, { job: long, output: `/${long}/${long}` }));
    await beats.run(runBeat({ state: 'stopped' }, { job: long, answers: { [long]: 5 } }, 'stopped-run'));
    await beats.worker(workerBeat({ host: long, calls: { [long]: 1 } }));
    const page = await open('/', 360, { views: () => [queueView({ id: long, reason: long })] });
    const width = (one: Page) => one.evaluate('document.documentElement.scrollWidth');
    await page.locator('#past .job').waitFor();
    await page.locator('#queues').getByText(long).first().waitFor();
    await page.locator('summary').click();
    expect(await width(page)).toBe(360);
    await page.goto(`${dashboard.url}/runs/stopped-run`);
    await page.locator('#sections').getByText(long).waitFor();
    expect(await width(page)).toBe(360);
  });

  it('has a page for a run, with the sections of its summary and the summary itself', async () => {
    const beat = runBeat({ state: 'finished' });
    await beats.run(beat);
    const page = await open(`/runs/${RUN}`);
    await page.getByText('480 rows = 460 completed + 5 filtered + 3 failed + 12 skipped').waitFor();
    const headings = await page.getByRole('heading', { level: 2 }).allInnerTexts();
    expect(headings).toEqual([
      'Answers',
      'Finish reasons',
      'Tokens and money',
      'Content filter, prompts',
      'Errors',
      'Calls',
      'Latency',
    ]);
    expect(await page.locator('#sections section').first().innerText()).toMatch(/positive\s+300\s+65\.2 %/);
    await page.getByRole('link', { name: 'summary.json' }).click();
    const summary: unknown = JSON.parse(await page.locator('body').innerText());
    expect(summary).toEqual(beat.summary);
  });

  it('fault 102: the page of a run that goes on shows progress against all rows, time left and workers, and no end', async () => {
    await beats.run(runBeat({ known: 500 }));
    await beats.worker(workerBeat());
    await beats.worker(workerBeat({ id: 'other', host: 'other', queues: [] }));
    const page = await open(`/runs/${RUN}`);
    const rows = page.locator('#rows-text');
    await rows.getByText('50 %: 500 of 1,000 rows known, 480 of them written').waitFor();
    expect(await page.locator('#state').innerText()).toBe('Running');
    const widths = await page.evaluate<number[]>(
      '[...document.querySelectorAll("#stack > span")].map(({ style }) => parseFloat(style.width))',
    );
    expect(widths.reduce((sum, width) => sum + width, 0)).toBeCloseTo(50);
    expect(await page.locator('#figures').innerText()).toMatch(
      /Speed\s+21 rows\/s\s+Time left\s+24 s\s+Running for\s+25 s/,
    );
    expect(await page.locator('#facts').innerText()).toContain('Running since');
    expect(await page.locator('#sections section').first().innerText()).toMatch(
      /^Workers\s+night1, 4711\s+6 in flight, 19 rows\/s$/,
    );
    expect(await page.locator('main').innerText()).not.toMatch(
      /Finished|Duration|480 rows =|\d{4}-\d\d-\d\d[T ]\d/,
    );

    await beats.run(runBeat({ state: 'finished' }));
    await rows.getByText('480 rows = 460 completed').waitFor();
    const dates = (await page.locator('#facts').innerText()).match(/(?:Started|Finished) at\s+.*/g) ?? [];
    expect(dates.map((date) => date.replace(/\d+/g, '0'))).toEqual([
      expect.stringMatching(/^Started at\s+Nov 0, 0, 0:0.[AP]M$/),
      expect.stringMatching(/^Finished at\s+\w+ 0, 0, 0:0.[AP]M$/),
    ]);
    expect(await page.locator('#figures').isVisible()).toBe(false);
  });

  it('opens under an address that has the login in it', async () => {
    await beats.run(runBeat());
    dashboard = await startDashboard({ beats, problems: () => ['jobs/a.yaml is a folder'] });
    const context = await browser.newContext();
    context.setDefaultTimeout(TIMEOUT_MS);
    const page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(error.message));
    const login = `${LOGIN.user}:${encodeURIComponent(LOGIN.password)}`;
    const address = dashboard.url.replace('http://', `http://${login}@`);
    await page.goto(address);
    await page.locator('#running').getByText('500 of 1,000 rows').waitFor();
    await page.locator('#problems').getByText('jobs/a.yaml is a folder').waitFor();
    await page.goto(`${address}/runs/${RUN}`);
    await page.locator('#rows-text').getByText('500 of 1,000 rows').waitFor();
  });

  it('says that there is no such run', async () => {
    const page = await open('/runs/no-such-run');
    await page.getByText('There is no such run on the board').waitFor();
    // The page goes on asking, so it complains again and again until it is closed.
    await page.context().close();
    const missing = complaints.splice(0);
    expect(missing.length).toBeGreaterThanOrEqual(2);
    expect(missing.filter((text) => !text.includes('404'))).toEqual([]);
  });
});
