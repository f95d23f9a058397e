import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import axe, { type AxeResults } from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { section } from '../../src/render/document.js';
import { renderHtml } from '../../src/render/html.js';
import { runDocument } from '../../src/render/run-document.js';
import { startChromium } from '../ops/web/chromium.js';
import { describeInChromium } from '../ops/web/in-chromium.js';
import { MARKUP, type SampleName, sampleReport } from './sample-reports.js';

/** A busy machine takes its time; only what hangs is to fail. */
const TIMEOUT_MS = 90_000;

const WIDE = { width: 1200, height: 900 };
const PHONE = { width: 360, height: 800 };

const rendered = new Map<SampleName, Promise<string>>();
/** The page of a sample, rendered once. */
function pageOf(name: SampleName): Promise<string> {
  const page = rendered.get(name) ?? renderHtml(runDocument(sampleReport(name)));
  rendered.set(name, page);
  return page;
}

describe('the page as a file', () => {
  it('allows its own style and script by their digests, and nothing else', async () => {
    const page = await pageOf('hostile');
    const [, policy = ''] = /<meta http-equiv="Content-Security-Policy" content="([^"]*)">/.exec(page) ?? [];
    const digestOf = (tag: string): string => {
      const start = page.indexOf(`<${tag}>`) + tag.length + 2;
      const text = page.slice(start, page.indexOf(`</${tag}>`, start));
      return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    };
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `style-src ${digestOf('style')}`,
      `script-src ${digestOf('script')}`,
      "base-uri 'none'",
      "form-action 'none'",
    ]);
    expect(page).not.toMatch(/<[^>]* style="/);
    expect(page.indexOf('Content-Security-Policy')).toBeLessThan(page.indexOf('<title>'));
  });

  it('is smaller than 5 MB with 2,000 rows', async () => {
    expect((await pageOf('failures')).length).toBeLessThan(5_000_000);
  });
});

