import type { LastRun } from '../resume/last-run.js';
import { ComparedOutput, type OutputToCompare } from './compared-output.js';
import { type Agreement, Comparison } from './comparison.js';
import { Matching } from './matching.js';
import { onDisk, Spool } from './on-disk.js';

/**
 * Compares the answers of a run with those of the last one, in one pass over both.
 * @param by column of the input that tells rows; `null` for their numbers
 * @returns of the rows that neither has as failed or skipped
 * @throws UsageError where they cannot be compared
 * @throws the reason of `signal`
 */
export async function changeSince(
  last: LastRun,
  now: OutputToCompare,
  by: string | null,
  signal: AbortSignal,
): Promise<Agreement> {
  const spool = new Spool();
  try {
    const before = await ComparedOutput.open(onDisk(last.output, last.summary));
    const after = await ComparedOutput.open(now);
    const several = after.several ?? before.several ?? false;
    const [saidBefore, saidAfter] = [before.saidBy(several), after.saidBy(several)];
    const comparison = new Comparison();
    const matching = new Matching(
      before.side(by),
      after.side(by),
      () => spool.plain(last.output, signal),
      signal,
    );
    for await (const matches of matching.matches()) {
      for (const { a, b } of matches) comparison.add(saidBefore(a), saidAfter(b));
    }
    return comparison.result().answered;
  } finally {
    await spool.remove();
  }
}
