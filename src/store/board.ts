/** What a board keeps apart. */
export type PostKind = 'run' | 'worker';

/** A post as it hangs there. */
export interface Posted {
  readonly id: string;
  readonly text: string;
  /** Time since it was put up or last replaced, in milliseconds, by the clock of the store. */
  readonly ageMs: number;
}

/**
 * Where runs and workers say how they get on, for `promptmill status`, `work` and `serve` to read: one text for each of
 * them, in the same store as the queue. Nothing depends on it: a board that is lost or late shows less, and no row is
 * answered differently for it.
 *
 * Implementations: Redis, PostgreSQL, and files in the state directory for the embedded store. One conformance suite
 * proves all.
 */
export interface Board {
  /**
   * Puts up a post, or replaces the one of the same kind and id.
   * @param ttlMs it comes down by itself when it was not replaced for this time, in milliseconds
   */
  post(kind: PostKind, id: string, text: string, ttlMs: number): Promise<void>;
  /**
   * The posts of a kind that are up, newest first: the {@link MOST_POSTS} newest, of these as many as {@link MOST_BYTES}
   * hold. One of more than {@link LONGEST_POST} is none of ours, and is left out where it lies.
   * @param withinMs only those put up or replaced within this time, in milliseconds. @default all
   */
  posts(kind: PostKind, withinMs?: number): Promise<readonly Posted[]>;
  /** Takes a post down; one that is not there is no fault. */
  remove(kind: PostKind, id: string): Promise<void>;
}

/** Posts that a look returns at most: several times the largest fleet, and an answer of a few megabytes. */
export const MOST_POSTS = 5_000;

/** Bytes of a post: several times the largest, since all that a run counts by name is bounded. */
export const LONGEST_POST = 1_048_576;

/** Bytes that a look returns at most; others can write to a store, and a look must not fill the memory. */
export const MOST_BYTES = 67_108_864;
