import { describe, expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import type { Origin } from '../../src/core/model.js';
import { csv } from '../../src/output/csv.js';
import { recordFormat } from '../../src/output/format.js';
import { jsonl as JSONL } from '../../src/output/jsonl.js';
import { said } from '../answer/said.js';
import { blockedPrompt, completed, csvRow, failed, jsonlRow, TEXT } from './records.js';

const jsonl = (inputColumns: readonly string[], select?: readonly string[], answer = TEXT) =>
  recordFormat({ format: JSONL, inputColumns, answer, select });

describe('a JSONL record', () => {
  it('is one object on one line, with raw text and all filter categories', () => {
    const format = jsonl(['id']);
    const line = format.format(csvRow({ id: '1' }), completed, TEXT.read(said(completed.completion.text)));
    expect(format.header).toBe('');
    expect(line).toBe(
      '{"row":1,"input":{"id":"1"},"status":"completed","answer":"Good, \\"really\\" good.",' +
        '"text":"\\n Good, \\"really\\" good.","finish_reason":"stop",' +
        '"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8},' +
        '"filters":{"prompt":{"hate":{"filtered":false,"severity":"safe"},"jailbreak":{"filtered":false,"detected":false}},' +
        '"completion":null},"model":"lm-35-turbo-instruct","completion_id":"cmpl-1",' +
        '"created":"2023-11-14T22:13:20Z","attempts":2,"latency_ms":31,"error":null}\n',
    );
  });

  it('of a job that reuses ends with where its outcome was taken from', () => {
    const format = recordFormat({
      format: JSONL,
      inputColumns: ['id'],
      answer: TEXT,
      origins: ['copied_from', 'carried_from'],
    });
    const end = (origin: Origin): string | undefined =>
      format.format(csvRow({ id: '1' }), { ...completed, origin }, null).split('"error":null,')[1];
    expect(end({ copied_from: 17 })).toBe('"copied_from":17,"carried_from":null}\n');
    expect(end({ carried_from: 'a-run' })).toBe('"copied_from":null,"carried_from":"a-run"}\n');
  });

  it('of a job that asks for log probabilities ends with them, as they came', () => {
    const logprobs = { tokens: [' Good'], token_logprobs: [-0.25], top_logprobs: [{ ' Good': -0.25 }] };
    const said = { ...completed, completion: { ...completed.completion, logprobs } };
    const format = recordFormat({ format: JSONL, inputColumns: ['id'], answer: TEXT, logprobs: true });
    const end = (outcome: typeof said | typeof completed, of = format): string | undefined =>
      of.format(csvRow({ id: '1' }), outcome, null).split('"error":null')[1];
    expect(end(said)).toBe(`,"logprobs":${JSON.stringify(logprobs)}}\n`);
    expect(end(completed)).toBe(',"logprobs":null}\n');
    // A row may ask for more than its job; nobody else has the member.
    expect(end(said, jsonl(['id']))).toBe(`,"logprobs":${JSON.stringify(logprobs)}}\n`);
    expect(end(completed, jsonl(['id']))).toBe('}\n');
    expect(jsonl(['id'], ['id']).format(csvRow({ id: '1' }), said, null)).not.toContain('logprobs');
  });

  it('has every member, null where there is nothing to say', () => {
    const empty = {
      answer: null,
      text: null,
      finish_reason: null,
      usage: null,
      filters: { prompt: null, completion: null },
      model: null,
      completion_id: null,
      created: null,
    };
    const row = csvRow({ id: '1' });
    const parsed = (line: string): unknown => JSON.parse(line);
    expect(parsed(jsonl(['id']).format(row, { status: 'skipped' }, null))).toEqual({
      ...{ row: 1, input: { id: '1' }, status: 'skipped' },
      ...empty,
      ...{ attempts: null, latency_ms: null, error: null },
    });
    expect(parsed(jsonl(['id']).format(row, failed, null))).toMatchObject({
      ...empty,
      ...{ attempts: 0, latency_ms: null, error: failed.error },
    });
    expect(parsed(jsonl(['id']).format(row, blockedPrompt, null))).toMatchObject({
      ...empty,
      ...{ status: 'filtered', attempts: 1, error: blockedPrompt.error },
    });
  });

  it('faults 8 and 10: embeds a JSONL row as it was written', () => {
    const source =
      '{"10": 1.50, "id" : 12345678901234567890,\r"x":"\\ud800\\u0000","__proto__":{"b":1,"a":2}}';
    const line = jsonl(['10', 'id']).format(jsonlRow(`  ${source}\r`, []), completed, null);
    expect(line).toContain(`"input":${source.replace('\r', ' ')},"status"`);
    expect(line.slice(0, -1)).not.toMatch(/[\r\n]/);
  });

  it('fault 11: keeps a line that is no object as a string', () => {
    const row = { ...jsonlRow('{"a": nope', []), problem: { code: 'bad_json', message: 'line 4' } };
    expect(JSON.parse(jsonl(['a']).format(row, failed, null)).input).toBe('{"a": nope');
  });

  it('fault 9: keeps the names and the order of CSV columns whatever they are', () => {
    const fields = new Map([
      ['b', '1'],
      ['10', '2'],
      ['__proto__', '3'],
      ['2', '=4'],
    ]);
    const line = jsonl([...fields.keys()]).format({ ...csvRow({}), fields }, completed, null);
    expect(line).toContain('"input":{"b":"1","10":"2","__proto__":"3","2":"=4"},');
  });

  it('has the object of a JSON answer, and null where the text has none', () => {
    const properties = { label: {}, '7': {}, status: {} };
    const answer = answerReader({ kind: 'json', schema: { properties } });
    const line = (text: string): string =>
      jsonl(['id'], ['answer', 'error'], answer).format(csvRow({}), completed, answer.read(said(text)));
    expect(line('{"label": "x", "status": {"a": 1}}')).toBe(
      '{"answer":{"7":null,"label":"x","status":{"a":1}},"error":null}\n',
    );
    expect(JSON.parse(line('none'))).toEqual({
      answer: null,
      error: { code: 'answer_not_json', message: 'the text "none" has no JSON' },
    });
  });

  it('has the list of several labels, which is one cell in CSV', () => {
    const answer = answerReader({ kind: 'labels', labels: ['=a', 'b', 'c'], multiple: true });
    const lines = (text: string): string[] => {
      const read = answer.read(said(text));
      const cell = recordFormat({ format: csv, inputColumns: [], answer, select: ['answer'] });
      return [jsonl([], ['answer'], answer), cell].map((format) =>
        format.format(csvRow({}), completed, read),
      );
    };
    expect(lines('c, b')).toEqual(['{"answer":["b","c"]}\n', 'b;c\n']);
    expect(lines('b and =a')).toEqual(['{"answer":["=a","b"]}\n', "'=a;b\n"]);
    expect(lines('none')).toEqual(['{"answer":[]}\n', 'none\n']);
    expect(lines('d')).toEqual(['{"answer":null}\n', '""\n']);
  });

  it('is reduced to the parts that were selected, in its own order', () => {
    const row = jsonlRow('{"id": 1.50, "review": "a", "n": 2}', [
      ['id', '1.50'],
      ['review', 'a'],
      ['n', 2],
    ]);
    const select = ['answer', 'n', 'id', 'total_tokens'];
    expect(jsonl(['id', 'review', 'n', 'later'], select).format(row, completed, TEXT.read(said(' ok')))).toBe(
      '{"input":{"n":2,"id":1.50},"answer":"ok","usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}\n',
    );
    expect(jsonl(['id'], ['row', 'status', 'input']).format(csvRow({ id: '1' }), completed, null)).toBe(
      '{"row":1,"input":{"id":"1"},"status":"completed"}\n',
    );
  });
});
