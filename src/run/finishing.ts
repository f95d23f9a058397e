import { abstainStep } from './abstain.js';
import { driftStep } from './drift.js';
import { requireStep } from './require.js';
import type { FinishingStep } from './step.js';

/** What is done when every row of a run is written, in this order. */
export const FINISHING: readonly FinishingStep[] = [abstainStep, driftStep, requireStep];

/** Whether a job can have its last steps, told before anything is sent. @throws UsageError */
export function checkSteps(...job: Parameters<NonNullable<FinishingStep['check']>>): void {
  for (const step of FINISHING) step.check?.(...job);
}
