import { loadPackage } from '../core/load-package.js';

/** Loaded late: only once a call has ended. */
const library = (): typeof import('hdr-histogram-js') => loadPackage('hdr-histogram-js');

/**
 * Compressed base64: up to 3 KB and about 0.1 ms to write for any number of calls. `null` before the first.
 */
export type Latency = {
  readonly histogram: string;
  /** Milliseconds, exact; the histogram has only two digits. */
  readonly max: number;
} | null;

/** Whole milliseconds; `null` if no call ended. */
interface LatencyPercentiles {
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
  readonly max: number | null;
}

/** A longer call counts as one hour in the percentiles, and as itself in `max`. */
const HIGHEST_MS = 3_600_000;

/** As cheap as 32 bits here, and cannot overflow. */
const COUNT_BITS = 64;

/** @param durations in milliseconds */
export function withLatencies(latency: Latency, durations: readonly number[]): Latency {
  if (durations.length === 0) return latency;
  const { build, decodeFromCompressedBase64, encodeIntoCompressedBase64 } = library();
  const histogram =
    latency === null
      ? build({
          bitBucketSize: COUNT_BITS,
          autoResize: false,
          highestTrackableValue: HIGHEST_MS,
          numberOfSignificantValueDigits: 2,
        })
      : decodeFromCompressedBase64(latency.histogram, COUNT_BITS);
  let max = latency?.max ?? 0;
  for (const duration of durations) {
    const ms = Math.round(duration);
    histogram.recordValue(Math.min(ms, HIGHEST_MS));
    max = Math.max(max, ms);
  }
  return { histogram: encodeIntoCompressedBase64(histogram), max };
}

export function percentiles(latency: Latency): LatencyPercentiles {
  if (latency === null) return { p50: null, p90: null, p95: null, p99: null, max: null };
  const histogram = library().decodeFromCompressedBase64(latency.histogram, COUNT_BITS);
  // A percentile is the upper end of its bucket, which may exceed the longest call.
  const at = (percentile: number) => Math.min(histogram.getValueAtPercentile(percentile), latency.max);
  return { p50: at(50), p90: at(90), p95: at(95), p99: at(99), max: latency.max };
}

/** In Prometheus form: each bucket includes the smaller ones. */
interface LatencyBuckets {
  /** Calls at or below each bound, to the two digits of the histogram. */
  readonly within: readonly number[];
  readonly calls: number;
  /** Sum in milliseconds, to two digits; a call of more than an hour counts as an hour. */
  readonly sumMs: number;
}

/** @param boundsMs ascending, in milliseconds. @throws Error when the text is no histogram */
export function latencyBuckets(latency: Latency, boundsMs: readonly number[]): LatencyBuckets {
  if (latency === null) return { within: boundsMs.map(() => 0), calls: 0, sumMs: 0 };
  const { decodeFromCompressedBase64, JsHistogram } = library();
  const histogram = decodeFromCompressedBase64(latency.histogram, COUNT_BITS);
  if (!(histogram instanceof JsHistogram)) throw new Error('no histogram that can be counted');
  let index = -1;
  let calls = 0;
  const within = boundsMs.map((bound) => {
    const last = histogram.countsArrayIndex(Math.min(bound, HIGHEST_MS));
    while (index < last) calls += histogram.getCountAtIndex(++index);
    return calls;
  });
  return { within, calls: histogram.totalCount, sumMs: histogram.mean * histogram.totalCount };
}
