import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import type { Latency } from '../account/latency.js';
import { type RateWindow, rateOf, sampled } from '../account/rate.js';
import { inShort } from '../account/scores.js';
import type { Summary } from '../account/summary.js';
import { Counter } from '../account/tally.js';
import type { Settings } from '../config/settings.js';
import { within } from '../core/clock.js';
import { CALLS, type CallCounts, highest, NO_CALLS } from '../core/counters.js';
import { thisProcess } from '../core/lock.js';
import type { KeyValue } from '../store/key-value.js';
import {
  observedState,
  type RunHeartbeat,
  type RunState,
  readRuns,
  type WorkerHeartbeat,
} from './heartbeat.js';

const RUN_EVERY_MS = 1_000;
const WORKER_EVERY_MS = 2_000;
/** 30 days. */
const RUN_TTL_MS = 30 * 24 * 3_600_000;
/** The oldest ended runs are dropped beyond this number. */
const RUNS_KEPT = 200;
/** A worker without a beat for this long is gone. */
const WORKER_TTL_MS = 15_000;
const LAST_WORD_MS = 1_000;
/** Window of a worker's rows per second. */
const WORKER_RATE_MS = 10_000;
const MOST_STATUSES = 50;

export interface HeartbeatOptions {
  readonly keyValue: Pick<KeyValue, 'put' | 'remove'>;
  readonly folder: 'run' | 'worker';
  readonly name: string;
  readonly beat: () => RunHeartbeat | WorkerHeartbeat;
  readonly everyMs: number;
  readonly ttlMs: number;
  /** The store refused or does not answer; nobody waits for it. */
  readonly onError: (error: unknown) => void;
}

/** One write at a time: a store that is away is not asked again before it has answered. */
export class HeartbeatSender {
  readonly #timer: NodeJS.Timeout;
  #writing: Promise<void> | null = null;
  #ended = false;

  /** Beats at once and then every `everyMs`. */
  constructor(private readonly options: HeartbeatOptions) {
    this.#timer = setInterval(() => this.#beatOnce(), options.everyMs);
    this.#timer.unref();
    this.#beatOnce();
  }

  /** Never rejects. */
  async endWithBeat(): Promise<void> {
    if (!(await this.#end())) return;
    await this.#write(() => this.#beat());
  }

  /** Removes the beat; never rejects. */
  async endWithout(): Promise<void> {
    if (!(await this.#end())) return;
    const { keyValue, folder, name } = this.options;
    await this.#write(() => keyValue.remove(folder, name));
  }

  /** Waits, so that the write before cannot overtake the last one. @returns false when it had ended before */
  async #end(): Promise<boolean> {
    if (this.#ended) return false;
    this.#ended = true;
    clearInterval(this.#timer);
    await this.#writing;
    return true;
  }

  #beatOnce(): void {
    this.#writing ??= this.#write(() => this.#beat()).finally(() => {
      this.#writing = null;
    });
  }

  async #beat(): Promise<void> {
    const { keyValue, folder, name, beat, ttlMs } = this.options;
    await keyValue.put(folder, name, JSON.stringify(beat()), ttlMs);
  }

  async #write(change: () => Promise<void>): Promise<void> {
    try {
      await change();
    } catch (error) {
      this.options.onError(error);
    }
  }
}

interface RunHeartbeatParts {
  readonly keyValue: Pick<KeyValue, 'get' | 'list' | 'put' | 'remove'>;
  readonly log: Logger;
  readonly settings: Settings;
  readonly run: string;
  readonly queue: string;
  readonly beyond: number;
  readonly summary: () => Summary;
  readonly latency: () => Latency;
}

interface Pulse {
  readonly known: number;
  readonly waiting: string | null;
  readonly online: boolean;
  readonly speed: {
    readonly called: number;
    readonly perSecond: number | null;
    readonly secondsLeft: number | null;
  };
}

/** Nothing in the run waits for a beat, except for the last one. */
export class RunHeartbeatSender {
  readonly #process = thisProcess();
  #heartbeat: HeartbeatSender | null = null;
  #state: RunState = 'running';
  #known: number;
  #waiting: string | null = null;
  #online = false;
  #speed: Pulse['speed'] = { called: 0, perSecond: null, secondsLeft: null };
  /** Counts reported last: a request that was not made is taken back, but reported counters never fall. */
  #said: CallCounts = NO_CALLS;
  #saidOfEach: Summary['endpoints'];

  /** @param done rows that earlier executions have written */
  constructor(
    private readonly parts: RunHeartbeatParts,
    done: number,
  ) {
    this.#known = done;
  }

