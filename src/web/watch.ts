import { setTimeout as after } from 'node:timers/promises';
import type { Board } from '../fleet/board.js';
import { RUN_LOST_MS, type RunPost, type WorkerPost } from '../fleet/posts.js';
import { BoardReader, type Seen } from './posted.js';
import { type Samples, withSample } from './throughput.js';

/** Nobody looks on: the board is read so often all the same, so that the picture of the throughput has no gap. */
const IDLE_MS = 5_000;
/** Posts are about a second old; looking more often shows nothing more. */
const FRESH_MS = 900;
/** A request does not wait longer for a store that is away; it gets what was seen last. */
const PATIENCE_MS = 2_000;
/** A store that was silent for so long is not there. */
const SILENT_MS = 15_000;
/** A board holds fewer; one that was filled by somebody else must not fill the memory. */
const MOST_RUNS = 500;

/** A run on the board, with how fast it was in the last minutes. */
export interface SeenRun extends Seen<RunPost> {
  /** Says that it runs, and has not said so for a while: its process was killed, or cannot reach the store. */
  readonly lost: boolean;
  readonly samples: Samples;
}

/** What was seen on the board. */
export interface View {
  /** The newest first. */
  readonly runs: readonly SeenRun[];
  readonly workers: readonly Seen<WorkerPost>[];
  /** Milliseconds since the store answered; null when it never did. */
  readonly silentMs: number | null;
  readonly ready: boolean;
}

/** Looks at a board for all who want to know, once for all of them. */
export class BoardWatch {
  readonly #reader: BoardReader;
  readonly #timer: NodeJS.Timeout;
  #runs: readonly SeenRun[] = [];
  #workers: readonly Seen<WorkerPost>[] = [];
  #answeredAt: number | null = null;
  #looking: Promise<void> | null = null;

  constructor(board: Board) {
    this.#reader = new BoardReader(board);
    this.#timer = setInterval(() => void this.#look(), IDLE_MS).unref();
    void this.#look();
  }

  /** What is on the board now, or what was last seen there where the store does not answer. */
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
    const [runs, workers] = await Promise.all([this.#reader.runs(), this.#reader.workers()]);
    const at = performance.now();
    const before = new Map(this.#runs.map(({ post, samples }) => [post.run, samples]));
    this.#answeredAt = at;
    this.#workers = workers.toSorted((a, b) => (a.post.id < b.post.id ? -1 : 1));
    this.#runs = runs
      .map(({ post, ageMs }) => ({
        post,
        ageMs,
        lost: post.state === 'running' && ageMs > RUN_LOST_MS,
        samples:
          post.state === 'running' ? withSample(before.get(post.run) ?? [], { at, known: post.known }) : [],
      }))
      .toSorted((a, b) => Date.parse(b.post.summary.started_at) - Date.parse(a.post.summary.started_at))
      .slice(0, MOST_RUNS);
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
