import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';

/** One contestant at one latency and prompt length: medians over the rounds. */
export interface Measured {
  readonly contestant: string;
  readonly title: string;
  readonly latency_ms: number;
  readonly prompt_kb: number;
  readonly rows: number;
  /** Start-up of the process included. */
  readonly rows_per_second: number;
  /** Of the rate of the bare loop in the same round; null where it is missing. */
  readonly of_bare: number | null;
  /** Of the rate of the OpenAI SDK in the same round; null where it is missing. */
  readonly of_openai: number | null;
  /** Rate over the middle 80 % of the calls, of what the calls in flight allow; null without latency. */
  readonly of_ideal: number | null;
  /** From the first call to the last. */
  readonly steady_rows_per_second: number;
  /** `steady_rows_per_second`, of that of the bare loop in the same round; null where it is missing. */
  readonly steady_of_bare: number | null;
  /** Without the CPU and the rows of the start in the same round; null where the run has no more rows than that. */
  readonly steady_cpu_us_per_row: number | null;
  /** Start-up of the process included. */
  readonly cpu_us_per_row: number;
  readonly main_us_per_row: number;
  readonly peak_mb: number;
  readonly first_call_s: number;
  /** Rows a second of the slowest and of the fastest round. */
  readonly spread: readonly [number, number];
}

/** What one run of a contestant was counted to do. */
export interface Counted {
  readonly contestant: string;
  readonly title: string;
  /** Files of code that were loaded. */
  readonly modules: number;
  /** To the store; null without one. */
  readonly trips_per_row: number | null;
}

/** What `npm run bench` writes. */
export interface Overhead {
  readonly machine: string;
  readonly date: string;
  readonly rounds: number;
  readonly concurrency: number;
  readonly rates: readonly Measured[];
  /** Few rows, for the way to the first call. */
  readonly starts: readonly Measured[];
  /** `promptmill --version`, beside a Node.js that does nothing. */
  readonly version: {
    readonly time_of_node: number;
    readonly cpu_of_node: number;
    readonly modules: number;
  };
  readonly counts: readonly Counted[];
  /** Those that failed: they have no figures from a round on, or none at all at 0 and 1. */
  readonly missing: readonly {
    readonly contestant: string;
    readonly title: string;
    readonly from: number;
    readonly reason: string;
  }[];
}

/** What `npm run bench:memory` writes. */
export interface Memory {
  readonly machine: string;
  readonly date: string;
  readonly runs: readonly {
    readonly store: 'redis' | 'embedded';
    readonly rows: number;
    readonly peak_mb: number;
    /** Of the Redis server. */
    readonly store_mb: number | null;
    readonly seconds: number;
  }[];
}

/** What `npm run bench:fleet` writes. */
export interface Fleet {
  readonly machine: string;
  readonly date: string;
  readonly trials: readonly FleetTrial[];
  /** From the kill of a worker to the end of a run of which nothing else was left, in seconds; null when it failed. */
  readonly after_kill_s: number | null;
}

export interface FleetTrial {
  /** That call for themselves; 0 where workers call for one. */
  readonly runs: number;
  readonly workers: number;
  /** Calls in flight of each of them. */
  readonly concurrency: number;
  readonly latency_ms: number;
  readonly rows: number;
  readonly rows_per_second: number;
  readonly of_ideal: number;
  readonly collector_us_per_row: number;
  readonly workers_us_per_row: number;
  readonly redis_us_per_row: number;
  readonly redis_commands_per_row: number;
  readonly bytes_in_per_row: number;
  readonly bytes_out_per_row: number;
}

/** Everything that was written so far. */
export interface Results {
  readonly overhead: Overhead | null;
  readonly memory: Memory | null;
  readonly fleet: Fleet | null;
}

const path = (name: keyof Results): string => join(import.meta.dirname, 'results', `${name}.json`);

export function saveResult<Name extends keyof Results>(name: Name, result: Results[Name]): void {
  writeFileSync(path(name), `${JSON.stringify(result, null, 2)}\n`);
}

export function readResults(): Results {
  const read = (name: keyof Results) =>
    existsSync(path(name)) ? JSON.parse(readFileSync(path(name), 'utf8')) : null;
  return { overhead: read('overhead'), memory: read('memory'), fleet: read('fleet') };
}

/** Where and when, for the head of a result. */
export function occasion(): { readonly machine: string; readonly date: string } {
  const model = cpus()[0]?.model ?? 'unknown processor';
  return {
    machine: `${cpus().length} cores, ${model}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node.js ${process.versions.node}`,
    date: new Date().toISOString().slice(0, 10),
  };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

export function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
