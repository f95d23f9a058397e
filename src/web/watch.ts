import { setTimeout as after } from 'node:timers/promises';
import { type RateWindow, sampled } from '../account/rate.js';
import {
  type RunBeat,
  readRuns,
  readWorkers,
  type SeenRun,
  type SeenWorker,
  type Standing,
  standingOf,
} from '../fleet/beats.js';
import type { KeyValue } from '../store/key-value.js';

/** How far the picture of the throughput reaches back, in milliseconds: 5 minutes. */
const REACH_MS = 300_000;
/** Nobody looks on: the heartbeats are read so often all the same, so that the picture of the throughput has no gap. */
const IDLE_MS = 5_000;
/** Beats are about a second old; looking more often shows nothing more. */
const FRESH_MS = 900;
/** A request does not wait longer for a store that is away; it gets what was seen last. */
const PATIENCE_MS = 2_000;
/** A store that was silent for so long is not there. */
const SILENT_MS = 15_000;
/** There are fewer; a store that was filled by somebody else must not fill the memory. */
const MOST_RUNS = 500;
const MOST_WORKERS = 1_000;

/** The last beat of a run, with how fast it was in the last minutes. */
export interface WatchedRun extends SeenRun {
  readonly standing: Standing;
  readonly samples: RateWindow;
}

/** What was heard last. */
export interface View {
  /** The newest first. */
  readonly runs: readonly WatchedRun[];
  readonly workers: readonly SeenWorker[];
  /** Milliseconds since the store answered; null when it never did. */
  readonly silentMs: number | null;
  readonly ready: boolean;
}

/** A beat as it was read at the last look. */
interface KnownBeat {
  readonly text: string;
  /** Undefined for what is no beat of a run. */
  readonly beat: RunBeat | undefined;
  readonly samples: RateWindow;
}

/** Reads the heartbeats for all who want to know, once for all of them. */
export class FleetWatch {
  readonly #keyValue: Pick<KeyValue, 'list'>;
  readonly #timer: NodeJS.Timeout;
  #beats: Map<string, KnownBeat> = new Map();
  #runs: readonly WatchedRun[] = [];
  #workers: readonly SeenWorker[] = [];
  #answeredAt: number | null = null;
  #looking: Promise<void> | null = null;

  constructor(keyValue: Pick<KeyValue, 'list'>) {
    this.#keyValue = keyValue;
    this.#timer = setInterval(() => void this.#look(), IDLE_MS).unref();
    void this.#look();
  }

  /** What is heard now, or what was heard last where the store does not answer. */
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

  /** One look at a time: a store that is away keeps the commands until it is back. */
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
    const [beats, workers] = await Promise.all([this.#keyValue.list('run'), this.#keyValue.list('worker')]);
    const at = performance.now();
    const before = this.#beats;
    this.#beats = new Map();
    const runs: WatchedRun[] = [];
    for (const { name, text, ageMs } of beats) {
      // A text that did not change is not read twice: most beats are of runs that ended.
      const known = before.get(name);
      const beat = known?.text === text ? known.beat : readRuns([{ name, text, ageMs }])[0]?.beat;
      const samples =
        beat?.state === 'running' ? sampled(known?.samples ?? [], { at, done: beat.called }, REACH_MS) : [];
      this.#beats.set(name, { text, beat, samples });
      if (beat !== undefined) runs.push({ beat, ageMs, standing: standingOf({ beat, ageMs }), samples });
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
