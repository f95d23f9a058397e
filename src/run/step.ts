import type { Settings } from '../config/settings.js';
import type { RecordFormat } from '../output/record.js';
import type { Committer } from '../resume/committer.js';
import type { WholeOutput } from '../resume/whole-output.js';
import type { Survey } from '../source/source.js';
import type { RunContext } from './run-context.js';

/** A run with every row of its input, before its output is named. */
export interface Finishing extends Pick<RunContext, 'say' | 'halt'> {
  readonly settings: Settings;
  readonly survey: Pick<Survey, 'sha256' | 'rows'>;
  readonly format: RecordFormat;
  readonly committer: Committer;
  readonly whole: WholeOutput;
}

/**
 * A step after all rows of a run are known. It depends on the part file and the manifest only, so after a
 * crash the next execution repeats it.
 */
export interface FinishingStep {
  /** Called before anything is sent. @throws UsageError when the job cannot have this step */
  check?(settings: Settings, survey: Survey, format: RecordFormat): void;
  /** Does nothing for a job that does not use it. @returns false when the halt interrupted it */
  run(finishing: Finishing): Promise<boolean>;
}