describeInChromium('the page in a browser', () => {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-page-'));
  let browser: Browser;
  /** What the page asked for, what its own rules kept from running, and what failed. */
  const complaints: string[] = [];

  beforeAll(async () => {
    browser = await startChromium();
  });
  afterAll(async () => {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
  });
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close();
    expect(complaints.splice(0)).toEqual([]);
  });

  const open = async (name: SampleName, options: BrowserContextOptions = {}, hash = ''): Promise<Page> =>
    openText(name, await pageOf(name), options, hash);

  async function openText(
    name: string,
    text: string,
    options: BrowserContextOptions = {},
    hash = '',
  ): Promise<Page> {
    const file = join(folder, `${name}.html`);
    writeFileSync(file, text);
    const context = await browser.newContext({ viewport: WIDE, ...options });
    context.setDefaultTimeout(TIMEOUT_MS);
    const page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (message) => complaints.push(message.text()));
    page.on('request', (request) => {
      if (request.url() !== `file://${file}`) complaints.push(`asks for ${request.url()}`);
    });
    await page.goto(`file://${file}${hash}`);
    return page;
  }

  async function violations(page: Page): Promise<string[]> {
    await page.evaluate(axe.source);
    const { violations, passes } = await page.evaluate<AxeResults>('axe.run()');
    expect(passes.length).toBeGreaterThan(20);
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
  }

  const rowNumbers = (page: Page) => page.locator('.rows tbody th').allInnerTexts();

  it(
    'has no fault that axe finds, in light, in dark, and on a phone',
    async () => {
      expect(await violations(await open('gold'))).toEqual([]);
      expect(await violations(await open('hostile', { viewport: PHONE, colorScheme: 'dark' }))).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it(
    'fits a screen of 360 pixels and a wide one, whatever is in it',
    async () => {
      // All that the other samples have is in these.
      for (const name of ['gold', 'hostile', 'empty', 'labels', 'long', 'arabic'] as const) {
        const page = await open(name, { viewport: PHONE });
        expect(await page.evaluate('document.documentElement.scrollWidth'), name).toBe(PHONE.width);
        await page.setViewportSize(WIDE);
        expect(await page.evaluate('document.documentElement.scrollWidth'), name).toBe(WIDE.width);
      }
    },
    TIMEOUT_MS,
  );

  it(
    'fault 55: shows markup of rows and models as text, with the table at work and without scripts',
    async () => {
      for (const javaScriptEnabled of [true, false]) {
        const page = await open('hostile', { javaScriptEnabled });
        expect(await page.locator('h1').innerText()).toContain('<img src=x onerror=');
        expect(
          await page
            .locator('body :is(img, a:not([href^="#"]), [onerror], [onclick], [onload], [style*="red"])')
            .count(),
        ).toBe(0);
        expect(await page.locator('.rows tbody tr').count()).toBe(12);
        if (!javaScriptEnabled) continue;
        expect(await page.title()).not.toBe('owned');
        await page.getByRole('searchbox').fill(MARKUP.split('\n')[0] ?? '');
        await page.getByRole('columnheader', { name: 'Answer' }).click();
        await page.getByRole('button', { name: 'failed' }).click();
        await page.getByRole('button', { name: 'all' }).click();
        // A label with markup is chosen as it is.
        await page.locator('[data-column="3"] button').click();
        expect(await page.locator('.rows tbody tr').count()).toBe(12);
        expect(await page.locator('.rows tbody td').nth(1).innerText()).toContain('{{ 7 * 7 }}');
        expect(await page.locator('main :is(img, script)').count()).toBe(0);
        expect(await page.title()).not.toBe('owned');
      }
    },
    TIMEOUT_MS,
  );

  it(
    'sorts, searches and turns pages, with the keyboard alone',
    async () => {
      const page = await open('gold');
      expect(await page.locator('.rows tbody tr').count()).toBe(25);
      const row = page.locator('.rows thead th').first();
      await row.getByRole('button').focus();
      await page.keyboard.press('Enter');
      await page.locator('.rows th[aria-sort="ascending"]').waitFor();
      await page.keyboard.press('Enter');
      await page.locator('.rows th[aria-sort="descending"]').waitFor();
      const numbers = (await rowNumbers(page)).map(Number);
      expect(numbers).toEqual(numbers.toSorted((a, b) => b - a));
      expect(numbers[0]).toBeGreaterThan(500);

      await page.getByRole('searchbox', { name: 'Search these rows' }).focus();
      await page.keyboard.type('R000123');
      expect(await rowNumbers(page)).toEqual(['367']);
      await page.keyboard.press('Control+A');
      await page.keyboard.press('Delete');
      await page.getByRole('link', { name: 'Next' }).focus();
      await page.keyboard.press('Enter');
      expect(await page.getByRole('status').innerText()).toContain('26 to 50 of 200');
    },
    TIMEOUT_MS,
  );

  it(
    'has a chip for each outcome and each label, with the rows of the output, also of those not shown',
    async () => {
      const page = await open('gold');
      const chip = (name: string) => page.getByRole('button', { name });
      const shown = async (column: string) =>
        new Set(await page.locator(`.rows td[data-label="${column}"]`).allInnerTexts());
      const info = () => page.getByRole('status').innerText();
      const pressed = () => page.locator('.choices button[aria-pressed="true"]').allInnerTexts();
      expect(await page.locator('.choices button').allInnerTexts()).toEqual([
        ...['all 1,000', 'answered 160', 'wrong 80', 'failed 80', 'refused 80'],
        ...['positive 80', 'negative 80', 'neutral 80'],
      ]);
      await chip('wrong').focus();
      await page.keyboard.press('Enter');
      expect(await shown('Outcome')).toEqual(new Set(['wrong']));
      expect((await shown('Answer')).size).toBe(3);
      expect(await info()).toContain('of 40 shown here (of 200 in this table); the output has 80 such rows');

      await chip('neutral').focus();
      await page.keyboard.press('Space');
      expect(await pressed()).toEqual(['wrong 80', 'neutral 80']);
      expect([await shown('Outcome'), await shown('Answer')]).toEqual([
        new Set(['wrong']),
        new Set(['neutral']),
      ]);
      expect(await info()).not.toContain('such rows');
      await chip('wrong').click();
      expect(await pressed()).toEqual(['neutral 80']);
      expect((await shown('Outcome')).size).toBeGreaterThan(1);
      await chip('all').click();
      expect(await pressed()).toEqual(['all 1,000']);
      expect(await info()).toContain('of 200 shown here');
    },
    TIMEOUT_MS,
  );

  it(
    'has a chip for a label with the separator of labels in its name',
    async () => {
      const choices = ['a', 'b;c', 'a;b'].map((value, i) => ({ value, rows: 3 - i }));
      const answers = ['a', 'a', 'a;d', 'b;c', 'b;c', 'a;b'];
      const columns = [
        { name: 'Row', isNumber: true },
        { name: 'Answer', choices },
      ];
      const rows = answers.map((answer, i) => ({ cells: [`${i + 1}`, answer], isToLookAt: true }));
      const table = { kind: 'rows' as const, caption: 'Rows', columns, rows };
      const page = await openText(
        'separators',
        await renderHtml({ title: 'Rows', lead: [], rest: '', sections: [section('rows', 'Rows', [table])] }),
      );
      for (const [label, shown] of [
        ['a 3', ['1', '2', '3']],
        ['b;c 2', ['4', '5']],
        ['a;b 1', ['6']],
      ] as const) {
        const chip = page.getByRole('button', { name: label, exact: true });
        await chip.click();
        expect(await rowNumbers(page)).toEqual(shown);
        await chip.click();
      }
    },
    TIMEOUT_MS,
  );

  it(
    'shows the row that its address names, and each row has the address of itself',
    async () => {
      const page = await open('gold', {}, '#row-367');
      const current = page.locator('.rows tr:has([aria-current])');
      expect(await current.locator('th').innerText()).toBe('367');
      expect(await current.evaluate('document.activeElement.id')).toBe('row-367');
      const { y = -1 } = (await current.locator('th').boundingBox()) ?? {};
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y).toBeLessThan(WIDE.height - 20);
      expect(await page.getByRole('status').innerText()).toContain('101 to 125 of 200');

      // It is on the page already: the filters stay.
      await page.getByRole('button', { name: 'wrong' }).click();
      const [, second = ''] = await rowNumbers(page);
      await page.getByRole('link', { name: second, exact: true }).click();
      expect(page.url()).toMatch(new RegExp(`#row-${second}$`));
      expect(await current.locator('th').innerText()).toBe(second);
      expect(await page.getByRole('status').innerText()).toContain('of 40');

      // It is not: they go.
      await page.getByRole('searchbox').fill('R000123');
      await page.evaluate('location.hash = "#row-1"');
      await page.locator('#row-1[aria-current]').waitFor();
      expect(await page.getByRole('searchbox').inputValue()).toBe('');
      expect(await page.getByRole('button', { name: 'all' }).getAttribute('aria-pressed')).toBe('true');
      expect(await page.getByRole('status').innerText()).toContain('1 to 25 of 200');

      await page.evaluate('location.hash = "#row-2"');
      await page.getByText('Row 2 of the output is not among the rows here.').waitFor();
      expect(await current.count()).toBe(0);
    },
    TIMEOUT_MS,
  );

  it(
    'shows where the focus is, at each stop',
    async () => {
      const page = await open('gold');
      const stops = page.locator(
        'a[href]:visible, button:not([tabindex]):visible, input:visible, select:visible, summary:visible, [tabindex="0"]:visible',
      );
      const reached = new Set<string>();
      const everything = await stops.count();
      for (let i = 0; i < everything; i++) {
        await page.keyboard.press('Tab');
        reached.add(
          await page.evaluate('[...document.querySelectorAll("*")].indexOf(document.activeElement) + ""'),
        );
        const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle');
        expect(outline, `the focus is seen at stop ${i + 1}`).not.toBe('none');
      }
      expect(reached.size).toBe(everything);
    },
    TIMEOUT_MS,
  );

  it(
    'is whole without scripts, and says each figure of a chart in a table',
    async () => {
      const page = await open('gold', { javaScriptEnabled: false });
      expect(await page.locator('.rows tbody tr').count()).toBe(200);
      expect(await page.getByRole('searchbox').count()).toBe(0);
      const charts = page.getByRole('img');
      expect(await charts.count()).toBe(6);
      expect(await page.getByRole('img', { name: /^Reliability How often/ }).count()).toBe(1);
      await page.getByText('The figures of this chart').first().click();
      expect(await page.getByRole('table', { name: 'Reliability, the figures' }).innerText()).toContain(
        '98.5 %',
      );
      expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('review-sentiment');
    },
    TIMEOUT_MS,
  );
});
