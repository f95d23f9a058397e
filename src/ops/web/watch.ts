import { setTimeout as after } from 'node:timers/promises';
import { type RateWindow, sampled } from '../../account/rate.js';
import type { KeyValue } from '../../store/key-value.js';
import {
  type ObservedState,
  observedState,
  type RunHeartbeat,
  readRuns,
  readWorkers,
  type SeenRun,
  type SeenWorker,
} from '../heartbeat.js';

const REACH_MS = 300_000;
/** Heartbeats are read this often even without viewers, so that the throughput chart has no gap. */
const IDLE_MS = 5_000;
/** Beats are about a second old; looking more often shows nothing new. */
const FRESH_MS = 900;
/** A request waits no longer for a store that is away; it gets what was seen last. */
const PATIENCE_MS = 2_000;
/** A store that is silent for this long is not ready. */
const SILENT_MS = 15_000;
/** Real fleets are smaller; a store filled by somebody else must not fill the memory. */
const MOST_RUNS = 500;
const MOST_WORKERS = 1_000;

export interface WatchedRun extends SeenRun {
  readonly observed: ObservedState;
  readonly samples: RateWindow;
}

export interface View {
  readonly runs: readonly WatchedRun[];
  readonly workers: readonly SeenWorker[];
  /** Since the store answered; null when it never did. */
  readonly silentMs: number | null;
  readonly ready: boolean;
}

interface KnownBeat {
  readonly text: string;
  /** Undefined when the text is no run beat. */
  readonly beat: RunHeartbeat | undefined;
  readonly samples: RateWindow;
}

/** Reads the heartbeats once for all viewers. */
export class FleetWatch {
  readonly #timer: NodeJS.Timeout;
  #beats: Map<string, KnownBeat> = new Map();
  #runs: readonly WatchedRun[] = [];
  #workers: readonly SeenWorker[] = [];
  #answeredAt: number | null = null;
  #looking: Promise<void> | null = null;

  constructor(private readonly keyValue: Pick<KeyValue, 'list'>) {
    this.#timer = setInterval(() => void this.#look(), IDLE_MS).unref();
    void this.#look();
  }

  /** The current beats, or the last ones seen when the store does not answer. */
  async view(): Promise<View> {
    const age = this.#answeredAt === null ? null : performance.now() - this.#answeredAt;
    if (age === null || age > FRESH_MS) await this.#lookBriefly();
    const silentMs = this.#answeredAt === null ? null : performance.now() - this.#answeredAt;
    return {
      runs: this.#runs,
      workers: this.#workers,
      silentMs,
      ready: silentMs !== null && silentMs < SILENT_MS,
    };
  }

  async #lookBriefly(): Promise<void> {
    const patience = new AbortController();
    const tired = after(PATIENCE_MS, undefined, { signal: patience.signal }).catch(() => {});
    await Promise.race([this.#look(), tired]);
    patience.abort();
  }

  /** One look at a time: commands to a store that is away queue up until it is back. */
  #look(): Promise<void> {
    this.#looking ??= this.#read()
      // A store that is away shows as silence.
      .catch(() => {})
      .finally(() => {
        this.#looking = null;
      });
    return this.#looking;
  }

  async #read(): Promise<void> {
    const [beats, workers] = await Promise.all([this.keyValue.list('run'), this.keyValue.list('worker')]);
    const at = performance.now();
    const before = this.#beats;
    this.#beats = new Map();
    const runs: WatchedRun[] = [];
    for (const { name, text, ageMs } of beats) {
      // An unchanged text is not parsed twice: most beats are of ended runs.
      const known = before.get(name);
      const beat = known?.text === text ? known.beat : readRuns([{ name, text, ageMs }])[0]?.beat;
      const samples =
        beat?.state === 'running' ? sampled(known?.samples ?? [], { at, done: beat.called }, REACH_MS) : [];
      this.#beats.set(name, { text, beat, samples });
      if (beat !== undefined) runs.push({ beat, ageMs, observed: observedState({ beat, ageMs }), samples });
    }
    this.#answeredAt = at;
    this.#runs = runs.toSorted((a, b) => begun(b) - begun(a)).slice(0, MOST_RUNS);
    this.#workers = readWorkers(workers)
      .slice(0, MOST_WORKERS)
      .sort((a, b) => (a.beat.id < b.beat.id ? -1 : 1));
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

const begun = ({ beat }: SeenRun): number => Date.parse(beat.summary.started_at);
