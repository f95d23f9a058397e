import { describe, expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import { UsageError } from '../../src/core/errors.js';
import type { Answer, Outcome } from '../../src/core/model.js';
import { hasInput, recordLayout } from '../../src/output/record.js';
import { type Column, recordFacts } from '../../src/output/result-columns.js';
import { said } from '../answer/said.js';
import { blockedPrompt, completed, csvRow, failed, TEXT } from './records.js';

const names = (columns: readonly Column[]): string[] => columns.map((column) => column.name);

/** Column name → value of a record. */
function record(...args: Parameters<typeof recordFacts>): Record<string, unknown> {
  const facts = recordFacts(...args);
  const { columns } = recordLayout({ inputColumns: [], answer: TEXT });
  return Object.fromEntries(columns.map((column) => [column.name, column.value(facts)]));
}

describe('the columns of the record', () => {
  it('are fixed, in their order', () => {
    const categories = ['hate', 'self_harm', 'sexual', 'violence'];
    const filters = ['prompt', 'completion'].flatMap((side) =>
      categories.flatMap((category) => [`${side}_${category}_filtered`, `${side}_${category}_severity`]),
    );
    expect(names(recordLayout({ inputColumns: ['id', 'review'], answer: TEXT }).columns)).toEqual(
      (
        'id review status answer text finish_reason prompt_tokens completion_tokens total_tokens ' +
        `prompt_filtered completion_filtered ${filters.join(' ')} ` +
        'model completion_id created attempts latency_ms error_code error_message'
      ).split(' '),
    );
  });

  it('rename an input column that has the name of a result, and keep it unique', () => {
    const inputColumns = ['status', 'input_status', 'answer', 'id'];
    expect(names(recordLayout({ inputColumns, answer: TEXT }).columns).slice(0, 5)).toEqual([
      'input_input_status',
      'input_status',
      'input_answer',
      'id',
      'status',
    ]);
  });

  it('hold one column for each property of a JSON answer, none with the name of a result', () => {
    const properties = { label: {}, model: {} };
    const answer = answerReader({ kind: 'json', schema: { properties } });
    const { columns } = recordLayout({ inputColumns: ['label'], answer });
    expect(names(columns).slice(0, 5)).toEqual(['input_label', 'status', 'label', 'answer_model', 'text']);
  });

  it('are selected in the order wanted; "answer" stands for all columns of the answer', () => {
    const answer = answerReader({ kind: 'json', schema: { properties: { label: {}, score: {} } } });
    const select = ['answer', 'status', 'id'];
    expect(names(recordLayout({ inputColumns: ['id'], answer, select }).columns)).toEqual([
      'label',
      'score',
      'status',
      'id',
    ]);
  });

  describe('with groups', () => {
    const sure = { ...TEXT, confidenceOf: ['a', 'b'], abstains: true };
    const layoutOf = (select: readonly string[], inputColumns: readonly string[] | null = ['id', 'note']) =>
      recordLayout({ inputColumns, answer: sure, probabilities: true, answerSource: true, select });
    const selected = (select: readonly string[], inputColumns?: readonly string[] | null): string[] =>
      names(layoutOf(select, inputColumns).columns);
    const ALL = names(
      recordLayout({ inputColumns: ['id', 'note'], answer: sure, probabilities: true, answerSource: true })
        .columns,
    );

    it('have those of each group in its place, and none twice', () => {
      expect(selected(['tokens', 'input', 'answer', 'evidence', 'total_tokens', 'error'])).toEqual([
        ...['prompt_tokens', 'completion_tokens', 'total_tokens', 'id', 'note', 'answer'],
        ...['answer_source', 'confidence', 'p_a', 'p_b', 'abstained', 'error_code', 'error_message'],
      ]);
      expect(selected(['call'])).toEqual(['model', 'completion_id', 'created', 'attempts', 'latency_ms']);
    });

    it('leave out what a name with - says, of what stands before it', () => {
      expect(selected(['input', 'call', '-note', '-call', 'model', '-filters'])).toEqual(['id', 'model']);
      expect(selected(['-filters', '-input', 'note'])).toEqual([
        ...ALL.filter(
          (name) => !/_(filtered|severity)$|^(prompt|completion)_filtered$|^(id|note)$/.test(name),
        ),
        'note',
      ]);
    });

    it('keep the number of the row in JSONL, where the list begins with all', () => {
      const { columns, parts, fields } = layoutOf(['-filters', '-note']);
      expect(columns.map(({ part }) => part)).not.toContain('row');
      expect([...parts]).toEqual(expect.arrayContaining(['row', 'input', 'usage']));
      expect(parts).not.toContain('filters');
      expect(fields).toEqual(['id']);
      expect(layoutOf(['-row', '-filters']).parts).not.toContain('row');
      expect(selected(['-filters', 'row']).at(-1)).toBe('row');
    });

    it('are columns where the record has one of their name', () => {
      expect(selected(['tokens', '-filters'], ['tokens', '-filters'])).toEqual(['tokens', '-filters']);
      expect(selected(['-filters', '-tokens'], ['tokens', 'id'])).not.toContain('tokens');
      expect(selected(['-filters', '-tokens'], ['tokens', 'id'])).toContain('total_tokens');
    });

    it('may have none in a job that does not ask for them', () => {
      const select = ['status', 'evidence', '-evidence'];
      expect(names(recordLayout({ inputColumns: [], answer: TEXT, select }).columns)).toEqual(['status']);
    });

    it('say of a column of the input whether it is among them', () => {
      const has = (...select: readonly string[]): boolean => hasInput(select, 'id');
      expect([has('id'), has('input'), has('-filters'), has('-id', 'input')]).toEqual([
        true,
        true,
        true,
        true,
      ]);
      expect([has('note'), has('input', '-id'), has('-input'), has('-id')]).toEqual([
        false,
        false,
        false,
        false,
      ]);
    });

    it('take any name for one of an input of which nothing is known', () => {
      expect(selected(['id', 'answer', 'tokens', '-note', '-total_tokens'], null)).toEqual([
        ...['id', 'answer', 'prompt_tokens', 'completion_tokens'],
      ]);
    });

    it('are told by the nearest name where they are misspelt, and must leave something', () => {
      expect(() => selected(['-fliters'])).toThrow('did you mean "filters"?');
      expect(() => selected(['evidense'])).toThrow('did you mean "evidence"?');
      expect(() => selected(['id', '-input'])).toThrow(
        'output.columns leaves nothing of the record: id, -input',
      );
    });
  });

  it('end with those of where an outcome was taken from, only for a job that reuses', () => {
    const inputColumns = ['copied_from', 'carried_from'];
    const all = names(recordLayout({ inputColumns, answer: TEXT, origins: ['copied_from'] }).columns);
    expect(all.slice(0, 3)).toEqual(['input_copied_from', 'carried_from', 'status']);
    expect(all.at(-1)).toBe('copied_from');
    const select = ['carried_from', 'status'];
    expect(() => recordLayout({ inputColumns: ['id'], answer: TEXT, select })).toThrow('"carried_from"');
    const layout = recordLayout({ inputColumns: ['id'], answer: TEXT, select, origins: ['carried_from'] });
    expect(names(layout.columns)).toEqual(select);
    expect([...layout.parts]).toEqual(['carried_from', 'status']);
  });

  it('say where the answer comes from, only where the job asks, in front of how sure the model is', () => {
    const sure = { ...TEXT, confidenceOf: ['a', 'b'] };
    const layout = recordLayout({ inputColumns: ['answer_source'], answer: sure, answerSource: true });
    expect(names(layout.columns).slice(0, 2)).toEqual(['input_answer_source', 'status']);
    expect(names(layout.columns).slice(-2)).toEqual(['answer_source', 'confidence']);
    expect([...layout.parts].slice(-2)).toEqual(['answer_source', 'confidence']);
    const select = ['answer_source'];
    expect(() => recordLayout({ inputColumns: ['id'], answer: TEXT, select })).toThrow('"answer_source"');
    const read = TEXT.read(said('Good'));
    const shown = (outcome: Outcome, answer: Answer | null) =>
      layout.columns.at(-2)?.value(recordFacts(csvRow({}), outcome, answer));
    expect(shown(completed, read)).toBe('read');
    expect(shown(completed, { ...read, repaired: true })).toBe('repaired');
    expect(shown({ ...completed, answer_source: 'asked_again' }, { ...read, repaired: true })).toBe(
      'asked_again',
    );
    expect([shown(failed, null), shown(blockedPrompt, null)]).toEqual([null, null]);
  });

  it('refuse unknown names, all at once, with the nearest known ones', () => {
    const select = ['reveiw_id', 'staus'];
    expect(() => recordLayout({ inputColumns: ['review_id'], answer: TEXT, select })).toThrow(
      expect.objectContaining({
        constructor: UsageError,
        message:
          'output.columns names "reveiw_id" and "staus", but the record has no such columns; ' +
          'did you mean "review_id" and "status"?',
        hint: expect.stringMatching(/^Columns: review_id, status, answer, .* and 21 more\.$/),
      }),
    );
  });
});

describe('the values of the record', () => {
  it('are what the service said, and null where it did not say', () => {
    expect(record(csvRow({}), completed, TEXT.read(said(completed.completion.text)))).toMatchObject({
      status: 'completed',
      answer: 'Good, "really" good.',
      text: 'Good, "really" good.',
      total_tokens: 8,
      prompt_filtered: false,
      completion_filtered: null,
      prompt_hate_severity: 'safe',
      prompt_violence_filtered: null,
      created: '2023-11-14T22:13:20Z',
      attempts: 2,
      error_code: null,
    });
  });

  it('say that a prompt was blocked even when the service sends no categories', () => {
    expect(record(csvRow({}), blockedPrompt, null)).toMatchObject({
      prompt_filtered: true,
      completion_filtered: null,
      prompt_hate_filtered: null,
      error_code: 'content_filter',
    });
  });

  it('say that a completion was blocked by its finish reason or a category', () => {
    const completion = { ...completed.completion, finish_reason: 'content_filter' };
    expect(record(csvRow({}), { ...completed, completion }, null).completion_filtered).toBe(true);
    const filters = { prompt: {}, completion: { jailbreak: { filtered: true }, hate: { filtered: false } } };
    expect(record(csvRow({}), { ...completed, filters }, null)).toMatchObject({
      prompt_filtered: null,
      completion_filtered: true,
      completion_hate_filtered: false,
    });
  });

  it('are empty for a row that was not called', () => {
    const values = Object.values(record(csvRow({}), { status: 'skipped' }, null));
    expect(values.filter((value) => value !== null)).toEqual(['skipped']);
    expect(record(csvRow({}), failed, null)).toMatchObject({
      attempts: 0,
      latency_ms: null,
      error_code: 'ragged_record',
    });
  });

  it('name the problem of an answer on a completed row', () => {
    const answer = {
      values: [null],
      counted: ['(none)'],
      problem: { code: 'answer_not_a_label', message: 'x' },
    };
    expect(record(csvRow({}), completed, answer)).toMatchObject({
      status: 'completed',
      error_code: 'answer_not_a_label',
    });
  });

  it('leave out a time that is none', () => {
    for (const created of [null, 1e20]) {
      const completion = { ...completed.completion, created };
      expect(record(csvRow({}), { ...completed, completion }, null).created).toBeNull();
    }
  });
});
