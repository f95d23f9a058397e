/** Refusals that came together, with what the service admitted since the pause before. */
export interface Wave {
  readonly admitted: number;
  /** Calls that were refused in it. */
  readonly refused: number;
  /** Milliseconds from the pause before to the end of its own. */
  readonly ms: number;
  /** Milliseconds that its first refusal asked for. */
  readonly wait: number;
}

/** Waves that are remembered. */
export const MOST_WAVES = 6;
/** Refusals of a wave that say that whoever came was refused. Of twenty calls at once, one in fifty seldom hits three. */
const MANY = 3;
/** Waves whose numbers are alike within this factor come of a quota; those of chance differ by more, most often. */
const ALIKE = 1.3;
/** Pauses of this length, in milliseconds, are those of a window of a minute: nothing else asks for so long. */
const LONG_MS = 5_000;

/**
 * Whether refusals come of a quota. A quota refuses everybody until its window ends, and again after as many calls as the
 * time before. Refusals by chance hit single calls, after numbers of calls that have nothing in common (fault 79).
 * @param waves oldest first
 */
export function tellQuota(waves: readonly Wave[]): boolean {
  const [last, before, third] = [...waves].reverse();
  if (last === undefined || before === undefined) return false;
  if (last.wait >= LONG_MS) return true;
  if (last.refused >= MANY && before.refused >= MANY) return true;
  if (third === undefined) return false;
  const admitted = [last, before, third].map((wave) => wave.admitted);
  return Math.max(...admitted) <= ALIKE * Math.min(...admitted);
}

/** Whether nobody was refused beside another: where that goes on, no rate is to be found. */
export const areSingle = (waves: readonly Wave[]): boolean => waves.every(({ refused }) => refused < MANY);
