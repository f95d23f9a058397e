/**
 * Promptmill as a library: what `promptmill run`, `check` and `emulate` do, for a program. It prints nothing, listens to no
 * signal and ends no process. docs/library.md has the story.
 *
 * @packageDocumentation
 */
export type { CheckReport } from './check/check-report.js';
export type { EmulatorOptions } from './emulator/options.js';
export type { Emulator } from './emulator/server.js';
export { PromptmillError, StopError, UsageError } from './errors.js';
export type { AnswerSchema } from './library/answer-schema.js';
export { check } from './library/check.js';
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
export type { Rows } from './library/rows.js';
export {
  type FileRunOptions,
  type Results,
  type RowRunOptions,
  type RunOptions,
  type RunProgress,
  type RunResult,
  run,
} from './library/run.js';
export type { Summary } from './report/summary.js';
export type { RunEvent } from './run/events.js';
