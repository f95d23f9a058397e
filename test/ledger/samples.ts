import type { Entry } from '../../src/ledger/ledger.js';
import type { CallCounts, Completed } from '../../src/model.js';

export const NO_CALLS: CallCounts = { sent: 0, retried: 0, rate_limited: 0, repeated: 0 };
export const NOTHING: ReadonlyMap<string, Partial<CallCounts>> = new Map();

/** A completed row with this text. */
export function outcome(text: string): Completed {
  return {
    status: 'completed',
    completion: {
      text,
      finish_reason: 'stop',
      usage: null,
      model: 'm',
      id: 'cmpl-1',
      created: 1_700_000_000,
    },
    filters: { prompt: { hate: { filtered: false, severity: 'safe' } }, completion: null },
    attempts: 1,
    latency_ms: 12.5,
  };
}

export const entry = (run: string, first: number, row: number, text = `text of ${row}`): Entry => ({
  run,
  first,
  row,
  outcome: outcome(text),
});
