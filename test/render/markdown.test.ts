import { expect, it } from 'vitest';
import { type Block, section, type TableRow } from '../../src/render/document.js';
import { renderMarkdown } from '../../src/render/markdown.js';
import { HOSTILE, sampleDocument } from './documents.js';

it('a document is headings, tables and blocks of code', () => {
  const markdown = renderMarkdown(sampleDocument('x'));
  for (const part of [
    '# Title x\n\njob x, deployment\n\n**Strong x**\n\nThen x\n\n```\npromptmill retry x\n```\n\n## Answers\n\n',
    '|  |  | share |\n| --- | --- | --- |\n| good x | 9 | 75\\.0 % |\n| bad x | 3 | 25\\.0 % |\n',
    '| Error | Rows | for example | what to do |\n',
    '| gold \\\\ answer | yes x | no |\n| --- | --- | --- |\n| yes x | 5 | 1 |\n',
    'Rows in a second\\.\n\n| seconds | failed | others |\n| --- | --- | --- |\n| 0 s | 0 | many |\n',
    '````\none x\n\ttwo ```\n````\n',
  ])
    expect(markdown).toContain(part);
  expect(markdown).not.toMatch(/## (Files|Nothing)/);
});

it('a table has a column for the notes of its rows, where there are any', () => {
  const markdownOf = (row: TableRow): string => {
    const columns = [{ name: 'run' }, { name: 'rows' }];
    const table: Block = { kind: 'table', caption: 'Runs', columns, rows: [row] };
    return renderMarkdown({ ...sampleDocument('x'), sections: [section('runs', 'Runs', [table])] });
  };
  expect(markdownOf({ cells: ['a', '1'], note: { text: 'lost', tone: 'bad' } })).toContain(
    '| run | rows |  |\n| --- | --- | --- |\n| a | 1 | lost |\n',
  );
  expect(markdownOf({ cells: ['a', '1'] })).toContain('| run | rows |\n| --- | --- |\n| a | 1 |\n');
});

it('has the rows to look at, wherever they stand, and a few others', () => {
  expect(renderMarkdown(sampleDocument('x')).match(/cell \d+/g)).toEqual(
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12].map((row) => `cell ${row}`),
  );
});

it('fault 55: shows markup, and what hides or reorders text, as text', () => {
  const markdown = renderMarkdown(sampleDocument(HOSTILE));
  expect(markdown).not.toMatch(/(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}]/u);
  const prose = markdown.replace(/^(`{3,})[\s\S]*?^\1$/gm, '');
  expect(prose).not.toMatch(/<img|\]\(javascript|(?<!\\)\*\*b|(?<!\\)`c/);
  const tables = prose.split('\n\n').filter((block) => block.startsWith('| '));
  for (const table of tables) {
    const widths = table.split('\n').map((line) => line.split(/(?<!\\)\|/).length);
    expect(new Set(widths.filter((width) => width !== widths[0])).size).toBeLessThanOrEqual(1);
  }
});
