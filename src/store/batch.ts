import type { Counters } from '../model.js';
import { NO_CALLS } from './counters.js';
import type { Announced, Entry, Flights, Settled } from './ledger.js';

/** What one call of `record` has for one run. */
export interface RunBatch {
  readonly run: string;
  readonly entries: readonly Entry[];
  readonly calls: Counters;
  readonly announced: readonly Announced[];
  readonly settled: readonly Settled[];
}

/**
 * Splits what is to be recorded by run. In the order of runs, chunks and rows, so that two workers that write
 * the same rows at the same time lock them in the same order and never wait for each other in a circle.
 */
export function byRun(
  entries: readonly Entry[],
  calls: ReadonlyMap<string, Partial<Counters>>,
  { announced, settled }: Flights,
): readonly RunBatch[] {
  const named = [...entries, ...announced, ...settled].map(({ run }) => run);
  const runs = [...new Set([...calls.keys(), ...named])].sort();
  return runs.map((run) => ({
    run,
    entries: entries.filter((entry) => entry.run === run).sort((a, b) => a.first - b.first || a.row - b.row),
    calls: { ...NO_CALLS, ...calls.get(run) },
    announced: announced.filter((row) => row.run === run),
    settled: settled.filter((row) => row.run === run),
  }));
}