  /** Call it once the run knows all that earlier processes counted. */
  async begin(): Promise<void> {
    const { keyValue, run, log } = this.parts;
    const { text } = await within(LAST_WORD_MS, keyValue.get('run', run)).catch(() => ({ text: null }));
    const [last] = readRuns(text === null ? [] : [{ name: run, text, ageMs: 0 }]);
    if (last !== undefined) this.#said = last.beat.summary.calls;
    this.#saidOfEach = last?.beat.summary.endpoints;
    this.#heartbeat = new HeartbeatSender({
      keyValue,
      folder: 'run',
      name: run,
      beat: () => this.#beat(),
      everyMs: RUN_EVERY_MS,
      ttlMs: RUN_TTL_MS,
      onError: (error) => log.debug({ err: error }, 'the store refused the heartbeat of the run'),
    });
  }

  /** Goes out with the next beat. */
  tell({ known, waiting, online, speed }: Pulse): void {
    this.#known = known;
    this.#online = online;
    this.#waiting = waiting;
    this.#speed = speed;
  }

  /** Writes how the run ended, within a few seconds whatever state the store is in. Safe to call again. */
  async end(state: Exclude<RunState, 'running'>): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = state;
    this.#waiting = null;
    const { keyValue, log } = this.parts;
    if (this.#heartbeat === null) return;
    try {
      await within(LAST_WORD_MS, this.#heartbeat.endWithBeat());
      await within(LAST_WORD_MS, dropOldest(keyValue));
    } catch (error) {
      log.debug({ err: error }, 'the store did not hear of the end of the run');
    }
  }

  #beat(): RunHeartbeat {
    const { settings, run, queue, beyond, summary, latency } = this.parts;
    const { emulated } = settings;
    // A message may quote an answer, and details have the prompt; a heartbeat must have neither. Properties may be long.
    const { error_samples: _, details: _details, properties: _properties, scores, ...now } = summary();
    this.#said = highest(CALLS, this.#said, now.calls);
    this.#saidOfEach = neverLess(this.#saidOfEach, now.endpoints);
    // The last rows may have been written after `tell`.
    const known = Math.max(this.#known, now.rows.total);
    return {
      v: 1,
      run,
      state: this.#state,
      queue,
      emulated,
      ...this.#process,
      known,
      ...(beyond > 0 && { beyond }),
      called: this.#speed.called,
      rows_per_second: this.#speed.perSecond,
      seconds_left: this.#speed.secondsLeft,
      waiting: this.#waiting,
      ...(this.#online && { online: true }),
      limits: limitsOf(settings),
      summary: {
        ...now,
        calls: this.#said,
        ...(this.#saidOfEach && { endpoints: this.#saidOfEach }),
        ...(scores && { scores: inShort(scores) }),
      },
      latency: latency(),
    };
  }
}

/** Calls of each endpoint as reported before, or more. */
function neverLess(before: Summary['endpoints'], now: Summary['endpoints']): Summary['endpoints'] {
  if (now === undefined) return undefined;
  const entries = Object.entries(now).map(([name, each]) => {
    const said = before?.[name] ?? each;
    const calls = Math.max(said.calls, each.calls);
    return [name, { ...each, calls, rate_limited: Math.max(said.rate_limited, each.rate_limited) }];
  });
  return Object.fromEntries(entries);
}

export async function forgetRun(keyValue: Pick<KeyValue, 'remove'>, run: string, log: Logger): Promise<void> {
  await within(LAST_WORD_MS, keyValue.remove('run', run)).catch((error) =>
    log.debug({ err: error }, 'the store still shows a run that was given up'),
  );
}

/** Keeps the newest ended runs; never drops a running one. */
async function dropOldest(keyValue: Pick<KeyValue, 'list' | 'remove'>): Promise<void> {
  const ended = readRuns(await keyValue.list('run')).filter((seen) => observedState(seen) !== 'running');
  for (const { beat } of ended.slice(RUNS_KEPT)) await keyValue.remove('run', beat.run);
}

interface WorkerHeartbeatParts {
  readonly keyValue: Pick<KeyValue, 'put' | 'remove'>;
  readonly log: Logger;
  readonly run: string | null;
  readonly concurrency: number;
  readonly view: () => Pick<WorkerHeartbeat, 'queues' | 'draining' | 'rows'>;
}

export class WorkerHeartbeatSender {
  readonly id = `${hostname()}-${process.pid}-${randomBytes(2).toString('hex')}`;
  readonly #process = thisProcess();
  readonly #began = new Date().toISOString();
  readonly #calls = new Counter({}, MOST_STATUSES);
  #heartbeat: HeartbeatSender | null = null;
  #rate: RateWindow = [];

  constructor(private readonly parts: WorkerHeartbeatParts) {}

  /** @param status HTTP status, or the code of what prevented an answer */
  called(status: string): void {
    this.#calls.add(status);
  }

  begin(): void {
    const { keyValue, log } = this.parts;
    this.#heartbeat = new HeartbeatSender({
      keyValue,
      folder: 'worker',
      name: this.id,
      beat: () => this.#beat(),
      everyMs: WORKER_EVERY_MS,
      ttlMs: WORKER_TTL_MS,
      onError: (error) => log.debug({ err: error }, 'the store refused the heartbeat of the worker'),
    });
  }

  /** Removes the beat, within a few seconds whatever state the store is in. */
  async end(): Promise<void> {
    await within(LAST_WORD_MS, this.#heartbeat?.endWithout() ?? Promise.resolve()).catch((error) =>
      this.parts.log.debug({ err: error }, 'the store did not hear of the end of the worker'),
    );
  }

  #beat(): WorkerHeartbeat {
    const { run, concurrency, view } = this.parts;
    const { queues, draining, rows } = view();
    this.#rate = sampled(this.#rate, { at: performance.now(), done: rows }, WORKER_RATE_MS);
    return {
      v: 1,
      id: this.id,
      ...this.#process,
      started_at: this.#began,
      run,
      queues,
      concurrency,
      draining,
      rows,
      rows_per_second: Math.round((rateOf(this.#rate) ?? 0) * 100) / 100,
      calls: this.#calls.toCounts(),
    };
  }
}

export const limitsOf = ({ limits }: Settings): RunHeartbeat['limits'] => ({
  requests_per_minute: limits.requestsPerMinute,
  tokens_per_minute: limits.tokensPerMinute,
  token_estimate: limits.tokenEstimate,
  prompts_per_request: limits.promptsPerRequest,
  chunk_size: limits.chunkSize,
});
