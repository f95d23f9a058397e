import type { CalledOutcome, Failed, Fault } from '../model.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';

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
  | RowRetry
  | { readonly kind: 'wait'; readonly ms: number | null; readonly fault: Fault }
  | {
      readonly kind: 'stop';
      readonly fault: Fault;
      /** The answer that stops the run may have been paid for. @default false */
      readonly possiblyBilled?: boolean;
    }
  /** Not called: because nobody may call at present, or because somebody else may take the row. */
  | { readonly kind: 'paused' | 'left' };

/** A call that failed and may be made again. */
export interface RowRetry {
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

/** The outcome of a row whose attempts are used up. */
export const failedRow = ({ fault, latency_ms }: RowRetry, attempts: number): Failed => ({
  status: 'failed',
  error: fault,
  attempts,
  latency_ms,
});

/** With `hold`, the outcome of a row whose answer was lost. */
export const lostRow = ({ fault, latency_ms }: RowRetry, attempts: number): Failed =>
  unknownRow(`${fault.code}: ${fault.message}`, attempts, latency_ms);

/** With `hold`, the outcome of a row whose call nobody will tell the end of. */
export const cutOffRow = (): Failed => unknownRow('its call was cut off when a process ended', 1, null);

/** A row that may have been billed and is not called again. */
const unknownRow = (why: string, attempts: number, latency_ms: number | null): Failed => ({
  status: 'failed',
  error: {
    code: OUTCOME_UNKNOWN,
    message: `${why}; it may have been answered and billed, so it was not called again (limits.unknown_outcome: hold)`,
  },
  attempts,
  latency_ms,
});
