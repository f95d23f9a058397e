import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { scoresOf } from '../../src/account/scores.js';
import { type StoredSummary, summarise } from '../../src/account/summary.js';
import { emptyTally } from '../../src/account/tally.js';
import { answerReader } from '../../src/answer/answer.js';
import { goldColumns } from '../../src/answer/gold.js';
import { type GoldMap, goldMapOf } from '../../src/answer/gold-map.js';
import type { AnswerSpec } from '../../src/core/answer-spec.js';
import { ANY_JOB, type RecordedJob } from '../../src/output/reader.js';
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

const namesOf = ({ columns }: ReportTable): string[] => columns.map(({ name }) => name);
const whichRows = (table: ReportTable): string => {
  const { sections } = runDocument(runReport(EMPTY, table));
  const texts = sections
    .find(({ id }) => id === 'rows')
    ?.blocks.flatMap((block) => ('text' in block ? block.text : []));
  return texts?.[1] ?? '';
};
const times = (n: number, row: (i: number) => Made): Made[] => Array.from({ length: n }, (_, i) => row(i));
const tallied = ({ rows, columns }: ReportTable): Record<string, number> => {
  const place = columns.findIndex(({ name }) => name === 'answer');
  const answers = rows.map(({ outcome, cells }) => `${outcome} ${cells[place]}`);
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
      'answered good': 800,
      'answered bad': 800,
      'answered rare': 40,
      'failed ': 300,
      'invalid ': 60,
    });
    expect(table).toMatchObject({
      records: 12_500,
      outcomes: { invalid: 60, failed: 300, answered: 12_040, skipped: 100 },
      answers: { good: 9_000, bad: 3_000, rare: 40 },
    });
    expect(namesOf(table)).toEqual(['answer', 'text', 'error_code', 'id', 'note']);
    const numbers = table.rows.map(({ row }) => row);
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    // Not the first ones of each.
    expect(Math.max(...numbers.filter((row) => row <= 9_000))).toBeGreaterThan(8_500);
    expect(await tableOf(rows)).toEqual(table);
  });

  it('of answers that are not counted by their text are a sample of all', async () => {
    const table = await tableOf(times(3_000, (i) => ({ status: 'completed', note: String(i) })));
    expect(table.rows).toHaveLength(2_000);
    expect(table.answers).toEqual({});
  });

  it('leave room for others where there are too many to look at, and say so', async () => {
    const table = await tableOf([
      ...times(6_000, () => ({ status: 'failed', error: 'timeout' })),
      ...times(20, () => ({ status: 'filtered', error: 'content_filter' })),
      ...times(1_000, () => ({ status: 'completed', answer: 'good' })),
    ]);
    expect(tallied(table)).toEqual({ 'failed ': 1_480, 'filtered ': 20, 'answered good': 500 });
    expect(table.outcomes).toEqual({ filtered: 20, failed: 6_000, answered: 1_000 });
    expect(whichRows(table)).toBe(
      '2,000 of the 7,020 rows of the output: 1,480 of 6,000 failed, all others that need a look, a sample of the rest.',
    );
  });

  it('are short enough for a page, and no character is cut in two', async () => {
    const long = '😀'.repeat(2_000);
    const table = await tableOf(times(2_100, () => ({ status: 'completed', answer: 'good', note: long })));
    const cell = table.rows[0]?.cells[namesOf(table).indexOf('note')] ?? '';
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
      `${names.map(({ status }) => status).join(',')},status,answer\n${line.repeat(2_100)}`,
    );
    const summary = { ...EMPTY, rows: { ...EMPTY.rows, total: 2_100, completed: 2_100 } };
    const table = await reportRows(path, summary);
    if (typeof table === 'string') throw new Error(table);
    expect(namesOf(table)).toContain('answer');
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
    if (typeof table === 'string') throw new Error(table);
    const inputs = ['row', 'input', 'error', 'usage', 'filters', 'copied_from'];
    expect(namesOf(table)).toEqual(['answer', 'copied_from_run', 'text', ...inputs]);
    expect(table.rows[0]?.cells).toEqual(['good', 'f', '', '7', 'a', 'b', 'c', 'd', 'e']);
  });

  describe('with right answers', () => {
    const answer: AnswerSpec = { kind: 'labels', labels: ['good', 'bad'] };
    const job = (spec: AnswerSpec, gold: string, goldMap: GoldMap | null = null): RecordedJob => {
      const from = goldColumns({ gold, goldMap, goldParts: null, answer: spec }) ?? undefined;
      return { ...ANY_JOB, spec, answer: answerReader(spec), gold: from };
    };
    const written = (name: string, text: string): string => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const summary = (total: number, answers: Record<string, number> = {}): StoredSummary => ({
      ...EMPTY,
      ...{ rows: { ...EMPTY.rows, total, completed: total }, answers },
      details: { ...EMPTY.details, prompt: '{{! note }}About {{& shop }}:\n{{{ Review Text }}}' },
    });
    const read = async (...args: Parameters<typeof reportRows>): Promise<ReportTable> => {
      const table = await reportRows(...args);
      if (typeof table === 'string') throw new Error(table);
      return table;
    };

    it('say which are wrong, and refusals apart from invalid answers; first comes what the prompt has', async () => {
      const header = 'id,stars,Review Text,shop,status,answer,text,refusal,error_code,confidence';
      const path = written(
        'gold.csv',
        `${header}
1,5,a,x,completed,good,good,,,0.9
2,1,b,x,completed,good,Good!,,,0.8
3,,c,x,completed,bad,bad,,,0.7
4,4,d,x,completed,,,I cannot,answer_refused,
5,5,e,x,completed,,what,,answer_not_a_label,
6,1,f,x,failed,,,,timeout,
7,3,g,x,completed,bad,bad,,,0.6
`,
      );
      const map = goldMapOf({ good: [4, 5], bad: [1, 2] });
      const counted = {
        ...summary(7, { good: 2, bad: 2 }),
        ...{ answers_invalid: 1, answers_refused: 1 },
        rows: { ...EMPTY.rows, total: 7, completed: 6, failed: 1 },
      };
      const table = await read(path, counted, job(answer, 'stars', map));
      expect(table.rows.map(({ outcome, gold }) => `${outcome} ${gold}`)).toEqual([
        ...[
          'right good',
          'wrong bad',
          'answered ',
          'refused good',
          'invalid good',
          'failed bad',
          'answered ',
        ],
      ]);
      expect(table.columns.map(({ name, of }) => `${of} ${name}`)).toEqual([
        ...['answer answer', 'confidence confidence', 'prompt Review Text', 'prompt shop'],
        ...['came text', 'came refusal', 'came error_code', 'row id', 'row stars'],
      ]);
      expect(table.rows[1]?.cells).toEqual(['good', '0.8', 'b', 'x', 'Good!', '', '', '2', '1']);
      expect(table).toMatchObject({
        outcomes: { wrong: 1, invalid: 1, refused: 1, failed: 1, right: 1, answered: 2 },
        answers: { good: 2, bad: 2 },
      });
      // The job is not known: nothing is said to be wrong.
      const { rows, outcomes } = await read(path, counted);
      expect(rows.every(({ gold }) => gold === '')).toBe(true);
      expect(outcomes).toEqual({ invalid: 1, refused: 1, failed: 1, answered: 4 });
    });

    it('have the wrong ones before all others where not all fit', async () => {
      const lines = times(6_000, (i) => ({
        status: `${i % 60 === 0 ? 'bad' : 'good'},completed,good,good,`,
      }));
      const path = written(
        'wrong.csv',
        `truth,status,answer,text,error_code\n${lines.map(({ status }) => status).join('\n')}\n`,
      );
      const scores = { answered: 6_000, answered_accuracy: 5_900 / 6_000 };
      const before = summary(6_000, { good: 6_000 });
      const scored = {
        ...before,
        scores: { ...scoresOf({ rows: 6_000, right: 5_900, unanswered: 0 }), ...scores },
      };
      const table = await read(path, scored, job(answer, 'truth'));
      expect(tallied(table)).toEqual({ 'wrong good': 100, 'right good': 1_900 });
      // The right answer stands in its own column, and the input's is left out.
      expect(namesOf(table)).not.toContain('truth');
      expect(table.rows[0]?.gold).toBe('bad');
    });

    it('count labels that are formulas of a spreadsheet, or named as what has no label', async () => {
      const spec: AnswerSpec = { kind: 'labels', labels: ['+', '(none)', 'valid'] };
      const path = written(
        'formulas.csv',
        "id,truth,status,answer,text\n1,'+,completed,'+,'+\n2,'+,completed,(none),(none)\n3,valid,completed,valid,valid\n",
      );
      const table = await read(path, summary(3, { '+': 1, '(none)': 1, valid: 1 }), job(spec, 'truth'));
      expect(table.answers).toEqual({ '+': 1, '(none)': 1, valid: 1 });
      expect(namesOf(table)).not.toContain('truth');
      expect(table.rows[0]).toMatchObject({ outcome: 'right', gold: '+', cells: ['+', '', '1'] });
    });

    it('count each of several labels, and read them from lines too', async () => {
      const path = written(
        'several.jsonl',
        [
          {
            row: 1,
            input: { truth: 'good;bad' },
            status: 'completed',
            answer: ['bad', 'good'],
            text: 'good, bad',
          },
          { row: 2, input: { truth: 'none' }, status: 'completed', answer: ['good'], text: 'good' },
        ]
          .map((line) => `${JSON.stringify(line)}\n`)
          .join(''),
      );
      const spec: AnswerSpec = { ...answer, multiple: true };
      const table = await read(path, summary(2, { good: 2, bad: 1 }), job(spec, 'truth'));
      expect(table).toMatchObject({ outcomes: { right: 1, wrong: 1 }, answers: { good: 2, bad: 1 } });
      expect(table.rows.map(({ gold, cells: [said] }) => [gold, said])).toEqual([
        ['good;bad', 'bad;good'],
        ['none', 'good'],
      ]);
    });

    it('have an answer of several columns before the prompt, and its right values by name', async () => {
      const spec: AnswerSpec = {
        kind: 'json',
        schema: { type: 'object', properties: { mood: {}, topic: {} } },
      };
      const path = written(
        'json.csv',
        'truth,status,mood,topic,text,error_code,error_message\n"{""mood"":""good""}",completed,bad,price,"{}",,\n',
      );
      const table = await read(path, summary(1), job(spec, 'truth'));
      expect(table.rows[0]).toMatchObject({ outcome: 'wrong', gold: '{"mood":"good"}' });
      expect(namesOf(table).slice(0, 2)).toEqual(['mood', 'topic']);
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
