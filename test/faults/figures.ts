/** What a test of a fault counted, for the table that `npm run test:map` prints. Each is optional. */
export interface FaultFigures {
  /** Records in the output. */
  readonly rows?: number;
  /** Requests that reached the service. */
  readonly calls?: number;
  /** `calls.repeated` of the summary: requests that may have been paid for twice. */
  readonly repeated?: number;
}

declare module 'vitest' {
  interface TaskMeta {
    /** Set by a test through its context: `task.meta.fault = { rows, calls, repeated }`. */
    fault?: FaultFigures;
  }
}
