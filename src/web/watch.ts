import { setTimeout as after } from 'node:timers/promises';
import {
  type SeenRun as Read,
  readRuns,
  readWorkers,
  type SeenWorker,
  type Standing,
  standingOf,
} from '../fleet/read-posts.js';
import type { KeyValue } from '../store/key-value.js';
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
const MOST_WORKERS = 1_000;

/** A run on the board, with how fast it was in the last minutes. */
export interface SeenRun extends Read {
  readonly standing: Standing;
  readonly samples: Samples;
}

/** What was seen on the board. */
export interface View {
  /** The newest first. */
  readonly runs: readonly SeenRun[];
  readonly workers: readonly SeenWorker[];
  /** Milliseconds since the store answered; null when it never did. */
  readonly silentMs: number | null;
  readonly ready: boolean;
}

/** A post as it was read at the last look. */
interface KnownPost {
  readonly text: string;
  /** Undefined for what is no post of a run. */
  readonly post: Read['post'] | undefined;
  readonly samples: Samples;
}

/** Looks at a board for all who want to know, once for all of them. */
export class BoardWatch {
  readonly #keyValue: Pick<KeyValue, 'list'>;
  readonly #timer: NodeJS.Timeout;
  #posts: Map<string, KnownPost> = new Map();
  #runs: readonly SeenRun[] = [];
  #workers: readonly SeenWorker[] = [];
  #answeredAt: number | null = null;
  #looking: Promise<void> | null = null;

  constructor(keyValue: Pick<KeyValue, 'list'>) {
    this.#keyValue = keyValue;
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
    const [posts, workers] = await Promise.all([this.#keyValue.list('run'), this.#keyValue.list('worker')]);
    const at = performance.now();
    const before = this.#posts;
    this.#posts = new Map();
    const runs: SeenRun[] = [];
    for (const { name, text, ageMs } of posts) {
      // A text that did not change is not read twice: most posts are of runs that ended.
      const known = before.get(name);
      const post = known?.text === text ? known.post : readRuns([{ name, text, ageMs }])[0]?.post;
      const samples =
        post?.state === 'running' ? withSample(known?.samples ?? [], { at, known: post.known }) : [];
      this.#posts.set(name, { text, post, samples });
      if (post !== undefined) runs.push({ post, ageMs, standing: standingOf({ post, ageMs }), samples });
    }
    this.#answeredAt = at;
    this.#runs = runs.toSorted((a, b) => begun(b) - begun(a)).slice(0, MOST_RUNS);
    this.#workers = readWorkers(workers)
      .slice(0, MOST_WORKERS)
      .sort((a, b) => (a.post.id < b.post.id ? -1 : 1));
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

const begun = ({ post }: SeenRun): number => Date.parse(post.summary.started_at);
