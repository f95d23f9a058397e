import type { CalledOutcome, Fault } from '../model.js';

/** What came of calling the service for one row. */
export type RowResult =
  | {
      readonly kind: 'settled';
      readonly outcome: CalledOutcome;
      /**
       * Set where the service sent token counts that are none: those of the outcome are our own then, `counted` by the
       * model's tokenizer, or `guessed` where the model is not known.
       */
      readonly oddUsage?: 'counted' | 'guessed';
    }
  | {
      readonly kind: 'retry';
      readonly fault: Fault;
      readonly latency_ms: number;
      /** False when no connection was made. */
      readonly connected: boolean;
      /** The answer that was lost may have been paid for. */
      readonly possiblyBilled: boolean;
      /** The next request for the row is for it alone. */
      readonly alone: boolean;
    }
  | { readonly kind: 'wait'; readonly ms: number | null; readonly fault: Fault }
  | {
      readonly kind: 'stop';
      readonly fault: Fault;
      /** The answer that stops the run may have been paid for. @default false */
      readonly possiblyBilled?: boolean;
    };
