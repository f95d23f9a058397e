/** What a register holds after a look or a change. */
export interface RegisterReply {
  /** Null when nothing was ever written. */
  readonly text: string | null;
  /** False when another came first: then nothing was written. */
  readonly written: boolean;
  /** The clock of the store, in milliseconds since 1970: one for all who share the register. */
  readonly now: number;
}

/**
 * One small text for each name, shared by all who use a store. Changed only by those who know what it holds, so that
 * nobody overwrites what they have not seen.
 *
 * Implementations: Redis, PostgreSQL, and a file for the embedded store. One conformance suite proves all.
 */
export interface Register {
  read(name: string): Promise<RegisterReply>;
  /** @param before what the caller takes it to hold; null for nothing */
  swap(name: string, before: string | null, after: string): Promise<RegisterReply>;
}

/** A register that nobody has used for this long is dropped, in milliseconds: then nothing of it is true any more. */
export const REGISTER_TTL_MS = 3_600_000;
