import type { Store } from './store.js';

/** Time from one look at the store to the next, in milliseconds. */
const LOOK_MS = 250;

/** A store that does not answer, or takes nothing, for so long is away for whoever has to end, in milliseconds. */
const AWAY_MS = 3_000;

/**
 * Resolves when the store has been away for some time without a break. Whoever was asked to end need not wait for it any
 * longer: container engines give ten seconds (fault 82).
 * @param until ends the looking; then it never resolves
 * @param awayMs @default 3 seconds
 */
export function silenceOf(
  { ping, health }: Pick<Store, 'ping' | 'health'>,
  until: AbortSignal,
  awayMs = AWAY_MS,
): Promise<void> {
  return new Promise((resolve) => {
    let asking = false;
    // Counted in looks, because a process that was busy itself has not given the store its time.
    let unanswered = 0;
    const look = (): void => {
      unanswered++;
      if (unanswered * LOOK_MS > awayMs) {
        clearInterval(timer);
        resolve();
      }
      if (asking) return;
      asking = true;
      ping()
        .then(() => {
          if (health.refusal === null) unanswered = 0;
        })
        .catch(() => {})
        .finally(() => {
          asking = false;
        });
    };
    const timer = setInterval(look, LOOK_MS);
    until.addEventListener('abort', () => clearInterval(timer), { once: true });
    look();
  });
}
