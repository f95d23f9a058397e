import type { Folder, KeyValue } from '../store/key-value.js';

export interface BulletinOptions {
  readonly keyValue: Pick<KeyValue, 'put' | 'remove'>;
  readonly kind: Folder;
  readonly id: string;
  /** What to post now. */
  readonly text: () => string;
  /** Time from one post to the next, in milliseconds. */
  readonly everyMs: number;
  readonly ttlMs: number;
  /** The store refused, or does not answer; nobody waits for it. */
  readonly onError: (error: unknown) => void;
}

/**
 * Keeps one post on a board up to date. One write at a time: a store that is away is not asked again before it has
 * answered.
 */
export class Bulletin {
  readonly #timer: NodeJS.Timeout;
  #writing: Promise<void> | null = null;
  #ended = false;

  /** Posts at once, and from then on. */
  constructor(private readonly options: BulletinOptions) {
    this.#timer = setInterval(() => this.#postOnce(), options.everyMs);
    this.#timer.unref();
    this.#postOnce();
  }

  /** Puts up a last post, as it is now; never rejects. */
  async endWithPost(): Promise<void> {
    if (!(await this.#end())) return;
    await this.#write(() => this.#post());
  }

  /** Takes the post down; never rejects. */
  async endWithout(): Promise<void> {
    if (!(await this.#end())) return;
    const { keyValue, kind, id } = this.options;
    await this.#write(() => keyValue.remove(kind, id));
  }

  /** The last word must not be overtaken by the one before. @returns false when it was ended before */
  async #end(): Promise<boolean> {
    if (this.#ended) return false;
    this.#ended = true;
    clearInterval(this.#timer);
    await this.#writing;
    return true;
  }

  #postOnce(): void {
    this.#writing ??= this.#write(() => this.#post()).finally(() => {
      this.#writing = null;
    });
  }

  async #post(): Promise<void> {
    const { keyValue, kind, id, text, ttlMs } = this.options;
    await keyValue.put(kind, id, text(), ttlMs);
  }

  async #write(change: () => Promise<void>): Promise<void> {
    try {
      await change();
    } catch (error) {
      this.options.onError(error);
    }
  }
}
