import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import type { Json, Parameters, Row } from '../../../src/core/model.js';
import type { RowRequest } from '../../../src/prompt/row-request.js';
import { type Inspected, Inspection, type InspectionRules } from '../../../src/run/check/inspection.js';

const RULES: InspectionRules = {
  // A word is a token here.
  count: (prompt) =>
    String(prompt)
      .split(' ')
      .filter((word) => word !== '').length,
  contextWindow: 20,
  dedupe: false,
  isDone: null,
  golds: null,
  goldInPrompt: null,
  tokensPerMinute: null,
  require: ['review', 'product'],
  parameters: { max_tokens: 5 },
  grouping: { chunkSize: 100, chunkBytes: 1_000_000, promptsPerRequest: 1 },
};

const row = (number: number, fields: Record<string, Json> = {}): Row => ({
  number,
  line: number + 1,
  fields: new Map(Object.entries(fields)),
  bytes: 10,
});

const send = (prompt: string, parameters: Parameters | null = null): RowRequest => ({
  kind: 'send',
  prompt,
  parameters,
});

const failed = (code: string, message: string): RowRequest => ({
  kind: 'settled',
  outcome: { status: 'failed', error: { code, message }, attempts: 0, latency_ms: null },
});

const skipped: RowRequest = { kind: 'settled', outcome: { status: 'skipped' } };

function inspected(requests: readonly RowRequest[], rules: Partial<InspectionRules> = {}): Inspected {
  const inspection = new Inspection({ ...RULES, ...rules });
  for (const [i, request] of requests.entries()) inspection.add(row(i + 1, { product: 'x' }), request);
  return inspection.result();
}

describe('an inspection of a job with input.dedupe', () => {
  const dedupe = { dedupe: true, parameters: { max_tokens: 5, temperature: 0 } };

  it('takes copies out of rows to send, tokens and requests', () => {
    const { rows, tokens, requests, duplicates } = inspected(
      [send('one two'), send('one two'), send('three'), send('one two')],
      dedupe,
    );
    expect(rows).toEqual({ total: 4, to_send: 2, skipped: 0, failing: 0, copied: 2 });
    expect(tokens).toEqual({ prompt_tokens: 3, most_completion_tokens: 10 });
    expect(requests).toBe(2);
    expect(duplicates).toMatchObject({ rows: 2, prompt_tokens: 4 });
  });

  it('does not copy what is asked at another temperature', () => {
    const { rows, requests } = inspected(
      [
        send('a', { temperature: 1 }),
        send('a', { temperature: 1 }),
        send('a'),
        send('a', { temperature: 0 }),
      ],
      dedupe,
    );
    expect(rows).toMatchObject({ to_send: 3, copied: 1 });
    expect(requests).toBe(3);
  });
});

