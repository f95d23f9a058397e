/** How far the picture of the throughput reaches back: 5 minutes. */
const REACH_MS = 300_000;
/** One point of the picture stands for so long: 60 points. */
const STEP_MS = 5_000;

interface Sample {
  readonly at: number;
  readonly known: number;
}

/** Samples of one run, oldest first, no closer together than a step but for the last. */
export type Samples = readonly Sample[];

/** The samples with one more, without those that are out of reach. */
export function withSample(samples: Samples, sample: Sample): Samples {
  const last = samples.at(-1);
  const beforeLast = samples.at(-2);
  const replaces = last && beforeLast && last.at - beforeLast.at < STEP_MS;
  return [...(replaces ? samples.slice(0, -1) : samples), sample].filter(
    ({ at }) => at >= sample.at - REACH_MS - STEP_MS,
  );
}

/** Rows a second between each two samples, oldest first. Rows that a store lost are no negative speed. */
export function speeds(samples: Samples): number[] {
  return samples.slice(1).flatMap(({ at, known }, i) => {
    const before = samples[i];
    if (before === undefined || at <= before.at) return [];
    return [Math.max(0, known - before.known) / ((at - before.at) / 1000)];
  });
}

/** How long it is from the first sample to the last, in milliseconds. */
export const reachOf = (samples: Samples): number => (samples.at(-1)?.at ?? 0) - (samples[0]?.at ?? 0);
