import { PlainCopies } from '../output/plain-copies.js';
import type { LastRun } from '../resume/last-run.js';
import { ComparedOutput, type OutputToCompare, onDisk } from './compared-output.js';
import { type Agreement, Comparison } from './comparison.js';
import { Matching } from './matching.js';

/**
 * Compares the answers of a run with the last run's, in one pass over both.
 * @param by input column that identifies rows; `null`: their numbers
 * @returns agreement on the rows that are neither failed nor skipped in either output
 * @throws UsageError when they cannot be compared
 * @throws the reason of `signal`
 */
export async function changeSince(
  last: LastRun,
  now: OutputToCompare,
  by: string | null,
  signal: AbortSignal,
): Promise<Agreement> {
  const copies = new PlainCopies();
  try {
    const before = await ComparedOutput.open(onDisk(last.output, last.summary));
    const after = await ComparedOutput.open(now);
    const several = after.several ?? before.several ?? false;
    const [normalizeBefore, normalizeAfter] = [before.normalizer(several), after.normalizer(several)];
    const comparison = new Comparison();
    const matching = new Matching(
      before.side(by),
      after.side(by),
      () => copies.plain(last.output, signal),
      signal,
    );
    for await (const matches of matching.matches()) {
      for (const { a, b } of matches) comparison.add(normalizeBefore(a), normalizeAfter(b));
    }
    return comparison.result().answered;
  } finally {
    await copies.remove();
  }
}
