import { z } from 'zod';
import { type SeenRun, standingOf } from '../fleet/beats.js';
import type { Summary } from '../report/summary.js';

/** How a run of a job ended, in a few words. */
export const lastRun = z.object({
  /** ISO 8601. */
  ended_at: z.string(),
  /** Id of the run; null for one that did not start. */
  run: z.string().nullable(),
  state: z.enum(['finished', 'stopped', 'interrupted', 'not started']),
  /** Rows by outcome, or why it did not start. */
  result: z.string(),
});
export type LastRun = z.output<typeof lastRun>;

/** Rows by outcome, and why the run stopped when it did. */
export function resultOf({ input, rows, stopped }: Summary): string {
  const { total, completed, filtered, failed, skipped } = rows;
  const of = total === input.rows ? '' : `of ${input.rows} `;
  const counts = `${total} ${of}rows = ${completed} completed + ${filtered} filtered + ${failed} failed + ${skipped} skipped`;
  return stopped === null ? counts : `${counts}; ${stopped}`;
}

/** The last run of a job that has ended, as its heartbeat said: also those of other machines, and those by hand. */
export function lastOnBoard(job: string, runs: readonly SeenRun[]): LastRun | null {
  const ends = runs.flatMap((seen): LastRun[] => {
    const { state, summary, emulated } = seen.beat;
    if (summary.job !== job || emulated || state === 'running') return [];
    return [{ ended_at: summary.finished_at, run: summary.run, state, result: resultOf(summary) }];
  });
  return ends.reduce(latest, null);
}

/** Since when a run of a job goes on, by its heartbeat; null when none does. */
export function runningOnBoard(job: string, runs: readonly SeenRun[]): string | null {
  const going = runs.find(
    (seen) => seen.beat.summary.job === job && !seen.beat.emulated && standingOf(seen) === 'running',
  );
  return going?.beat.summary.started_at ?? null;
}

/** The one of the two that ended later. */
export const latest = (a: LastRun | null, b: LastRun | null): LastRun | null =>
  a === null || (b !== null && Date.parse(b.ended_at) > Date.parse(a.ended_at)) ? b : a;
