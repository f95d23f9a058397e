/**
 * The one list of call counts, name → label: the columns of the ledger, manifest, summary, metrics and pages
 * follow it. Figures that a run reports never fall, not even when the ledger takes a count back.
 */
export const CALL_COUNTS = {
  /** Requests sent to the service, refused and repeated ones included. */
  sent: 'sent',
  /** Requests sent again after a fault that may pass. */
  retried: 'retried',
  rate_limited: 'rate limited (429)',
  /** Rows paid for, or perhaps paid for, more often than needed; each extra time counts one. */
  repeated: 'repeated, perhaps paid twice',
} as const;

/** These rise when rows are reserved, and fall when their calls end. */
const TOKEN_COUNTS = {
  /**
   * Prompt tokens that were billed or may yet be: the usage of ended calls and, under a budget, the maximum
   * of the others. A call whose billing is unknown stays in at its maximum.
   */
  prompt_tokens: 'tokens of prompts',
  completion_tokens: 'tokens of completions',
} as const;

export type CallCounts = { readonly [name in keyof typeof CALL_COUNTS]: number };

export type Counts = CallCounts & { readonly [name in keyof typeof TOKEN_COUNTS]: number };

export interface Counters extends Counts {
  /** Rows with a call reserved and not ended. Those of a killed process stay in: perhaps paid for. */
  readonly in_flight: number;
}

export const CALLS = namesOf(CALL_COUNTS);

export const COUNTERS = [...CALLS, ...namesOf(TOKEN_COUNTS)];

function namesOf<T extends object>(list: T): readonly (keyof T & string)[] {
  return Object.keys(list) as (keyof T & string)[];
}

export function eachOf<N extends string, V>(names: readonly N[], of: (name: N) => V): Record<N, V> {
  return Object.fromEntries(names.map((name) => [name, of(name)])) as Record<N, V>;
}

export const NO_COUNTS: Counts = eachOf(COUNTERS, () => 0);
export const NO_CALLS: Counters = { ...NO_COUNTS, in_flight: 0 };

export const inOrder = (counts: Counts): number[] => COUNTERS.map((name) => counts[name]);

/** Sum of two counts of different calls. */
export const added = (a: Counts, b: Counts): Counts => eachOf(COUNTERS, (name) => a[name] + b[name]);

/** The higher of two counts of the same calls, name by name. */
export const highest = <N extends keyof Counts>(
  names: readonly N[],
  a: Readonly<Record<N, number>>,
  b: Readonly<Record<N, number>>,
): Readonly<Record<N, number>> => eachOf(names, (name) => Math.max(a[name], b[name]));
