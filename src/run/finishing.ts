import { abstainStep } from './abstain.js';
import { driftStep } from './drift.js';
import { requireStep } from './require.js';
import type { FinishingStep } from './step.js';

/** In this order, after every row of a run is written. */
export const FINISHING: readonly FinishingStep[] = [abstainStep, driftStep, requireStep];

/** Called before anything is sent. @throws UsageError when the job cannot have its finishing steps */
export function checkSteps(...job: Parameters<NonNullable<FinishingStep['check']>>): void {
  for (const step of FINISHING) step.check?.(...job);
}
