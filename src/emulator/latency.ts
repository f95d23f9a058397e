import { setTimeout as sleep } from 'node:timers/promises';

/** How long the emulator pretends to think. */
export interface Latency {
  /** Milliseconds before the first token. */
  readonly baseMs: number;
  /** Milliseconds for each token of the longest choice. */
  readonly perTokenMs: number;
}

/** Calls of equal size differ by up to this fraction in either direction. */
const JITTER = 0.2;

/** Milliseconds until the answer, for the tokens of its longest choice. */
export function latencyOf(latency: Latency, tokens: number, random: () => number): number {
  return (latency.baseMs + latency.perTokenMs * tokens) * (1 + JITTER * (2 * random() - 1));
}

/** Does nothing for a time; returns at once when there is nothing to wait for. Rejects with the signal's reason when it aborts. */
export async function wait(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await sleep(ms, undefined, { signal });
}
