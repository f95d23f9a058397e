import { expect, it } from 'vitest';
import { section } from '../../src/render/document.js';
import { renderHtml } from '../../src/render/html.js';
import { HOSTILE, sampleDocument } from './documents.js';

const bodyOf = (page: string): string => /<body>[\s\S]*(?=<script>)/.exec(page)?.[0] ?? '';

it('a document is a page: what is told in one box, a heading for each chapter, and a table for each chart', async () => {
  const body = bodyOf(await renderHtml(sampleDocument('x')));
  const box = /<div class="note" data-state="warn">([\s\S]*?)<\/div>/.exec(body)?.[1] ?? '';
  expect(
    box
      .replace(/<[^>]+>/g, ' ')
      .split(/\s+/)
      .filter(Boolean)
      .join(' '),
  ).toBe('Strong x Then x promptmill retry x');
  const headings = [...body.matchAll(/<h2[^>]*>(.*?)<\/h2>/g)].map(([, title]) => title);
  expect(headings).toEqual(['Both', 'Errors', 'Table', 'Matrix', 'Chart', 'Code', 'Rows']);
  expect(body).toContain('<h3>Quota of the run</h3>');
  expect(body).toContain('<td class="same" data-shade="4">5</td><td class="other" data-shade="1">1</td>');
  expect(body).toMatch(
    /<summary>The figures of this chart<\/summary>[\s\S]*<td dir="auto" class="number">1<\/td>/,
  );
  // Of the columns within another, those with something in them.
  expect(body).toContain('<b>text</b> cell 1 x</span> <span dir="auto"><b>code x</b> x</span>');
  expect(body).not.toMatch(/Nothing|never|Files/);
});

it('parts of a whole have bars against the longest, and other shares as long as they are', async () => {
  const body = bodyOf(await renderHtml(sampleDocument('x')));
  const bars = [...body.matchAll(/class="bar"><svg[^>]*><rect data-kind="first" width="([^"]*)"/g)];
  expect(bars.map(([, width]) => Math.round(Number(width)))).toEqual([100, 33, 20]);
});

it('cells of a table with many columns have their names, which a phone shows beside them', async () => {
  const pageWith = async (columns: number): Promise<string> => {
    const names = Array.from({ length: columns }, (_, i) => ({ name: `c${i}`, isNumber: i > 0 }));
    const rows = [{ cells: names.map(({ name }) => name) }];
    const table = { kind: 'table' as const, caption: 'Table', columns: names, rows };
    return bodyOf(
      await renderHtml({ title: 'x', lead: [], rest: '', sections: [section('t', 'T', [table])] }),
    );
  };
  expect(await pageWith(5)).not.toMatch(/class="many"|data-label/);
  const page = await pageWith(6);
  expect(page).toContain('<table class="many">');
  expect(page.match(/data-label="c\d"/g)).toHaveLength(5);
});

it('fault 55: has all texts in it as text alone', async () => {
  const body = bodyOf(await renderHtml(sampleDocument(HOSTILE)));
  expect(body).not.toMatch(/<img|<[^>]*\son\w+=/);
  expect(body).not.toMatch(/(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}]/u);
  expect(body).toContain('&lt;img src=x onerror=');
});
