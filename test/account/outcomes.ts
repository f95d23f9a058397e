import fc from 'fast-check';
import type { CountedRow } from '../../src/account/tally.js';
import type { Gold } from '../../src/answer/gold.js';
import type { Answer, Completed, Failed, FilterResults, Outcome } from '../../src/core/model.js';

const safe: FilterResults = { hate: { filtered: false, severity: 'safe' } };

/** A completed row with a labelled answer. */
export function completed(label: string, overrides: Partial<Completed> = {}): CountedRow {
  const outcome: Completed = {
    status: 'completed',
    attempts: 1,
    latency_ms: 400,
    completion: {
      text: ` ${label}`,
      finish_reason: 'stop',
      usage: { prompt_tokens: 60, completion_tokens: 2, total_tokens: 62 },
      model: 'lm-35-turbo-instruct',
      id: 'cmpl-1',
      created: 1_700_000_000,
    },
    filters: { prompt: safe, completion: safe },
    ...overrides,
  };
  return { outcome, answer: { values: [label], counted: [label], problem: null } };
}

export function failed(code: string, overrides: Partial<Failed> = {}): CountedRow {
  const error = { code, message: `because of ${code}` };
  return { outcome: { status: 'failed', attempts: 1, latency_ms: 30, error, ...overrides }, answer: null };
}

/** The prompt was blocked: no completion, no usage. */
export const promptBlocked: CountedRow = {
  outcome: {
    status: 'filtered',
    attempts: 1,
    latency_ms: 90,
    completion: null,
    filters: { prompt: { hate: { filtered: true, severity: 'high' } }, completion: null },
    error: { code: 'content_filter', message: 'blocked' },
  },
  answer: null,
};

/** The completion was blocked, and is billed. */
export const completionBlocked: CountedRow = {
  outcome: {
    status: 'filtered',
    attempts: 1,
    latency_ms: 500,
    completion: {
      text: null,
      finish_reason: 'content_filter',
      usage: { prompt_tokens: 60, completion_tokens: 5, total_tokens: 65 },
      model: null,
      id: null,
      created: null,
    },
    filters: { prompt: safe, completion: { violence: { filtered: true, severity: 'medium' } } },
    error: { code: 'content_filter', message: 'blocked' },
  },
  answer: null,
};

export const skipped: CountedRow = { outcome: { status: 'skipped' }, answer: null };

// Few names, so that they repeat; some that a plain object would take for its own (fault 9).
const name = fc.constantFrom(
  'stop',
  'length',
  'safe',
  'low',
  '1',
  '__proto__',
  'constructor',
  'hate',
  '(other)',
);
const problem = fc.record({ code: fc.oneof(name, fc.string()), message: fc.string() });
const filterResults: fc.Arbitrary<FilterResults | null> = fc.option(
  fc.dictionary(
    fc.oneof(name, fc.string()),
    fc.record(
      { filtered: fc.boolean(), severity: fc.oneof(name, fc.string()), detected: fc.boolean() },
      { requiredKeys: [] },
    ),
  ),
);
const called = { attempts: fc.nat(9), latency_ms: fc.option(fc.integer({ min: 0, max: 5_000_000 })) };
const filters = fc.record({ prompt: filterResults, completion: filterResults });
const completion = fc.record({
  text: fc.option(fc.string()),
  finish_reason: fc.option(fc.oneof(name, fc.string())),
  usage: fc.option(
    fc.record({ prompt_tokens: fc.nat(5000), completion_tokens: fc.nat(500), total_tokens: fc.nat(5500) }),
  ),
  model: fc.constant(null),
  id: fc.constant(null),
  created: fc.constant(null),
});
const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  fc.record({ status: fc.constant('completed' as const), completion, filters, ...called }),
  fc.record({
    status: fc.constant('filtered' as const),
    completion: fc.option(completion),
    filters,
    error: problem,
    ...called,
  }),
  fc.record({ status: fc.constant('failed' as const), error: problem, ...called }),
  fc.constant({ status: 'skipped' as const }),
);
const answer: fc.Arbitrary<Answer> = fc.record({
  values: fc.array(fc.option(name), { minLength: 1, maxLength: 1 }),
  counted: fc.array(fc.oneof(name, fc.string()), { maxLength: 3 }),
  problem: fc.option(problem),
});

const gold: fc.Arbitrary<Gold> = fc.oneof(
  fc.record({ kind: fc.constant('label' as const), label: name }),
  fc.record({
    kind: fc.constant('json' as const),
    values: fc.array(fc.record({ name, place: fc.constant(0), right: name, isNamed: fc.boolean() }), {
      maxLength: 3,
    }),
  }),
);

/** Any row that ended. */
export const anyEnded: fc.Arbitrary<CountedRow> = fc
  .record({ outcome, answer, gold: fc.option(gold) })
  .map((ended) => (ended.outcome.status === 'completed' ? ended : { ...ended, answer: null }));
