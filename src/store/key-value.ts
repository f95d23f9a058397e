export type Folder = 'run' | 'worker' | 'pace';

export interface Cell {
  /** Null when it holds nothing, or its text has expired. */
  readonly text: string | null;
  /** False when another writer came first; then nothing was written. */
  readonly written: boolean;
  /** The store's clock, in ms since 1970: the same for all who share the store. */
  readonly now: number;
}

export interface Listed {
  readonly name: string;
  readonly text: string;
  /** By the store's clock. */
  readonly ageMs: number;
}

/**
 * Small texts by name, in the store of the queue: on Redis, or for the embedded store, which only one process
 * can open, in files of the state directory. One conformance suite covers both. A text that is not written again
 * within its time to live expires, which loses no row and no outcome. The place of the texts is named `board`
 * everywhere.
 */
export interface KeyValue {
  get(folder: Folder, name: string): Promise<Cell>;
  /** Overwrites any text. A name is written either by `put` or by `swap`, never by both. */
  put(folder: Folder, name: string, text: string, ttlMs: number): Promise<void>;
  /** Writes only over `before` (null: nothing), so that nobody overwrites what they have not seen. */
  swap(folder: Folder, name: string, before: string | null, after: string, ttlMs: number): Promise<Cell>;
  /**
   * Newest first, up to {@link MOST_LISTED} and {@link MOST_BYTES}; leaves out any over {@link LONGEST_TEXT}.
   * @param withinMs only texts written within this time. @default all
   */
  list(folder: Folder, withinMs?: number): Promise<readonly Listed[]>;
  remove(folder: Folder, name: string): Promise<void>;
}

/** Several times the largest fleet, and an answer of a few megabytes. */
export const MOST_LISTED = 5_000;

/** In bytes: several times the largest text, since all that a run counts by name is bounded. */
export const LONGEST_TEXT = 1_048_576;

/** In bytes: others can write to a store, and reading it must not fill the memory. */
export const MOST_BYTES = 67_108_864;
