import type { SeenWorker } from './beats.js';

/** A worker whose heartbeat is silent for this time is taken for lost, in milliseconds: five beats. */
export const WORKER_LOST_MS = 10_000;
/** One that did nothing for this time still has its rows, in milliseconds: its last beat was up to two seconds before. */
export const WORKER_SAFE_MS = WORKER_LOST_MS - 2_000;
/** Somebody beats at least so often, in milliseconds, where the store takes what it is given. */
const HEARD_MS = 5_000;
/** One beat seems to come at times so far apart, as far as a look at the store takes longer than another, in milliseconds. */
const SAME_BEAT_MS = 1_000;

/**
 * Tells which workers are lost: killed, or cut off from the store. A worker that is only slow keeps its rows as long as it
 * beats, so silence counts only while others were heard of all the time. While the store is away, frozen or full, or whoever
 * looks was asleep, everybody is silent: then the time begins anew.
 */
export class LostWorkers {
  /** Worker → when it last beat, by the clock of whoever looks. */
  readonly #beatAt = new Map<string, number>();
  /** Worker that others have what it held of → its last beat, which stays readable for some seconds. */
  readonly #lastBeatOf = new Map<string, number>();
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** Since when each look heard of somebody. */
  #heardSince = 0;

  /**
   * @param beats the heartbeats of all workers, at most five seconds after those before
   * @param now by a steady clock
   * @returns the workers that are lost, until `takenBack` is told of them
   */
  looked(beats: readonly SeenWorker[], now: number): ReadonlySet<string> {
    for (const { beat, ageMs } of beats) this.#heard(beat.id, now - ageMs);
    const isHeard = beats.some(({ ageMs }) => ageMs < HEARD_MS);
    if (!isHeard || now - this.#lookedAt > HEARD_MS) this.#heardSince = now;
    this.#lookedAt = now;
    if (now - this.#heardSince < WORKER_LOST_MS) return new Set();
    return new Set([...this.#beatAt].flatMap(([id, at]) => (now - at > WORKER_LOST_MS ? [id] : [])));
  }

  /** Others have what these workers held. */
  takenBack(workers: ReadonlySet<string>): void {
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
