import type { Failed } from '../model.js';
import type { Unsettled } from '../service/verdict.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';

export const failedRow = ({ fault, latency_ms }: Unsettled, attempts: number): Failed => ({
  status: 'failed',
  error: fault,
  attempts,
  latency_ms,
});

/** With `hold`: the answer was lost. */
export const lostRow = ({ fault, latency_ms }: Unsettled, attempts: number): Failed =>
  unknownRow(`${fault.code}: ${fault.message}`, attempts, latency_ms);

/** With `hold`: the call ended with its process, result unknown. */
export const cutOffRow = (): Failed => unknownRow('its call was cut off when a process ended', 1, null);

const unknownRow = (why: string, attempts: number, latency_ms: number | null): Failed => ({
  status: 'failed',
  error: {
    code: OUTCOME_UNKNOWN,
    message: `${why}; it may have been answered and billed, so it was not called again (limits.unknown_outcome: hold)`,
  },
  attempts,
  latency_ms,
});
