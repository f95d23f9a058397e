import type { StoredSummary } from '../account/summary.js';
import { errorText } from '../core/errors.js';
import { review } from '../output/review.js';
import { writing } from '../output/writer.js';
import { writeOrRemoveErrors } from '../resume/errors-file.js';
import type { OutputFiles } from '../resume/output-files.js';
import { removeReport, writeReport } from '../resume/report-file.js';
import type { Reuse } from '../resume/reuse.js';
import { abstainStep } from './abstain.js';
import { driftStep } from './drift.js';
import { measureStep, requireStep } from './require.js';
import type { Finishing, FinishingStep } from './step.js';

/** In this order, after every row of a run is written. */
export const FINISHING: readonly FinishingStep[] = [abstainStep, driftStep, requireStep, measureStep];

/** Called before anything is sent. @throws UsageError when the job cannot have its finishing steps */
export function checkSteps(...job: Parameters<NonNullable<FinishingStep['check']>>): void {
  for (const step of FINISHING) step.check?.(...job);
}

export interface Ending extends Finishing {
  /** What comes before the files of every run. */
  readonly steps: readonly FinishingStep[];
  /** Null for a job that reuses nothing. */
  readonly reuse: Pick<Reuse, 'finish' | 'discard'> | null;
  /** The columns of the rows for review, and whether they may replace a review that is there; null for none. */
  readonly review: { readonly columns: readonly string[]; readonly replace: boolean } | null;
  /** Called when the steps have run. */
  readonly summary: () => StoredSummary;
}

/** The summary as written, and the path of the report page; null without one. */
interface Finished {
  readonly summary: StoredSummary;
  readonly report: string | null;
}

/**
 * The end of a run whose rows are written. After a crash the next execution goes through it again.
 * @returns null when the halt interrupted a step
 * @throws StopError when the disk fails, or the files are no longer this run's
 */
export async function finish(run: Ending): Promise<Finished | null> {
  const { committer, whole, reuse } = run;
  const finished = committer.orStop(async () => {
    for (const step of run.steps) if (!(await step.run(run))) return null;
    const ended = run.summary();
    await whole.pack();
    // Answers below the requirement are not carried over: they would reject every later run (fault 105).
    await (committer.manifest.steps.require === undefined ? reuse?.finish() : reuse?.discard());
    const { files } = committer;
    if (files === null) return { summary: ended, report: null };
    const summary = await whole.writeSummary(ended, run.review);
    if (run.review !== null) await writeReview(run, run.review.columns, summary.output);
    await whole.giveName();
    await writing(files.errors, () => writeOrRemoveErrors(files, run.settings.output.format, run.say));
    const report = await writeOrRemoveReport(run, files, summary);
    await whole.end();
    return { summary, report };
  });
  return await finished.finally(() => committer.close());
}

async function writeReview(
  { whole, settings: { output }, say }: Finishing,
  columns: readonly string[],
  name: string,
): Promise<void> {
  await whole.writeReview(
    (bytes) => review({ name, format: output.format, bytes: () => bytes }, columns, output.formulas),
    (reason) => say(`warning: no rows for review: ${reason}`),
  );
}

/** @returns the path of the report page; null when the job has none, or it could not be made */
export async function writeOrRemoveReport(
  { settings, say }: Pick<Finishing, 'settings' | 'say'>,
  files: OutputFiles,
  summary: StoredSummary,
): Promise<string | null> {
  if (settings.report) {
    return await writeReport(files, summary, settings).catch((error: unknown) => {
      say(`warning: the output is whole, but its report could not be made: ${errorText(error)}`);
      return null;
    });
  }
  await removeReport(files);
  return null;
}
