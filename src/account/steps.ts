import * as z from 'zod';
import { driftSchema } from './drift.js';
import { abstentionSchema } from './scores.js';
import type { DeepReadonly } from './untrusted.js';

/** Results of the steps at the end of a run. A step that did not run, or that the job lacks, is absent. */
export const stepFactsSchema = z.object({
  abstain: z.exactOptional(abstentionSchema),
  drift: z.exactOptional(driftSchema),
  /** `answer.require` of a scheduled run: why its output is rejected. */
  require: z.exactOptional(z.object({ code: z.string(), message: z.string() })),
});

export type StepFacts = DeepReadonly<z.output<typeof stepFactsSchema>>;
