/**
 * `queue.rateLimit` pauses only workers with a limiter, by counting more than `max` entries as taken. This
 * one never triggers by itself: no worker takes so many entries in a second.
 */
export const ENTRY_LIMIT = { max: 1_000_000_000, duration: 1_000 } as const;
