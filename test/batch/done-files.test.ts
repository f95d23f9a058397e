import { appendFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DoneFiles } from '../../src/batch/done-files.js';
import type { Row } from '../../src/core/model.js';
import { csv } from '../../src/output/csv.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody } from '../support/scripted-service.js';

const spec = {
  ...{ name: 'd', operation: 'completions', deployment: 'd', apiVersion: 'v', style: 'openai', timeoutMs: 1 },
} as const;
const job = {
  endpoints: [{ spec }],
  parametersByOperation: { completions: {} },
  output: { path: 'out.csv', format: csv, formulas: 'protect', columns: null },
} as unknown as Parameters<typeof DoneFiles.open>[1];

const line = (custom_id: string, text: string): string =>
  `${JSON.stringify({ custom_id, response: { status_code: 200, body: completionBody({ text }) }, error: null })}\n`;

const row = (number: number): Row => ({
  ...{ number, line: number, bytes: 1, fields: new Map([['custom_id', `r-${number}`]]) },
});
const request = { prompt: 'p', parameters: null };

describe('the files of known answers', () => {
  let work: Workplace;
  let done: DoneFiles | null = null;
  beforeEach(() => {
    work = new Workplace();
  });
  afterEach(() => {
    done?.close();
    work.remove();
  });

  const open = async (text: string): Promise<DoneFiles> => {
    work.write('results.jsonl', text);
    done = await DoneFiles.open([work.path('results.jsonl')], job, AbortSignal.timeout(20_000));
    return done;
  };
  const textOf = (known: DoneFiles, number: number): string | null | undefined =>
    known.answerTo(row(number), request)?.outcome.completion?.text;

  it('find each answer, however many and long they are, with a byte-order mark and without a last line break', async () => {
    const numbers = Array.from({ length: 5000 }, (_, i) => i + 1);
    const text = (number: number) => `answer ${number} ${'é'.repeat(number === 77 ? 200_000 : number % 40)}`;
    const lines = numbers.map((number) => line(`r-${number}`, text(number))).reverse();
    const known = await open(`\ufeff${lines.join('')}`.trimEnd());
    for (const number of numbers) known.offer(row(number));
    known.choose(4000);
    expect(known.texts).toEqual([`${work.path('results.jsonl')}: 4,000 rows are answered already`]);
    for (const number of [1, 2, 77, 3999, 4000, 78]) expect(textOf(known, number)).toBe(text(number));
    expect(textOf(known, 4001)).toBeUndefined();
    expect(textOf(known, 5001)).toBeUndefined();
  });

  it('find those of a sample by its numbers', async () => {
    const known = await open(
      [2, 3, 5, 8, 9].map((number) => line(`r-${number}`, `answer ${number}`)).join(''),
    );
    for (let number = 1; number <= 10; number++) known.offer(row(number));
    known.choose([1, 3, 4, 8, 10]);
    expect([1, 2, 3, 4, 5, 8].map((number) => textOf(known, number))).toEqual([
      ...[undefined, 'answer 3', undefined, 'answer 8', undefined, undefined],
    ]);
  });

  it('refuse a line that no answer is as long as', async () => {
    await expect(open(`{"custom_id":"${'x'.repeat(40 * 2 ** 20)}"}`)).rejects.toMatchObject({
      code: 'record_too_large',
    });
  });

  it('take no result of our own for another row that has its number', async () => {
    const ours = (number: number, note: string, id?: string) => {
      const promptmill = { row: number, input: { id, note }, status: 'completed' };
      const response = { status_code: 200, body: completionBody({ text: `about ${note}` }) };
      const ids = { id: `batch_req_promptmill_${number}`, custom_id: id ?? String(number) };
      return `${JSON.stringify({ ...ids, response, error: null, promptmill })}\n`;
    };
    // Of a sample, and the second line is lost.
    const known = await open([ours(1, 'third'), ours(3, 'note 3'), ours(4, 'old', 'an-id')].join(''));
    const noted = (number: number): Row => ({
      ...row(number),
      fields: new Map([['note', `note ${number}`]]),
    });
    for (let number = 1; number <= 3; number++) known.offer(noted(number));
    known.offer({ ...row(4), fields: new Map(Object.entries({ id: 'an-id', note: 'new' })) });
    known.choose(4);
    expect([1, 2, 3, 4].map((number) => textOf(known, number))).toEqual([
      ...[undefined, undefined, 'about note 3', 'about old'],
    ]);
  });

  it('refuse what is no file', async () => {
    await expect(DoneFiles.open([work.path('.')], job, AbortSignal.timeout(20_000))).rejects.toMatchObject({
      code: 'done_unreadable',
    });
  });

  it('refuse a packed file whose name does not say so: all its rows would be paid for again', async () => {
    writeFileSync(work.path('packed.jsonl'), gzipSync(line('r-1', 'answer 1')));
    const opened = DoneFiles.open([work.path('packed.jsonl')], job, AbortSignal.timeout(20_000));
    await expect(opened).rejects.toThrow('it is packed, and its name does not end in .gz');
  });

  it('stop the run when they were changed', async () => {
    const known = await open(line('r-1', 'answer 1'));
    known.offer(row(1));
    known.choose(1);
    expect(textOf(known, 1)).toBe('answer 1');
    appendFileSync(work.path('results.jsonl'), line('r-2', 'answer 2'));
    expect(() => known.answerTo(row(1), request)).toThrow(expect.objectContaining({ code: 'done_changed' }));
  });
});
