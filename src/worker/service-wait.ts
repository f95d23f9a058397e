import type { OutageView } from '../pace/pauses.js';

export interface Calling {
  readonly waitingMs: number;
  readonly outage: OutageView | null;
}

/** In words; null while it calls. */
export function serviceWait({ outage, waitingMs }: Calling, now: number): string | null {
  if (outage) {
    const next = outage.until > now ? `next call at ${clock(outage.until)}` : 'one call tries it';
    return `waiting since ${clock(outage.since)}: ${outage.fault.message}; ${next}`;
  }
  return waitingMs >= 1000 ? `the service asked to wait until ${clock(now + waitingMs)}` : null;
}

/** `10:42:05` in local time. */
export const clock = (at: number): string => new Date(at).toTimeString().slice(0, 8);
