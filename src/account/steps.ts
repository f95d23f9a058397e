import * as z from 'zod';
import { driftSchema } from './drift.js';
import { abstentionSchema } from './scores.js';
import type { DeepReadonly } from './untrusted.js';

/**
 * What came of each step at the end of a run, by its name: in the manifest as soon as it is found, and in the details of the
 * summary for good. A step that the job does not have, or that has not run, is not there.
 */
export const stepFactsSchema = z.object({
  /** `answer.abstain` */
  abstain: z.exactOptional(abstentionSchema),
  /** `drift` */
  drift: z.exactOptional(driftSchema),
  /** `answer.require` of a scheduled run: why its output is rejected. */
  require: z.exactOptional(z.object({ code: z.string(), message: z.string() })),
});

export type StepFacts = DeepReadonly<z.output<typeof stepFactsSchema>>;
