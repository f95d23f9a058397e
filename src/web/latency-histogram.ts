import { Histogram, type Registry } from 'prom-client';
import { type Latency, latencyBuckets } from '../report/latency.js';

const NAME = 'promptmill_run_latency_seconds';
const HELP = 'How long the last call of each row took';

/** Completions of a few tokens take a tenth of a second, long ones minutes. In seconds. */
const BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600];

/** A real text has at most 3,000 characters. */
const LONGEST = 20_000;

/** One line of the metric. */
interface Line {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/**
 * A histogram that was counted elsewhere. That of prom-client only takes one observation after the other, and a run
 * has millions; so this one answers the registry with lines of its own.
 */
export class LatencyHistogram extends Histogram {
  readonly #lines: Line[] = [];

  constructor(registry: Registry) {
    super({ name: NAME, help: HELP, labelNames: ['job', 'run'], registers: [registry] });
  }

  /** A text that is no histogram, which only a forged beat has, leaves that run out. */
  add(labels: { readonly job: string; readonly run: string }, latency: Latency): void {
    if ((latency?.histogram.length ?? 0) > LONGEST) return;
    try {
      const { within, calls, sumMs } = latencyBuckets(
        latency,
        BOUNDS.map((bound) => bound * 1000),
      );
      const bucket = (le: number | '+Inf', value: number): Line => ({
        metricName: `${NAME}_bucket`,
        labels: { ...labels, le },
        value,
      });
      this.#lines.push(
        ...BOUNDS.map((bound, i) => bucket(bound, within[i] ?? 0)),
        bucket('+Inf', calls),
        { metricName: `${NAME}_sum`, labels, value: sumMs / 1000 },
        { metricName: `${NAME}_count`, labels, value: calls },
      );
    } catch {}
  }

  /** What the registry asks a histogram for; the types leave it out. */
  async getForPromString() {
    return { name: NAME, help: HELP, type: 'histogram', aggregator: 'sum', values: this.#lines };
  }
}
