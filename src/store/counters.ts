/**
 * What a run counts of its calls, name → in words: the one list. The columns of the ledger, the manifest, the summary, the
 * metrics and the pages are made of it, in this order.
 *
 * These are what a person is shown. What a run says of them never falls, not even where the ledger takes one back.
 */
export const CALL_COUNTS = {
  /** Requests sent to the service, refused and repeated ones included. */
  sent: 'sent',
  /** Requests sent again after a fault that may pass. */
  retried: 'retried',
  /** Requests refused with 429. */
  rate_limited: 'rate limited (429)',
  /** Rows paid for, or perhaps paid for, once more than needed; a row counts once for each time too many. */
  repeated: 'repeated, perhaps paid twice',
} as const;

/** These rise when rows are reserved, and fall when their calls end. */
const TOKEN_COUNTS = {
  /**
   * Tokens of prompts that were billed or may yet be: the usage of the calls that ended, and, under a budget, the most
   * that the others can take. A call of which nobody knows whether it was billed stays in it with that.
   */
  prompt_tokens: 'tokens of prompts',
  /** The same of completions. */
  completion_tokens: 'tokens of completions',
} as const;

/** Counts of calls over a whole run, as the summary shows them. */
export type CallCounts = { readonly [name in keyof typeof CALL_COUNTS]: number };

/** What is added up of the calls of a run, and what the ledger keeps a counter of. */
export type Counts = CallCounts & { readonly [name in keyof typeof TOKEN_COUNTS]: number };

/** What a run counts while it goes on. */
export interface Counters extends Counts {
  /**
   * Rows of calls that were reserved and whose end nobody has told; the ledger has them by name. A call that is never heard of
   * again, because its process was killed, stays in it: it may have been paid for.
   */
  readonly in_flight: number;
}

/** The names of the counts that a person is shown. */
export const CALLS = namesOf(CALL_COUNTS);

/** The names under which the ledger keeps a run's counters. */
export const COUNTERS = [...CALLS, ...namesOf(TOKEN_COUNTS)];

function namesOf<T extends object>(list: T): readonly (keyof T & string)[] {
  return Object.keys(list) as (keyof T & string)[];
}

/** An object with a value for each name. */
export function eachOf<N extends string, V>(names: readonly N[], of: (name: N) => V): Record<N, V> {
  return Object.fromEntries(names.map((name) => [name, of(name)])) as Record<N, V>;
}

/** Nothing was called yet. */
export const NO_COUNTS: Counts = eachOf(COUNTERS, () => 0);
export const NO_CALLS: Counters = { ...NO_COUNTS, in_flight: 0 };

export const inOrder = (counts: Counts): number[] => COUNTERS.map((name) => counts[name]);

/** The sums of two counts of different calls. */
export const added = (a: Counts, b: Counts): Counts => eachOf(COUNTERS, (name) => a[name] + b[name]);

/** The higher of two counts of the same calls, one by one. */
export const highest = <N extends keyof Counts>(
  names: readonly N[],
  a: Readonly<Record<N, number>>,
  b: Readonly<Record<N, number>>,
): Readonly<Record<N, number>> => eachOf(names, (name) => Math.max(a[name], b[name]));
