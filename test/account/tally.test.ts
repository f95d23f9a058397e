import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { percentiles } from '../../src/account/latency.js';
import { scoresOf } from '../../src/account/scores.js';
import {
  AbstainingTally,
  type CountedRow,
  emptyTally,
  fold,
  sumOf,
  type Tally,
} from '../../src/account/tally.js';
import { anyEnded, completed, completionBlocked, failed, promptBlocked, skipped } from './outcomes.js';

const seeded = { seed: 20_251_121, numRuns: 300 };
const throughJson = (tally: Tally): Tally => JSON.parse(JSON.stringify(tally));
const rows = fc.array(anyEnded, { maxLength: 60 });

test('answers count by where they come from, where they are answers', () => {
  const { outcome, answer } = completed('good');
  if (answer === null) throw new Error('it has an answer');
  const again: CountedRow = completed('good', { answer_source: 'asked_again' });
  const none = { ...answer, values: [null], problem: { code: 'answer_not_a_label', message: 'none' } };
  const ended: CountedRow[] = [
    { outcome, answer },
    { outcome, answer: { ...answer, repaired: true } },
    again,
    again,
    { ...again, answer: none },
    { ...again, answer: { ...answer, values: [null], abstained: true } },
    failed('timeout'),
  ];
  expect(fold(emptyTally(), ended).sources).toEqual({ repaired: 1, asked_again: 2 });
  expect(fold(emptyTally(), [{ outcome, answer }])).not.toHaveProperty('sources');
});

describe('labels that are left out afterwards', () => {
  test('are taken from where they come from', () => {
    const again = completed('good', { answer_source: 'asked_again' });
    const tally = new AbstainingTally(fold(emptyTally(), [completed('good'), again, again]));
    tally.abstain('good', null, 1, 'read');
    tally.abstain('good', null, 1, 'asked_again');
    expect(tally.toTally()).toMatchObject({ abstained: 2, sources: { asked_again: 1 } });
    tally.abstain('good', null, 1, 'asked_again');
    expect(tally.toTally()).not.toHaveProperty('sources');
  });

  test('leave their place among the examples to the next rows', () => {
    const gold = { kind: 'label', label: 'good' } as const;
    const wrong = { ...completed('bad'), gold };
    const tally = new AbstainingTally(fold(emptyTally(), [wrong, wrong, wrong, wrong]));
    tally.abstain('bad', gold, 1, 'read');
    tally.addExample('bad', gold, 2);
    tally.addExample('bad', gold, 3);
    tally.addExample('bad', gold, 4);
    expect(scoresOf(tally.toTally().gold ?? { rows: 0, right: 0, unanswered: 0 }).confusions).toEqual([
      { gold: 'good', answer: 'bad', rows: 3, examples: [2, 3] },
      { gold: 'good', answer: '(none)', rows: 1, examples: [1] },
    ]);
  });

  test('are taken from the others where more labels came than are counted by name', () => {
    const labels = Array.from({ length: 102 }, (_, i) => `label ${i}`);
    const tally = new AbstainingTally({
      ...emptyTally(),
      answers: { ...Object.fromEntries(labels.slice(0, 100).map((label) => [label, 1])), '(other)': 2 },
    });
    for (const label of labels) tally.abstain(label, null, 1, 'read');
    const { answers } = tally.toTally();
    expect(Object.keys(answers).filter((name) => name.startsWith('label'))).toEqual([]);
    expect(sumOf(answers)).toBe(102);
  });
});

describe('a tally of any rows', () => {
  test('has as many rows as outcomes, and its statuses add up to them', () => {
    fc.assert(
      fc.property(rows, (ended) => {
        const { total, ...statuses } = fold(emptyTally(), ended).rows;
        expect(total).toBe(ended.length);
        expect(Object.values(statuses).reduce((sum, n) => sum + n)).toBe(ended.length);
      }),
      seeded,
    );
  });

  test('survives JSON unchanged', () => {
    fc.assert(
      fc.property(rows, (ended) => {
        const tally = fold(emptyTally(), ended);
        expect(throughJson(tally)).toEqual(tally);
      }),
      seeded,
    );
  });

  test('is the same when a manifest lay between any two parts of the rows', () => {
    fc.assert(
      fc.property(rows, fc.nat(60), (ended, cut) => {
        const first = throughJson(fold(emptyTally(), ended.slice(0, cut)));
        const resumed = fold(first, ended.slice(cut));
        expect(JSON.stringify(resumed)).toBe(JSON.stringify(fold(emptyTally(), ended)));
      }),
      seeded,
    );
  });

  test('leaves the tally that it starts from as it was', () => {
    const before = fold(emptyTally(), [completed('positive'), promptBlocked]);
    const copy = throughJson(before);
    fold(before, [completed('positive'), promptBlocked, failed('timeout'), skipped]);
    expect(before).toEqual(copy);
  });
});

