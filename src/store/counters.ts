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

/** A run of which nothing was called yet. */
export const NO_CALLS: Counters = {
  sent: 0,
  retried: 0,
  rate_limited: 0,
  repeated: 0,
  in_flight: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
};

export const inOrder = (counters: Counters): number[] => COUNTERS.map((name) => counters[name]);
