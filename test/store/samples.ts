import type { Completed, Counters } from '../../src/model.js';
import type { Entry } from '../../src/store/ledger.js';

export { NO_CALLS } from '../../src/store/counters.js';
export const NOTHING: ReadonlyMap<string, Partial<Counters>> = new Map();

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
