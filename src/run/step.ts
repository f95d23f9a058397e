import type { StepFacts } from '../account/steps.js';
import type { Settings } from '../config/settings.js';
import type { RecordFormat } from '../output/record.js';
import type { Committer } from '../resume/committer.js';
import type { Survey } from '../source/source.js';
import type { World } from './world.js';

/** A run that has every row of its input, before its output gets the name. */
export interface Finishing extends Pick<World, 'say' | 'halt'> {
  readonly settings: Settings;
  readonly survey: Pick<Survey, 'sha256' | 'rows'>;
  readonly format: RecordFormat;
  /** Has the records, and takes what the step finds. */
  readonly committer: Committer;
}

/**
 * Something that is done once with all rows of a run. An execution that is killed meanwhile leaves it to the next, which begins
 * it again: what it does depends on the part file and on the facts in the manifest alone.
 */
export interface FinishingStep {
  /** By which the manifest and the summary have what it finds. */
  readonly name: keyof StepFacts;
  /** Tells before anything is sent that the job cannot have it. @throws UsageError */
  check?(settings: Settings, survey: Survey, format: RecordFormat): void;
  /** Does nothing for a job that does not ask for it. @returns whether it came to its end before the halt */
  run(finishing: Finishing): Promise<boolean>;
}
