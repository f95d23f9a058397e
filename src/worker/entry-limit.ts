/**
 * The limiter of BullMQ that every worker has: `queue.rateLimit` pauses nobody whose worker has none. This one never bites
 * by itself: no worker takes so many entries in a second. A queue counts as limited when more than these are said to be
 * taken, which is what `queue.rateLimit` says.
 */
export const ENTRY_LIMIT = { max: 1_000_000_000, duration: 1_000 } as const;
