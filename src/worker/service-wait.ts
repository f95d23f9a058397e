import type { OutageView } from '../pace/pauses.js';

/** A worker, as far as its waits are told. */
export interface Calling {
  /** Milliseconds for which the service asked to wait. */
  readonly waitingMs: number;
  readonly outage: OutageView | null;
}

/** What a worker waits for on the side of the service, in words; null while it calls. */
export function serviceWait({ outage, waitingMs }: Calling, now: number): string | null {
  if (outage) {
    const next = outage.until > now ? `next call at ${clock(outage.until)}` : 'one call tries it';
    return `waiting since ${clock(outage.since)}: ${outage.fault.message}; ${next}`;
  }
  return waitingMs >= 1000 ? `the service asked to wait until ${clock(now + waitingMs)}` : null;
}

/** `10:42:05`, in the time zone of whoever looks on. */
export const clock = (at: number): string => new Date(at).toTimeString().slice(0, 8);
