import type { CallCounts } from '../model.js';
import type { Entry } from './ledger.js';

/** What one call of `record` has for one run. */
export interface RunBatch {
  readonly run: string;
  readonly entries: readonly Entry[];
  readonly calls: CallCounts;
}

/**
 * Splits what is to be recorded by run. In the order of runs, chunks and rows, so that two workers that write
 * the same rows at the same time lock them in the same order and never wait for each other in a circle.
 */
export function byRun(
  entries: readonly Entry[],
  calls: ReadonlyMap<string, Partial<CallCounts>>,
): readonly RunBatch[] {
  const runs = [...new Set([...calls.keys(), ...entries.map((entry) => entry.run)])].sort();
  return runs.map((run) => ({
    run,
    entries: entries.filter((entry) => entry.run === run).sort((a, b) => a.first - b.first || a.row - b.row),
    calls: { sent: 0, retried: 0, rate_limited: 0, repeated: 0, ...calls.get(run) },
  }));
}
