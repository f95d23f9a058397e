import type { Latency } from '../report/latency.js';
import type { Summary } from '../report/summary.js';

/** How a run stands. `running` with an old post is a run whose process was killed. */
export type RunState = 'running' | 'finished' | 'stopped' | 'interrupted';

/** What a run says of itself on the board, about once a second and when it ends. No key, no address with a password. */
export interface RunPost {
  readonly v: 1;
  readonly run: string;
  readonly state: RunState;
  /** Name of the BullMQ queue that its chunks are in. */
  readonly queue: string;
  /** True when its calls go to an emulator of the run's own: no other worker can make them. */
  readonly emulated: boolean;
  readonly host: string;
  readonly pid: number;
  /** Rows whose outcome is known, on disk or in the ledger. */
  readonly known: number;
  /** Rows a second over the last half minute; null while there is nothing to measure. */
  readonly rows_per_second: number | null;
  /** What it waits for, in words; null while it gets on. */
  readonly waiting: string | null;
  /** What workers must know to call for it. */
  readonly limits: {
    readonly requests_per_minute: number | null;
    readonly tokens_per_minute: number | null;
    readonly token_estimate: 'full' | 'learned';
    readonly prompts_per_request: number;
    readonly chunk_size: number;
  };
  /** The summary as it would be if the run ended now; `finished_at` is when the post was written. */
  readonly summary: Summary;
  /** For histograms; the summary has the percentiles. */
  readonly latency: Latency;
}

/** What a process that makes calls says of itself on the board, every few seconds. */
export interface WorkerPost {
  readonly v: 1;
  /** Host, process and chance: `web1-4711-9f3a`. */
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  /** ISO 8601. */
  readonly started_at: string;
  /** The run that it belongs to; null for `promptmill work`. */
  readonly run: string | null;
  readonly queues: readonly {
    readonly queue: string;
    readonly deployment: string;
    /** Calls at once that it may make now. */
    readonly concurrency: number;
    readonly in_flight: number;
    /** What it waits for, in words; null while it calls. */
    readonly waiting: string | null;
  }[];
  /** Most calls at once. */
  readonly concurrency: number;
  /** True when it takes no more rows and finishes those at hand. */
  readonly draining: boolean;
  /** Rows recorded since it started, and a second over the last ten seconds. */
  readonly rows: number;
  readonly rows_per_second: number;
  /** Calls since it started, by HTTP status, or by error code where there was none (`timeout`, `connection_failed`, …). */
  readonly calls: { readonly [status: string]: number };
}

/** A running run whose post is older than this is taken for killed, in milliseconds. */
export const RUN_LOST_MS = 15_000;
/** A worker that has not posted for this time is gone, in milliseconds. */
export const WORKER_TTL_MS = 15_000;
/** Runs are remembered for this time, in milliseconds: 30 days. */
export const RUN_TTL_MS = 30 * 24 * 3_600_000;
/** Runs that are remembered at most; the oldest that have ended go first. */
export const RUNS_KEPT = 200;
