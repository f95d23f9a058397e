/** Promptmill as a library: run a job out of another program. */
export { readEnvironment } from './config/environment.js';
export { readJobFile } from './config/job-file.js';
export { type RunFlags, type Settings, settle } from './config/settings.js';
export { PromptmillError, StopError, UsageError } from './errors.js';
export { Halt } from './halt.js';
export * from './model.js';
export type { Summary } from './report/summary.js';
export { type RunResult, runJob } from './run/pipeline.js';
export type { World } from './run/world.js';
export { KeyRing } from './service/keys.js';
export type { CallCounts, Counters } from './store/counters.js';
