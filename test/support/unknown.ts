import { mostPrefetched } from '../../src/worker/batcher.js';

/**
 * Calls that may be made again when a process with so many in flight at most is killed, or loses its store: those in flight,
 * and those that have ended since the ledger was last told. The latter are no more than the calls that were reserved ahead,
 * because a call that was not needs a write before it, which tells the ledger of all that have ended.
 */
export const unknownAfter = (concurrency: number): number => concurrency + mostPrefetched(concurrency);
