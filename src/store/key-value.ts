/** What is kept apart: how runs and workers get on, and the pace of each queue. */
export type Folder = 'run' | 'worker' | 'pace';

/** What a name holds after a look or a swap. */
export interface Cell {
  /** Null when it holds nothing, or what it held is over. */
  readonly text: string | null;
  /** Whether this swap wrote it. False when another came first: then nothing was written. */
  readonly written: boolean;
  /** The clock of the store, in milliseconds since 1970: one for all who share it. */
  readonly now: number;
}

/** One of the texts of a folder. */
export interface Listed {
  readonly name: string;
  readonly text: string;
  /** Time since it was last written, in milliseconds, by the clock of the store. */
  readonly ageMs: number;
}

/**
 * Small texts by name, in the same store as the queue, beside the ledger. Each is dropped when it was not written again for
 * its time to live. Rows and outcomes have their own place: a text that is lost costs none of them.
 *
 * Implementations: Redis, PostgreSQL, and files in the state directory for the embedded store, which only the
 * process of one run can open. One conformance suite proves all. Each of them calls the place where the texts are `board`.
 */
export interface KeyValue {
  get(folder: Folder, name: string): Promise<Cell>;
  /** Writes a text, whatever was there. A name is written by `put` or by `swap`, and by one of them only. */
  put(folder: Folder, name: string, text: string, ttlMs: number): Promise<void>;
  /**
   * Writes a text if the name holds what the caller takes it to hold, so that nobody overwrites what they have not seen.
   * @param before null for nothing
   */
  swap(folder: Folder, name: string, before: string | null, after: string, ttlMs: number): Promise<Cell>;
  /**
   * The texts of a folder, the newest first: the {@link MOST_LISTED} newest, of these as many as {@link MOST_BYTES} hold. One
   * of more than {@link LONGEST_TEXT} was written by somebody else, and is left out.
   * @param withinMs only those written within this time, in milliseconds. @default all
   */
  list(folder: Folder, withinMs?: number): Promise<readonly Listed[]>;
  /** Removes a text, if there is one. */
  remove(folder: Folder, name: string): Promise<void>;
}

/** Texts that a list has at most: several times the largest fleet, and an answer of a few megabytes. */
export const MOST_LISTED = 5_000;

/** Bytes of a listed text: several times the largest, since all that a run counts by name is bounded. */
export const LONGEST_TEXT = 1_048_576;

/** Bytes that a list has at most; others can write to a store, and a look must not fill the memory. */
export const MOST_BYTES = 67_108_864;
