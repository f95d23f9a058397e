/**
 * Milliseconds since 1970 at the start of the process, plus the time passed since then. Every duration (a
 * pause, a deadline, an age) uses this clock, because the system's may be set at any moment (fault 90). Dates
 * that are shown come from the system's clock.
 */
export const steadyNow = (): number => Math.floor(performance.timeOrigin + performance.now());

/** Milliseconds between comparisons of the two clocks. */
const LOOK_MS = 1_000;
/** Milliseconds; smaller steps are normal clock corrections. */
const CORRECTED_MS = 2_000;

/** @returns stop it with `clearInterval` */
export function watchClock(onSetBack: (ms: number) => void): NodeJS.Timeout {
  const ahead = (): number => Date.now() - steadyNow();
  let before = ahead();
  const timer = setInterval(() => {
    const now = ahead();
    if (before - now > CORRECTED_MS) onSetBack(before - now);
    before = now;
  }, LOOK_MS);
  return timer.unref();
}

/** Waits at most `ms` milliseconds. @throws Error `no answer within …` */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms / 1000} seconds`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    // Nothing handles a later rejection.
    promise.catch(() => {});
  }
}
