import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { Counter } from '../report/counts.js';
import { type RateWindow, rateOf, sampled } from '../report/rate.js';
import { within } from '../store/deadline.js';
import type { KeyValue } from '../store/key-value.js';
import { Bulletin } from './bulletin.js';
import { WORKER_TTL_MS, type WorkerPost } from './posts.js';

/** Time from one post to the next, in milliseconds. */
const EVERY_MS = 2_000;
/** What "a second" of a worker's rate is measured over, in milliseconds. */
const RATE_MS = 10_000;
/** Distinct statuses and error codes that are counted. */
const MOST_STATUSES = 50;
/** Longest wait for a store that is to hear that a worker has gone, in milliseconds. */
const LAST_WORD_MS = 1_000;

/** What changes while a worker is at work. */
export type WorkerView = Pick<WorkerPost, 'queues' | 'draining' | 'rows'>;

export interface WorkerNoticeParts {
  readonly keyValue: KeyValue;
  readonly log: Logger;
  /** The run that the worker belongs to; null for `promptmill work`. */
  readonly run: string | null;
  /** Most calls at once. */
  readonly concurrency: number;
  readonly view: () => WorkerView;
}

/** What a process that makes calls says of itself on the board, until it ends. */
export class WorkerNotice {
  readonly id = `${hostname()}-${process.pid}-${randomBytes(2).toString('hex')}`;
  readonly #began = new Date().toISOString();
  readonly #calls = new Counter({}, MOST_STATUSES);
  #bulletin: Bulletin | null = null;
  #rate: RateWindow = [];

  constructor(private readonly parts: WorkerNoticeParts) {}

  /** Counts a call, by HTTP status or by the code of what kept it from an answer. */
  called(status: string): void {
    this.#calls.add(status);
  }

  begin(): void {
    this.#bulletin = new Bulletin({
      keyValue: this.parts.keyValue,
      kind: 'worker',
      id: this.id,
      text: () => JSON.stringify(this.#post()),
      everyMs: EVERY_MS,
      ttlMs: WORKER_TTL_MS,
      onError: (error) =>
        this.parts.log.debug({ err: error }, 'the board refused what the worker says of itself'),
    });
  }

  /** Takes the post down, within a few seconds whatever state the store is in. */
  async end(): Promise<void> {
    await within(LAST_WORD_MS, this.#bulletin?.endWithout() ?? Promise.resolve()).catch((error) =>
      this.parts.log.debug({ err: error }, 'the board did not hear of the end of the worker'),
    );
  }

  #post(): WorkerPost {
    const { queues, draining, rows } = this.parts.view();
    this.#rate = sampled(this.#rate, { at: performance.now(), done: rows }, RATE_MS);
    return {
      v: 1,
      id: this.id,
      host: hostname(),
      pid: process.pid,
      started_at: this.#began,
      run: this.parts.run,
      queues,
      concurrency: this.parts.concurrency,
      draining,
      rows,
      rows_per_second: Math.round((rateOf(this.#rate) ?? 0) * 100) / 100,
      calls: this.#calls.toCounts(),
    };
  }
}
