import type { Counters } from '../model.js';

/** The names under which the ledger keeps a run's counters, in the order in which they travel. */
export const COUNTERS = [
  'sent',
  'retried',
  'rate_limited',
  'repeated',
  'in_flight',
  'prompt_tokens',
  'completion_tokens',
] as const satisfies readonly (keyof Counters)[];

const each = (of: (name: keyof Counters) => number): Counters => ({
  sent: of('sent'),
  retried: of('retried'),
  rate_limited: of('rate_limited'),
  repeated: of('repeated'),
  in_flight: of('in_flight'),
  prompt_tokens: of('prompt_tokens'),
  completion_tokens: of('completion_tokens'),
});

/** A run of which nothing was called yet. */
export const NO_CALLS: Counters = each(() => 0);

export const inOrder = (counters: Counters): number[] => COUNTERS.map((name) => counters[name]);

/** The sums of two counts of different calls. */
export const added = (a: Counters, b: Counters): Counters => each((name) => a[name] + b[name]);

/** The higher of two counts of the same calls, one by one. */
export const highest = (a: Counters, b: Counters): Counters => each((name) => Math.max(a[name], b[name]));
