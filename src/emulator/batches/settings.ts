import { randomFrom } from '../../core/random.js';

/** What hosted batches take, and what goes wrong with them. */
export interface BatchSettings {
  /** From the creation of a batch to its end. @default 5 */
  readonly seconds: number;
  /** Most requests of an input file; `null` for what the API takes: 50,000, or 100,000 in the service's own. @default null */
  readonly requests: number | null;
  /** Most bytes of an input file. @default 200,000,000 */
  readonly bytes: number;
  /** Most prompt tokens of a model in all batches that have not ended; `null` for no limit. @default null */
  readonly enqueuedTokens: number | null;
  /** @default none */
  readonly faults: BatchFaults;
}

export const BATCH_DEFAULTS: BatchSettings = {
  seconds: 5,
  requests: null,
  bytes: 200_000_000,
  enqueuedTokens: null,
  faults: {},
};

/** Kind → what its share, 0 to 1, is a share of, and what becomes of that. */
export const BATCH_FAULTS = {
  expire: 'requests that every batch answers before it expires',
  hang: 'batches that stop at half of their requests, until cancelled',
  'validate-slow': 'batches whose check takes ten times the usual whole',
  'token-limit': 'batches that fail with token_limit_exceeded',
  'lost-create': 'creations that are done, but get a reset for an answer',
  holes: 'requests without a line or with status 0, counted as completed',
  fail: 'requests whose line is a 5xx',
  odd: 'batches in spellings seen: capitals, nulls, a text as time',
  'no-file': 'batches whose output file is gone',
  cut: 'downloads that end half-way',
  unavailable: 'calls of files and batches that get 503 and are not done',
} as const;

export type BatchFault = keyof typeof BATCH_FAULTS;

/** Kind → share, 0 to 1. */
export type BatchFaults = { readonly [kind in BatchFault]?: number };

export const isBatchFault = (kind: string): kind is BatchFault => Object.hasOwn(BATCH_FAULTS, kind);

/** Whether a fault hits a batch, a call or a request; `what` names it. */
export type Hits = (kind: BatchFault, what: string | number) => boolean;

/** The same seed hits the same. */
export const hitsOf =
  ({ faults }: BatchSettings, seed: number): Hits =>
  (kind, what) =>
    randomFrom(seed, `${kind} ${what}`)() < (faults[kind] ?? 0);