test('each row is counted where it belongs', () => {
  const odd = { values: [null], counted: [], problem: { code: 'answer_not_a_label', message: '' } };
  const tally = fold(emptyTally(), [
    completed('positive'),
    completed('positive'),
    { ...completed('negative'), answer: odd },
    promptBlocked,
    completionBlocked,
    failed('timeout'),
    failed('bad_row', { attempts: 0, latency_ms: null }),
    skipped,
  ]);
  expect({ ...tally, latency: null }).toEqual({
    rows: { total: 8, completed: 3, filtered: 2, failed: 2, skipped: 1 },
    finish_reasons: { stop: 3, content_filter: 1 },
    answers: { positive: 2 },
    usage: { prompt_tokens: 240, completion_tokens: 11, total_tokens: 251 },
    filters: {
      prompt: { hate: { safe: 4, high: 1, filtered: 1 } },
      completion: { hate: { safe: 3, filtered: 0 }, violence: { medium: 1, filtered: 1 } },
    },
    errors: { answer_not_a_label: 1, content_filter: 2, timeout: 1, bad_row: 1 },
    invalid: { answer_not_a_label: 1 },
    samples: expect.objectContaining({ timeout: expect.any(String) }),
    latency: null,
  });
  expect(percentiles(tally.latency)).toMatchObject({ p50: 401, max: 500 });
});

test('values of properties are counted by name: 20 of each, and 100 properties', () => {
  const row = (properties: [string, string][]) => {
    const { outcome, answer } = completed('x');
    if (answer === null) throw new Error('it has an answer');
    return { outcome, answer: { ...answer, properties } };
  };
  const few = fold(emptyTally(), [row([['worn', 'true']])]);
  const of = (name: string) => Array.from({ length: 22 }, (_, i) => row([[name, String(i)]]));
  const names = Array.from({ length: 200 }, (_, i) => row([[`p${i}`, '1']]));
  const { properties = {} } = fold(throughJson(few), [
    row([['worn', 'true']]),
    ...of('stars'),
    ...names,
    row([['__proto__', '1']]),
  ]);
  expect(properties['worn']).toEqual({ true: 2 });
  expect(Object.keys(properties['stars'] ?? {})).toHaveLength(21);
  expect(properties['stars']).toMatchObject({ '0': 1, '(other)': 2 });
  expect(Object.keys(properties)).toHaveLength(100);
});

test('a text with damage is an error, and no invalid answer', () => {
  const { outcome, answer } = completed('positive');
  if (outcome.status !== 'completed') throw new Error('not completed');
  const cut = { ...outcome, completion: { ...outcome.completion, damaged: 'cut' as const } };
  const tally = fold(emptyTally(), [{ outcome: cut, answer }]);
  expect(tally.errors).toEqual({ text_cut: 1 });
  expect(tally.invalid).toBeUndefined();
});

test('fault 24: a completion without usage adds nothing to the sums', () => {
  const { outcome, answer } = completed('positive');
  if (outcome.status !== 'completed') throw new Error('not completed');
  const silent = { ...outcome, completion: { ...outcome.completion, usage: null, finish_reason: null } };
  const tally = fold(emptyTally(), [{ outcome: silent, answer }]);
  expect(tally.usage).toEqual({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 });
  expect(tally.finish_reasons).toEqual({});
});

test('one message of each error is kept, the first that says anything, in part when it is long', () => {
  const error = (code: string, message: string) => {
    const { outcome, answer } = failed(code);
    return { outcome: { ...outcome, error: { code, message } } as typeof outcome, answer };
  };
  const first = fold(emptyTally(), [error('a', ''), error('a', 'one'), error('b', 'y'.repeat(5000))]);
  const { samples } = fold(JSON.parse(JSON.stringify(first)), [error('a', 'two'), error('__proto__', 'p')]);
  expect(samples?.['a']).toBe('one');
  expect(samples?.['b']).toHaveLength(300);
  expect(Object.keys(samples ?? {})).toEqual(['a', 'b', '__proto__']);
});

test('fault 77: rows with estimated usage are counted, and no sum is more than a number can hold', () => {
  const { outcome, answer } = completed('positive');
  if (outcome.status !== 'completed') throw new Error('not completed');
  const most = Number.MAX_SAFE_INTEGER;
  const usage = { prompt_tokens: most, completion_tokens: 1, total_tokens: most, estimated: true } as const;
  const huge = { outcome: { ...outcome, completion: { ...outcome.completion, usage } }, answer };
  const tally = fold(fold(emptyTally(), [huge, huge]), [huge, completed('positive')]);
  expect(tally.estimated).toBe(3);
  expect(tally.usage.prompt_tokens).toBe(most);
  expect(tally.usage.completion_tokens).toBeLessThan(100);
});

