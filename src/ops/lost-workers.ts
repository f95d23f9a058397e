import type { SeenWorker } from './heartbeat.js';

/** A worker whose heartbeat is silent for this long counts as lost: five beats. */
export const WORKER_LOST_MS = 10_000;
/** A worker idle for this long still has its rows: its last beat was up to two seconds before. */
export const WORKER_SAFE_MS = WORKER_LOST_MS - 2_000;
/** While the store accepts writes, some beat arrives at least this often. */
const HEARD_MS = 5_000;
/** One beat may seem to come at times this far apart, since looks at the store vary in length. */
const SAME_BEAT_MS = 1_000;

/**
 * A slow worker keeps its rows as long as it beats, so silence counts only while others were heard all the
 * time. While the store is away, frozen or full, or the observer sleeps, everybody is silent: then the time
 * starts over.
 */
export class LostWorkers {
  /** Worker → when it last beat, by the observer's clock. */
  readonly #beatAt = new Map<string, number>();
  /** Requeued worker → its last beat, which stays readable for some seconds. */
  readonly #lastBeatOf = new Map<string, number>();
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** Since when every look has heard somebody. */
  #heardSince = 0;

  /**
   * @param beats of all workers, at most five seconds after the previous ones
   * @param now by a steady clock
   * @returns the lost workers, until they are passed to `requeued`
   */
  looked(beats: readonly SeenWorker[], now: number): ReadonlySet<string> {
    for (const { beat, ageMs } of beats) this.#heard(beat.id, now - ageMs);
    const isHeard = beats.some(({ ageMs }) => ageMs < HEARD_MS);
    if (!isHeard || now - this.#lookedAt > HEARD_MS) this.#heardSince = now;
    this.#lookedAt = now;
    if (now - this.#heardSince < WORKER_LOST_MS) return new Set();
    return new Set([...this.#beatAt].flatMap(([id, at]) => (now - at > WORKER_LOST_MS ? [id] : [])));
  }

  requeued(workers: ReadonlySet<string>): void {
    for (const id of workers) {
      this.#lastBeatOf.set(id, this.#beatAt.get(id) ?? 0);
      this.#beatAt.delete(id);
    }
  }

  #heard(id: string, at: number): void {
    const last = this.#lastBeatOf.get(id);
    if (last !== undefined && at <= last + SAME_BEAT_MS) return;
    this.#lastBeatOf.delete(id);
    this.#beatAt.set(id, Math.max(this.#beatAt.get(id) ?? 0, at));
  }
}
