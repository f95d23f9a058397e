import type { Counters } from '../model.js';
import { NO_CALLS } from './counters.js';
import type { Entry } from './ledger.js';

/** What one call of `record` has for one run. */
export interface RunBatch {
  readonly run: string;
  readonly entries: readonly Entry[];
  readonly calls: Counters;
}

/**
 * Splits what is to be recorded by run. In the order of runs, chunks and rows, so that two workers that write
 * the same rows at the same time lock them in the same order and never wait for each other in a circle.
 */
export function byRun(
  entries: readonly Entry[],
  calls: ReadonlyMap<string, Partial<Counters>>,
): readonly RunBatch[] {
  const runs = [...new Set([...calls.keys(), ...entries.map((entry) => entry.run)])].sort();
  return runs.map((run) => ({
    run,
    entries: entries.filter((entry) => entry.run === run).sort((a, b) => a.first - b.first || a.row - b.row),
    calls: { ...NO_CALLS, ...calls.get(run) },
  }));
}
