import type { Store } from './store.js';

const LOOK_MS = 250;

/** A store that does not answer, or refuses, for this long is away for a process that has to end. */
const AWAY_MS = 3_000;

/**
 * Resolves when the store has been away for `awayMs` (@default 3 seconds) without a break, and never after
 * `until`. A process asked to end need not wait longer: container engines give ten seconds (fault 82).
 */
export function silenceOf(
  { ping, health }: Pick<Store, 'ping' | 'health'>,
  until: AbortSignal,
  awayMs = AWAY_MS,
): Promise<void> {
  return new Promise((resolve) => {
    let asking = false;
    // Counts pings, because a process that was busy itself has not given the store its time.
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
