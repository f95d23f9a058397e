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

/**
 * The same counts of one of several endpoints: `sent@west`. Counted when the call begins, so `sent` has
 * perhaps more than all of them: @see countsOfEach
 */
type EndpointCount = `${'sent' | 'rate_limited'}@${string}`;

export type Counts = CallCounts & { readonly [name in keyof typeof TOKEN_COUNTS]: number } & {
  readonly [name in EndpointCount]?: number;
};

export interface Counters extends Counts {
  /** Rows with a call reserved and not ended. Those of a killed process stay in: perhaps paid for. */
  readonly in_flight: number;
}

export const CALLS = namesOf(CALL_COUNTS);

const COUNTERS = [...CALLS, ...namesOf(TOKEN_COUNTS)];

function namesOf<T extends object>(list: T): readonly (keyof T & string)[] {
  return Object.keys(list) as (keyof T & string)[];
}

export function eachOf<N extends string, V>(names: readonly N[], of: (name: N) => V): Record<N, V> {
  return Object.fromEntries(names.map((name) => [name, of(name)])) as Record<N, V>;
}

export const NO_COUNTS: Counts = eachOf(COUNTERS, () => 0);
export const NO_CALLS: Counters = { ...NO_COUNTS, in_flight: 0 };

const isOfEndpoint = (name: string): name is EndpointCount => /^(sent|rate_limited)@/.test(name);

/** The names of all counters, those of endpoints included. */
export const namesIn = (counts: Counts): readonly (keyof Counts)[] => [
  ...COUNTERS,
  ...Object.keys(counts).filter(isOfEndpoint),
];

/** Sum of two counts of different calls. */
export const added = (a: Counts, b: Counts): Counts =>
  eachOf(namesIn({ ...a, ...b }), (name) => (a[name] ?? 0) + (b[name] ?? 0));

/** The higher of two counts of the same calls, name by name. */
export const highest = <N extends keyof Counts>(
  names: readonly N[],
  a: { readonly [name in N]?: number | undefined },
  b: { readonly [name in N]?: number | undefined },
): Readonly<Record<N, number>> => eachOf(names, (name) => Math.max(a[name] ?? 0, b[name] ?? 0));

/**
 * The counts of several endpoints, which add up to those of the run. The first has what no other one has:
 * also reserved calls that have not begun, perhaps because their process was killed.
 */
export function countsOfEach(
  [first, ...others]: readonly string[],
  counts: Counts,
): { readonly [endpoint: string]: EndpointCounts } {
  const of = (name: string): EndpointCounts => ({
    calls: counts[`sent@${name}`] ?? 0,
    rate_limited: counts[`rate_limited@${name}`] ?? 0,
  });
  const rest = others.map(of).reduce(
    ({ calls, rate_limited }, other) => ({
      calls: Math.max(0, calls - other.calls),
      rate_limited: Math.max(0, rate_limited - other.rate_limited),
    }),
    { calls: counts.sent, rate_limited: counts.rate_limited },
  );
  return Object.fromEntries([...others.map((name) => [name, of(name)] as const), [first ?? '', rest]]);
}

interface EndpointCounts {
  readonly calls: number;
  readonly rate_limited: number;
}
