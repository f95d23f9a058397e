import type { CalledOutcome, Fault } from '../model.js';

/** What came of calling the service for one row. */
export type RowResult =
  | { readonly kind: 'settled'; readonly outcome: CalledOutcome }
  | {
      readonly kind: 'retry';
      readonly fault: Fault;
      readonly latency_ms: number;
      /** False when no connection was made. */
      readonly connected: boolean;
      /** The answer that was lost may have been paid for. */
      readonly possiblyBilled: boolean;
    }
  | { readonly kind: 'wait'; readonly ms: number | null; readonly fault: Fault }
  | { readonly kind: 'stop'; readonly fault: Fault };
