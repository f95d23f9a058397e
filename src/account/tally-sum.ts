import type { AnswerSource } from '../model.js';
import { goldOfBoth } from './gold-tally.js';
import { latencyOfBoth } from './latency.js';
import { Counter, type Counts, type FilterCounts, LIMITS, type Tally } from './tally.js';

/**
 * A tally without some of the rows that are counted in it. What their calls took stays: they were made, and paid for.
 * @param gone of these rows
 */
export const without = (tally: Tally, gone: Tally): Tally => ofBoth(tally, gone, -1);

/** A tally with further rows in it. */
export function withRows(tally: Tally, more: Tally): Tally {
  const sum = (name: 'prompt_tokens' | 'completion_tokens' | 'total_tokens'): number =>
    Math.min(tally.usage[name] + more.usage[name], Number.MAX_SAFE_INTEGER);
  const estimated = (tally.estimated ?? 0) + (more.estimated ?? 0);
  return {
    ...ofBoth(tally, more, 1),
    usage: {
      prompt_tokens: sum('prompt_tokens'),
      completion_tokens: sum('completion_tokens'),
      total_tokens: sum('total_tokens'),
    },
    ...(estimated > 0 && { estimated }),
    latency: latencyOfBoth(tally.latency, more.latency),
  };
}

/** Nothing but the names that a tally counts: rows that are folded into them have the same names, and the same `(other)`. */
export const namesOf = ({
  answers,
  errors,
  finish_reasons,
  invalid,
}: Tally): Pick<Tally, 'answers' | 'errors' | 'finish_reasons' | 'invalid'> => ({
  answers: zeros(answers),
  errors: zeros(errors),
  finish_reasons: zeros(finish_reasons),
  ...(invalid && { invalid: zeros(invalid) }),
});

const zeros = (counts: Counts): Counts => Object.fromEntries(Object.keys(counts).map((name) => [name, 0]));

/** Of what is counted of rows; usage and latency are those of the first. */
function ofBoth(a: Tally, b: Tally, sign: 1 | -1): Tally {
  const {
    without_confidence: _w,
    abstained: _a,
    sources: _s,
    invalid: _i,
    samples: _m,
    reused: _r,
    gold: _g,
    ...always
  } = a;
  const sum = (x = 0, y = 0): number => Math.max(0, x + sign * y);
  const counts = (x: Counts | undefined, y: Counts | undefined, limit: number): Counts =>
    countsOfBoth(x ?? {}, y ?? {}, sign, limit);
  const rows = {
    completed: sum(a.rows.completed, b.rows.completed),
    filtered: sum(a.rows.filtered, b.rows.filtered),
    failed: sum(a.rows.failed, b.rows.failed),
    skipped: sum(a.rows.skipped, b.rows.skipped),
  };
  const errors = counts(a.errors, b.errors, LIMITS.errors);
  const invalid = counts(a.invalid, b.invalid, LIMITS.errors);
  const sources: { readonly [source in AnswerSource]?: number } = counts(
    a.sources,
    b.sources,
    Number.POSITIVE_INFINITY,
  );
  const withoutConfidence = sum(a.without_confidence, b.without_confidence);
  const abstained = sum(a.abstained, b.abstained);
  // The first message of a code that nobody has any more says nothing.
  const samples = Object.entries({ ...b.samples, ...a.samples }).filter(([code]) => errors[code]);
  const reused = {
    copied: sum(a.reused?.copied, b.reused?.copied),
    carried: sum(a.reused?.carried, b.reused?.carried),
    failed: sum(a.reused?.failed, b.reused?.failed),
  };
  const gold = goldOfBoth(a.gold, b.gold, sign);
  return {
    ...always,
    rows: { total: rows.completed + rows.filtered + rows.failed + rows.skipped, ...rows },
    finish_reasons: counts(a.finish_reasons, b.finish_reasons, LIMITS.finishReasons),
    answers: counts(a.answers, b.answers, LIMITS.answers),
    filters: {
      prompt: filtersOfBoth(a.filters.prompt, b.filters.prompt, sign),
      completion: filtersOfBoth(a.filters.completion, b.filters.completion, sign),
    },
    errors,
    ...(isAny(invalid) && { invalid }),
    ...(withoutConfidence > 0 && { without_confidence: withoutConfidence }),
    ...(abstained > 0 && { abstained }),
    ...(isAny(sources) && { sources }),
    ...(samples.length > 0 && { samples: Object.fromEntries(samples) }),
    ...(reused.copied + reused.carried > 0 && { reused }),
    ...(gold.rows + gold.unanswered > 0 && { gold }),
  };
}

function countsOfBoth(a: Counts, b: Counts, sign: 1 | -1, limit: number): Counts {
  const counter = new Counter(a, limit);
  for (const [name, times] of Object.entries(b)) {
    if (sign === 1) counter.add(name, times);
    else counter.remove(name, times);
  }
  const now = counter.toCounts();
  // A name keeps its place until rows are added: what is in `(other)` stays there.
  if (sign === -1) return { ...zeros(a), ...now };
  return Object.fromEntries(Object.entries(now).filter(([, times]) => times > 0));
}

function filtersOfBoth(a: FilterCounts, b: FilterCounts, sign: 1 | -1): FilterCounts {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])].slice(0, LIMITS.categories + 1);
  return Object.fromEntries(
    names.map((name) => {
      const counts = countsOfBoth(a[name] ?? {}, b[name] ?? {}, sign, LIMITS.severities + 1);
      return [name, { ...counts, filtered: counts['filtered'] ?? 0 }];
    }),
  );
}

const isAny = (counts: object): boolean => Object.keys(counts).length > 0;
