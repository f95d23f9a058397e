import { hostname } from 'node:os';
import type { Logger } from 'pino';
import type { Settings } from '../config/settings.js';
import type { CallCounts } from '../model.js';
import type { Latency } from '../report/latency.js';
import { type RateWindow, rateOf, sampled } from '../report/rate.js';
import type { Summary } from '../report/summary.js';
import { within } from '../store/deadline.js';
import type { KeyValue } from '../store/key-value.js';
import { Bulletin } from './bulletin.js';
import { RUN_TTL_MS, RUNS_KEPT, type RunPost, type RunState } from './posts.js';
import { readRuns, standingOf } from './read-posts.js';

/** Time from one post to the next, in milliseconds. */
const EVERY_MS = 1_000;
/** Longest wait for a store that is to hear the end, in milliseconds. */
const LAST_WORD_MS = 1_000;

export interface RunNoticeParts {
  readonly keyValue: Pick<KeyValue, 'list' | 'put' | 'remove'>;
  readonly log: Logger;
  readonly settings: Settings;
  readonly run: string;
  readonly queue: string;
  /** The summary as it stands. */
  readonly summary: () => Summary;
  readonly latency: () => Latency;
}

/** What a run says of itself on the board. Nobody in the run waits for it but for its last word. */
export class RunNotice {
  #bulletin: Bulletin | null = null;
  #state: RunState = 'running';
  #known: number;
  #waiting: string | null = null;
  #rate: RateWindow = [];
  /** A request that is not made after all is taken back; what was said of it once is not, because counters never fall. */
  #said: CallCounts = { sent: 0, retried: 0, rate_limited: 0, repeated: 0 };

  /** @param done rows that earlier executions have written */
  constructor(
    private readonly parts: RunNoticeParts,
    done: number,
  ) {
    this.#known = done;
  }

  /** Posts from now on: once the run knows all that the processes before it have counted. */
  async begin(): Promise<void> {
    const { parts } = this;
    const before = await within(LAST_WORD_MS, parts.keyValue.list('run')).catch(() => []);
    const post = readRuns(before).find((seen) => seen.post.run === parts.run)?.post;
    if (post !== undefined) this.#said = post.summary.calls;
    this.#bulletin = new Bulletin({
      keyValue: parts.keyValue,
      kind: 'run',
      id: parts.run,
      text: () => JSON.stringify(this.#post()),
      everyMs: EVERY_MS,
      ttlMs: RUN_TTL_MS,
      onError: (error) => parts.log.debug({ err: error }, 'the board refused what the run says of itself'),
    });
  }

  /** How the run stands now; goes up with the next post. */
  tell(known: number, waiting: string | null): void {
    this.#known = known;
    this.#waiting = waiting;
  }

  /** Takes down what a run said of itself that is given up for this one. */
  async replaces(run: string): Promise<void> {
    const { keyValue, log } = this.parts;
    await within(LAST_WORD_MS, keyValue.remove('run', run)).catch((error) =>
      log.debug({ err: error }, 'the board still shows a run that was given up'),
    );
  }

  /** Says how the run ended, within a few seconds whatever state the store is in. Safe to call again. */
  async end(state: Exclude<RunState, 'running'>): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = state;
    this.#waiting = null;
    const { keyValue, log } = this.parts;
    if (this.#bulletin === null) return;
    try {
      await within(LAST_WORD_MS, this.#bulletin.endWithPost());
      await within(LAST_WORD_MS, dropOldest(keyValue));
    } catch (error) {
      log.debug({ err: error }, 'the board did not hear of the end of the run');
    }
  }

  #post(): RunPost {
    const { settings, run, queue, summary, latency } = this.parts;
    const { limits, emulated } = settings;
    // A message may quote an answer, and nothing on the board does.
    const { error_samples: _, ...now } = summary();
    this.#said = highest(this.#said, now.calls);
    // The last rows may have been written since the run was last looked at.
    const known = Math.max(this.#known, now.rows.total);
    this.#rate = sampled(this.#rate, { at: performance.now(), done: known });
    return {
      v: 1,
      run,
      state: this.#state,
      queue,
      emulated,
      host: hostname(),
      pid: process.pid,
      known,
      rows_per_second: rateOf(this.#rate),
      waiting: this.#waiting,
      limits: {
        requests_per_minute: limits.requestsPerMinute,
        tokens_per_minute: limits.tokensPerMinute,
        token_estimate: limits.tokenEstimate,
        prompts_per_request: limits.promptsPerRequest,
        chunk_size: limits.chunkSize,
      },
      summary: { ...now, calls: this.#said },
      latency: latency(),
    };
  }
}

const highest = (a: CallCounts, b: CallCounts): CallCounts => ({
  sent: Math.max(a.sent, b.sent),
  retried: Math.max(a.retried, b.retried),
  rate_limited: Math.max(a.rate_limited, b.rate_limited),
  repeated: Math.max(a.repeated, b.repeated),
});

/** Keeps the newest of the runs that have ended; those that go on are never dropped. */
async function dropOldest(keyValue: RunNoticeParts['keyValue']): Promise<void> {
  const ended = readRuns(await keyValue.list('run'))
    .filter((seen) => standingOf(seen) !== 'running')
    .sort((a, b) => a.ageMs - b.ageMs);
  for (const { post } of ended.slice(RUNS_KEPT)) await keyValue.remove('run', post.run);
}
