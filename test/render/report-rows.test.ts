import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type StoredSummary, summarise } from '../../src/account/summary.js';
import { emptyTally } from '../../src/account/tally.js';
import { renderHtml } from '../../src/render/html.js';
import { type ReportTable, reportRows } from '../../src/render/report-rows.js';
import { runDocument } from '../../src/render/run-document.js';
import { runReport } from '../../src/render/run-report.js';
import { DETAILS } from '../account/summary-parts.js';

const folder = mkdtempSync(join(tmpdir(), 'promptmill-report-rows-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Made {
  readonly status: string;
  readonly answer?: string;
  readonly note?: string;
  readonly error?: string;
}

/** The table of an output with these rows, and their summary. */
async function tableOf(rows: readonly Made[]): Promise<ReportTable> {
  const path = join(folder, 'out.csv');
  const lines = rows.map(({ status, answer = '', note = '', error = '' }, i) =>
    [i + 1, note, status, answer, answer, 'stop', error].join(','),
  );
  writeFileSync(path, `id,note,status,answer,text,finish_reason,error_code\n${lines.join('\n')}\n`);
  const counts = (names: readonly (string | undefined)[]): Record<string, number> => {
    const counted: Record<string, number> = {};
    for (const name of names) if (name) counted[name] = (counted[name] ?? 0) + 1;
    return counted;
  };
  const { completed = 0, filtered = 0, failed = 0, skipped = 0 } = counts(rows.map(({ status }) => status));
  const table = await reportRows(path, {
    ...EMPTY,
    rows: { total: rows.length, completed, filtered, failed, skipped },
    answers: counts(rows.map(({ answer }) => answer)),
    answers_invalid: rows.filter(({ error }) => error?.startsWith('answer_')).length,
  });
  if (typeof table === 'string') throw new Error(table);
  return table;
}

const EMPTY: StoredSummary = summarise({
  ...{ run: 'r', job: 'j', deployment: 'd', api_version: 'v', emulated: false, output: 'out.csv' },
  input: { path: 'in.csv', sha256: '0', rows: 0 },
  ...{ started_at: '2026-11-21T02:00:00.000Z', finished_at: '2026-11-21T02:00:00.000Z', duration_s: 0 },
  ...{ stopped: null, missed: null, tally: emptyTally(), prices: null },
  calls: { sent: 0, retried: 0, rate_limited: 0, repeated: 0 },
  details: DETAILS,
});

const times = (n: number, row: (i: number) => Made): Made[] => Array.from({ length: n }, (_, i) => row(i));
const tallied = ({ rows, columns }: ReportTable): Record<string, number> => {
  const answers = rows.map(({ outcome, cells }) => `${outcome} ${cells[columns.indexOf('answer')]}`);
  return Object.fromEntries(
    [...new Set(answers)].map((name) => [name, answers.filter((each) => each === name).length]),
  );
};

describe('the rows of a report', () => {
  it('are all to look at, and as many of each answer, the same each time', async () => {
    const rows = [
      ...times(9_000, () => ({ status: 'completed', answer: 'good' })),
      ...times(3_000, () => ({ status: 'completed', answer: 'bad' })),
      ...times(40, () => ({ status: 'completed', answer: 'rare' })),
      ...times(300, () => ({ status: 'failed', error: 'timeout' })),
      ...times(60, () => ({ status: 'completed', error: 'answer_not_a_label' })),
      ...times(100, () => ({ status: 'skipped' })),
    ];
    const table = await tableOf(rows);
    expect(tallied(table)).toEqual({
      'answered good': 2_300,
      'answered bad': 2_300,
      'answered rare': 40,
      'failed ': 300,
      'invalid ': 60,
    });
    expect(table).toMatchObject({
      records: 12_500,
      is_cut: false,
      columns: ['id', 'note', 'answer', 'text', 'error_code'],
    });
    const numbers = table.rows.map(({ row }) => row);
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    // Not the first ones of each.
    expect(Math.max(...numbers.filter((row) => row <= 9_000))).toBeGreaterThan(8_500);
    expect(await tableOf(rows)).toEqual(table);
  });

  it('of answers that are not counted by their text are a sample of all', async () => {
    const table = await tableOf(times(7_000, (i) => ({ status: 'completed', note: String(i) })));
    expect(table.rows).toHaveLength(5_000);
    expect(table.is_cut).toBe(false);
  });

  it('leave room for others where there are too many to look at, and say so', async () => {
    const table = await tableOf([
      ...times(6_000, () => ({ status: 'failed', error: 'timeout' })),
      ...times(20, () => ({ status: 'filtered', error: 'content_filter' })),
      ...times(1_000, () => ({ status: 'completed', answer: 'good' })),
    ]);
    expect(tallied(table)).toEqual({ 'failed ': 4_480, 'filtered ': 20, 'answered good': 500 });
    expect(table.is_cut).toBe(true);
  });

  it('are short enough for a page, and no character is cut in two', async () => {
    const long = '😀'.repeat(2_000);
    const table = await tableOf(times(5_000, () => ({ status: 'completed', answer: 'good', note: long })));
    const [cell = ''] = table.rows[0]?.cells.slice(1) ?? [];
    expect(cell).toMatch(/^(?:😀)+…$/u);
    expect(cell.length).toBeGreaterThan(100);
  });

  it.each([
    ['markup, quotes, and what is shown by its number', 14, 48, `<b>"'&\u200b\u202e`.repeat(8)],
    ['names that take all the room', 14, 1_000, 'x'],
  ])('leave a page smaller than 5 MB: %s', async (_, columns, name, value) => {
    const path = join(folder, 'wide.csv');
    const names = times(columns, (i) => ({ status: `${i}&${'n'.repeat(name)}`.slice(0, name) }));
    const cells = names.map(() => `"${value.replaceAll('"', '""')}"`).join(',');
    const line = `${cells},completed,${value.replaceAll('"', '')}\n`;
    writeFileSync(
      path,
      `${names.map(({ status }) => status).join(',')},status,answer\n${line.repeat(5_000)}`,
    );
    const summary = { ...EMPTY, rows: { ...EMPTY.rows, total: 5_000, completed: 5_000 } };
    const table = await reportRows(path, summary);
    expect(table).toMatchObject({ records: 5_000, columns: expect.arrayContaining(['answer']) });
    const page = await renderHtml(runDocument(runReport(summary, table)));
    expect(Buffer.byteLength(page)).toBeLessThan(5_000_000);
  });

  it('have the columns of the input whatever these are called', async () => {
    const path = join(folder, 'names.csv');
    writeFileSync(
      path,
      'row,input,error,usage,filters,copied_from,status,answer,text,copied_from_run,abstained\n7,a,b,c,d,e,completed,good,good,f,false\n',
    );
    const table = await reportRows(path, { ...EMPTY, rows: { ...EMPTY.rows, total: 1, completed: 1 } });
    expect(table).toMatchObject({
      columns: [
        'row',
        'input',
        'error',
        'usage',
        'filters',
        'copied_from',
        'copied_from_run',
        'answer',
        'text',
      ],
      rows: [{ cells: ['7', 'a', 'b', 'c', 'd', 'e', 'f', 'good', 'good'] }],
    });
  });

  it.each(['{"row": 1, "status": "compl', '[]'])(
    'are no defect where a record is broken: %s',
    async (line) => {
      const path = join(folder, 'broken.jsonl');
      writeFileSync(path, `${line}\n`);
      await expect(reportRows(path, EMPTY)).rejects.toThrow(`row 1 of ${path} is not as the run wrote it`);
    },
  );

  it('are not known where the output has no column status', async () => {
    const path = join(folder, 'bare.csv');
    writeFileSync(path, 'id,answer\n1,good\n');
    expect(await reportRows(path, EMPTY)).toContain('has no column status');
  });
});
