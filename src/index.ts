/**
 * Promptmill as a library: `promptmill run`, `check`, `retry`, `compare` and `emulate` for a program. It
 * prints nothing, listens to no signal and never ends the process. See docs/library.md.
 *
 * @packageDocumentation
 */

import { UsageError } from './core/errors.js';
import { nodeProblem } from './core/node-version.js';

export type { Share } from './account/score.js';
export type { Summary } from './account/summary.js';
export type { RowCounts } from './account/tally.js';
export type {
  ChangedRows,
  CompareOptions,
  ComparePage,
  CompareReport,
} from './compare/compare-outputs.js';
export type { Agreement, PartAgreement, Transitions } from './compare/comparison.js';
export type { CallCounts, Counters } from './core/counters.js';
export { PromptmillError, StopError, UsageError } from './core/errors.js';
export type {
  AnswerSource,
  FilterResults,
  Filters,
  FilterVerdict,
  Json,
  Parameters,
  Problem,
  Usage,
} from './core/model.js';
export type { Latency } from './emulator/delivery.js';
export type { FaultRate, ScriptRule } from './emulator/fault-plan.js';
export type { FilterSide } from './emulator/filter.js';
export type { EmulatorOptions } from './emulator/options.js';
export type { QuotaSettings } from './emulator/quota.js';
export type { Emulator } from './emulator/server.js';
export type { Stats } from './emulator/stats.js';
export type { AnswerSchema } from './library/answer-schema.js';
export type { RunOptions, RunProgress } from './library/begin.js';
export { check } from './library/check.js';
export { compare } from './library/compare.js';
export { startEmulator } from './library/emulator.js';
export {
  type AnswerDefinition,
  type AnswerOf,
  defineJob,
  type Job,
  type JobDefinition,
} from './library/job.js';
export type { JobOptions } from './library/open.js';
export type { ResultRow } from './library/result-row.js';
export { type RetryOptions, type RetryResult, retry } from './library/retry.js';
export type { Rows } from './library/rows.js';
export {
  type FileRunOptions,
  type Recorded,
  type Results,
  type RowRunOptions,
  type RunResult,
  run,
} from './library/run.js';
export type { Quota } from './pace/shared-pace.js';
export type { CheckReport } from './run/check/check-report.js';
export type { Finding, RenderedPrompt } from './run/check/inspection.js';
export type { QuotedBudget, QuotedDeadline, QuotedTime, Range } from './run/check/quote.js';
export type { RunEvent } from './run/events.js';
export type { Speed } from './run/speed.js';
export type { CallEnded } from './worker/caller.js';

// An older Node.js can link all that is loaded with this file, and so says this instead of a bare SyntaxError.
const problem = nodeProblem(process.versions.node);
if (problem !== null)
  throw new UsageError(
    'node_version',
    problem,
    'Install it from https://nodejs.org, and start the program with it.',
  );