test('filters that the service did not mention leave no trace, and those without severities are counted', () => {
  const silent = completed('positive', { filters: { prompt: null, completion: null } });
  expect(fold(emptyTally(), [silent]).filters).toEqual({ prompt: {}, completion: {} });

  const later = (detected: boolean) =>
    completed('positive', {
      filters: { prompt: { jailbreak: { filtered: false, detected } }, completion: null },
    });
  expect(fold(emptyTally(), [later(true), later(false), later(false)]).filters.prompt).toEqual({
    jailbreak: { detected: 1, not_detected: 2, filtered: 0 },
  });
});

test('a severity named filtered is not counted with the rows that were blocked', () => {
  const odd = (filtered: boolean) =>
    completed('positive', {
      filters: { prompt: { hate: { filtered, severity: 'filtered' } }, completion: null },
    });
  const once = fold(emptyTally(), [odd(false), odd(true)]);
  expect(once.filters.prompt).toEqual({ hate: { '(filtered)': 2, filtered: 1 } });
  expect(fold(once, [odd(true)]).filters.prompt).toEqual({ hate: { '(filtered)': 3, filtered: 2 } });
});

test('fault 9: a label named __proto__ is a label', () => {
  const { answers } = fold(emptyTally(), [
    completed('__proto__'),
    completed('__proto__'),
    completed('toString'),
  ]);
  expect(JSON.stringify(answers)).toBe('{"__proto__":2,"toString":1}');
});

describe('fault 16: the size of a tally does not depend on the input', () => {
  test('100 distinct answers are kept, further ones are counted together', () => {
    const { answers } = fold(
      emptyTally(),
      Array.from({ length: 250 }, (_, n) => completed(`label ${n % 125}`)),
    );
    expect(Object.keys(answers)).toHaveLength(101);
    expect(answers['label 0']).toBe(2);
    expect(answers['label 100']).toBeUndefined();
    expect(answers['(other)']).toBe(50);
  });

  test('a service that never says the same thing twice cannot make it large', () => {
    const noise = (n: number) => `${n} ${'x'.repeat(5000)}`;
    const tally = fold(
      emptyTally(),
      Array.from({ length: 2000 }, (_, n) =>
        n % 2 === 0
          ? failed(noise(n), { latency_ms: n * 1000 })
          : completed(noise(n), {
              filters: {
                prompt: { [noise(n)]: { severity: noise(n) }, hate: { severity: noise(n) } },
                completion: { [noise(n)]: { severity: noise(n), filtered: true } },
              },
            }),
      ),
    );
    expect(JSON.stringify(tally).length).toBeLessThan(100_000);
    expect(tally.rows.total).toBe(2000);
    expect(Object.values(tally.errors).reduce((sum, n) => sum + n)).toBe(1000);
  });
});

describe('latency percentiles', () => {
  const of = (durations: readonly number[]) =>
    percentiles(
      fold(
        emptyTally(),
        durations.map((latency_ms) => completed('positive', { latency_ms })),
      ).latency,
    );

  test('are exact to two digits', () => {
    const { p50, p90, p95, p99, max } = of(Array.from({ length: 10_000 }, (_, n) => n + 1));
    expect(Math.abs((p50 ?? 0) - 5000) / 5000).toBeLessThan(0.01);
    expect(Math.abs((p90 ?? 0) - 9000) / 9000).toBeLessThan(0.01);
    expect(Math.abs((p95 ?? 0) - 9500) / 9500).toBeLessThan(0.01);
    expect(Math.abs((p99 ?? 0) - 9900) / 9900).toBeLessThan(0.01);
    expect(max).toBe(10_000);
  });

  test('never pass the longest call', () => {
    expect(of([1001])).toEqual({ p50: 1001, p90: 1001, p95: 1001, p99: 1001, max: 1001 });
  });

  test('fault 25: a call of two hours is the longest as it was, and an hour in the percentiles', () => {
    const { p50, max } = of([7_200_000]);
    expect(max).toBe(7_200_000);
    expect(Math.abs((p50 ?? 0) - 3_600_000) / 3_600_000).toBeLessThan(0.01);
  });

  test('are unknown before the first call', () => {
    expect(percentiles(fold(emptyTally(), [skipped]).latency)).toEqual({
      p50: null,
      p90: null,
      p95: null,
      p99: null,
      max: null,
    });
  });
});
