/**
 * Milliseconds since 1970 as they were when the process began, plus the time that has passed since then. Whatever lasts
 * (a pause, a deadline, the time since something happened) goes by this clock: the system's may be set back or forward at
 * any moment (fault 90). What is shown as a date goes by the system's.
 */
export const steadyNow = (): number => Math.floor(performance.timeOrigin + performance.now());

/** The system's clock and the steady one are compared so often, in milliseconds. */
const LOOK_MS = 1_000;
/** What passes for a clock that is being corrected, in milliseconds. */
const CORRECTED_MS = 2_000;

/**
 * Tells when the system's clock was set back, and by how many milliseconds.
 * @returns ends it with `clearInterval`
 */
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