describe('an inspection', () => {
  it('adds up exact prompt tokens, and the most that every answer may have', () => {
    const { rows, tokens, requests } = inspected([send('one two'), send('three'), skipped]);
    expect(rows).toEqual({ total: 3, to_send: 2, skipped: 1, failing: 0 });
    expect(tokens).toEqual({ prompt_tokens: 3, most_completion_tokens: 10 });
    expect(requests).toBe(2);
  });

  it('respects what a row sets for itself', () => {
    const { tokens } = inspected([
      send('one', { max_tokens: 7, best_of: 3 }),
      send('one', { best_of: 2 }),
      send('one', { max_tokens: 0 }),
    ]);
    expect(tokens.most_completion_tokens).toBe(7 * 3 + 5 * 2 + 0);
  });

  it('knows that the service generates 16 tokens when nobody says how many', () => {
    const all = { contextWindow: null };
    expect(inspected([send('a')], { ...all, parameters: {} }).tokens.most_completion_tokens).toBe(16);
    expect(inspected([send('a', { max_tokens: null })], all).tokens.most_completion_tokens).toBe(16);
  });

  it('counts the suffix, which the model reads as well', () => {
    const rules = { parameters: { max_tokens: 5, suffix: ' the end' } };
    const { tokens } = inspected([send('a'), send('b'), send('c', { suffix: ' never ever again' })], rules);
    expect(tokens.prompt_tokens).toBe(3 + 3 + 4);
  });

  it('names the rows that will fail, and does not count their tokens', () => {
    const { rows, problems, tokens } = inspected([
      failed('ragged_record', 'the record has 2 cells'),
      failed('bad_json', 'no JSON'),
      failed('ragged_record', 'the record has 9 cells'),
      send('a'),
    ]);
    expect(rows).toEqual({ total: 4, to_send: 1, skipped: 0, failing: 3 });
    expect(problems).toEqual([
      {
        code: 'ragged_record',
        rows: 2,
        examples: [
          { row: 1, line: 2, message: 'the record has 2 cells' },
          { row: 3, line: 4, message: 'the record has 9 cells' },
        ],
      },
      { code: 'bad_json', rows: 1, examples: [{ row: 2, line: 3, message: 'no JSON' }] },
    ]);
    expect(tokens.prompt_tokens).toBeLessThan(2_000_000);
  });

  it('finds a prompt that is too long only together with its suffix', () => {
    const parameters = { max_tokens: 5, suffix: 'x x x' };
    const fits = 'w '.repeat(12);
    const { rows, problems } = inspected([send(fits), send(`${fits} more`)], { parameters });
    expect(rows).toMatchObject({ to_send: 1, failing: 1 });
    expect(problems[0]).toMatchObject({ code: 'context_length_exceeded', examples: [{ line: 3 }] });
  });

  it('holds no prompt against the window of a model that is not known', () => {
    expect(inspected([send('w '.repeat(100))], { contextWindow: null }).rows.failing).toBe(0);
  });

  it('warns of a request that is larger than the whole quota', () => {
    const requests = [send('a b c'), send('a b c', { best_of: 2 })];
    const { rows, warnings } = inspected(requests, { tokensPerMinute: 12 });
    expect(rows).toMatchObject({ to_send: 2, failing: 0 });
    expect(warnings).toMatchObject([{ code: 'request_exceeds_quota', rows: 1, examples: [{ line: 3 }] }]);
    expect(warnings[0]?.examples[0]?.message).toContain('13 tokens');
  });

  it('says which required field of a skipped row is empty', () => {
    const inspection = new Inspection(RULES);
    inspection.add(row(1, { product: 'x', review: ' ' }), skipped);
    inspection.add(row(2, { product: '', review: '' }), skipped);
    const { rows, skipped: found } = inspection.result();
    expect(rows.skipped).toBe(2);
    expect(found.map(({ code, rows, examples }) => [code, rows, examples.map(({ line }) => line)])).toEqual([
      ['review', 2, [2, 3]],
      ['product', 1, [3]],
    ]);
  });

  it('finds whole requests that repeat an earlier one, and what they take', () => {
    const { duplicates } = inspected([
      send('one two'),
      send('one two', { max_tokens: 1 }),
      send('one two'),
      send('two'),
      send('one two', { max_tokens: 1 }),
    ]);
    expect(duplicates).toEqual({
      rows: 2,
      at_least: false,
      prompt_tokens: 4,
      most_completion_tokens: 6,
      examples: [
        { line: 4, same_as_line: 2 },
        { line: 6, same_as_line: 3 },
      ],
    });
  });

  it('keeps the first prompt with the parameters that it is sent with, and the longest one', () => {
    const found = inspected([
      skipped,
      send('one two', { temperature: 0 }),
      send('one two three'),
      send('four'),
    ]);
    expect(found.first_prompt).toEqual({
      row: 2,
      line: 3,
      tokens: 2,
      parameters: { max_tokens: 5, temperature: 0 },
      text: 'one two',
    });
    expect(found.longest_prompt).toEqual({ row: 3, line: 4, tokens: 3 });
  });

  it('names a hundred rows of a kind, and counts the others', () => {
    const { problems } = inspected(Array.from({ length: 250 }, () => failed('bad_json', 'no JSON')));
    expect(problems).toMatchObject([{ rows: 250 }]);
    expect(problems[0]?.examples.length).toBe(100);
  });
});

it('fault 16: the last of a million rows leave nothing behind on the heap', () => {
  const inspection = new Inspection({ ...RULES, count: (text) => text.length, contextWindow: null });
  const addUpTo = (last: number): void => {
    for (let number = inspection.rows + 1; number <= last; number++) {
      const failing = failed('bad_json', `line ${number} is no JSON object`);
      const request = [failing, skipped, send(`a prompt about ${number}`), send(`and about ${number}`)][
        number % 4
      ];
      if (request !== undefined) inspection.add(row(number), request);
    }
  };
  addUpTo(800_000);
  const before = held();
  addUpTo(1_000_000);
  expect(held() - before).toBeLessThan(2_000_000);
  expect(inspection.result().rows).toEqual({
    total: 1_000_000,
    to_send: 500_000,
    skipped: 250_000,
    failing: 250_000,
  });
});

/** Bytes of the heap in use after everything that can be collected is collected. */
function held(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed;
}
