import type { FinishedSummary } from '../account/read-summary.js';
import type { StoredSummary, SummaryParts } from '../account/summary.js';
import type { Settings } from '../config/settings.js';
import type { Manifest } from '../resume/manifest.js';
import type { OutputTarget } from '../resume/output-target.js';
import type { Input } from './input.js';
import type { Plan } from './plan.js';
import type { FinishingStep } from './step.js';

/** How rows change a finished output. */
export interface Amending {
  /** With which the input is read and the rows are planned. */
  readonly settings: Settings;
  /** The summary of the output as it is: the result when no row is to be called. */
  readonly before: FinishedSummary;
  /** @throws UsageError when the rows of the input are not those of the output */
  checkInput(input: Input): Promise<void>;
  /** Called before anything is sent. @returns null when no row is to be called */
  choose(input: Input, plan: Plan): Promise<RowsToCall | null>;
}

/** The rows to call, and how their run ends. */
export interface RowsToCall {
  readonly target: OutputTarget | null;
  readonly input: Input;
  readonly plan: Plan;
  readonly settings: Settings;
  /** Null when rows are added, which ends as any run. */
  readonly replacing: Replacing | null;
}

/** The end of a run whose rows replace rows of a finished output. */
interface Replacing {
  /** Instead of `FINISHING`: rewrites the output from its other records and those of the run. */
  readonly steps: readonly FinishingStep[];
  /** @param own the parts of the run's own summary */
  summary(own: SummaryParts, manifest: Manifest): StoredSummary;
  mayReview(manifest: Manifest): Promise<boolean>;
}
