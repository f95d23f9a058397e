import type { FastifyInstance } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { latencyBuckets } from '../../account/latency.js';
import { SOURCES } from '../../account/summary.js';
import { within } from '../../core/clock.js';
import { CALLS } from '../../core/counters.js';
import { STATUSES } from '../../core/model.js';
import type { QueueView } from '../../queue/queue-views.js';
import type { RunHeartbeat, WorkerHeartbeat } from '../heartbeat.js';
import type { FleetWatch, WatchedRun } from './watch.js';

/** Runs that ended longer ago are left out, so that their series in Prometheus end: a day. */
const RECENT_MS = 24 * 3_600_000;
/** The newest runs: each has about 50 series. */
const MOST_RUNS = 50;
const MOST_WORKERS = 500;
/** Real statuses and codes are few; a worker that reports more is not trusted. */
const MOST_STATUSES = 50;
const MOST_QUEUES = 20;
/** Characters to which a label from a heartbeat, or a status, is cut. */
const LABEL_LENGTH = 200;
const STATUS_LENGTH = 50;
/** Counts of a queue that take longer are left out of the scrape. */
const PATIENCE_MS = 2_000;

const STATES = ['running', 'lost', 'finished', 'stopped', 'interrupted'] as const;

interface MetricsOptions {
  readonly watch: FleetWatch;
  readonly views: () => Promise<readonly QueueView[]>;
  readonly version: string;
}

/** Runs and workers count in their heartbeats, so the figures are right after a restart of this process. */
export function addMetrics(app: FastifyInstance, { watch, views, version }: MetricsOptions): void {
  const own = new Registry();
  collectDefaultMetrics({ register: own });

  app.get('/metrics', async (_request, reply) => {
    const shown = new Registry();
    const { runs, workers, ready } = await watch.view();
    const told = runs
      .filter(isRecent)
      .slice(0, MOST_RUNS)
      .map((run) => ({ ...run, ...run.beat.summary }));
    const beats = workers.slice(0, MOST_WORKERS).map(({ beat }) => beat);
    const queues = beats.flatMap(({ id, queues }) =>
      queues.slice(0, MOST_QUEUES).map((queue) => ({ id, ...queue })),
    );
    const depths = ready ? await depthsOf(await views()) : [];
    add(shown, OF_RUNS, { job: ({ job }) => cut(job), run: ({ beat }) => beat.run }, told);
    shown.registerMetric(new LatencyHistogram(told));
    add(shown, OF_WORKERS, { worker: ({ id }) => id }, beats);
    add(shown, OF_QUEUES, { worker: ({ id }) => id, queue: ({ queue }) => cut(queue) }, queues);
    add(shown, OF_STORE, {}, [{ ready, version, depths }]);
    const text = `${await shown.metrics()}\n${await own.metrics()}`;
    return reply.type(Registry.PROMETHEUS_CONTENT_TYPE).send(text);
  });
}

const isRecent = ({ beat: { state, summary } }: WatchedRun): boolean =>
  state === 'running' || Date.now() - Date.parse(summary.finished_at) < RECENT_MS;

/** A value, or one per combination of the metric's own labels; null or undefined for none. */
type Value = number | null | undefined | readonly (readonly [labels: readonly string[], value: number])[];

/**
 * Name without `promptmill_` → help, value, names of its own labels. `_total` marks a counter, as in
 * Prometheus.
 */
type Metrics<Seen> = Readonly<
  Record<string, readonly [help: string, value: (seen: Seen) => Value, ...labels: string[]]>
>;

type ToldRun = WatchedRun & RunHeartbeat['summary'];

const OF_RUNS: Metrics<ToldRun> = {
  rows_total: ['Rows in the output, by how they ended', ({ rows }) => each(STATUSES, rows), 'outcome'],
  answers_invalid_total: [
    'Completed rows in the output whose answer is invalid',
    (summary) => summary.answers_invalid,
  ],
  answers_refused_total: [
    'Completed rows in the output that the model refused to answer',
    (summary) => summary.answers_refused,
  ],
  answers_total: [
    'Completed rows in the output with an answer, by where it comes from',
    (summary) => each(SOURCES, summary.answer_sources),
    'source',
  ],
  tokens_total: [
    'Tokens that the service billed',
    ({ usage }) => [
      [['prompt'], usage.prompt_tokens],
      [['completion'], usage.completion_tokens],
    ],
    'kind',
  ],
  run_calls_total: [
    'Calls of a run: sent; of these retried, refused with 429; rows perhaps paid for twice',
    ({ calls }) => each(CALLS, calls),
    'what',
  ],
  run_endpoint_calls_total: [
    'Calls of a run, by endpoint; only of a job with several',
    ({ endpoints = {} }) =>
      Object.entries(endpoints)
        .slice(0, MOST_STATUSES)
        .map(([name, { calls }]) => [[cut(name)], calls]),
    'endpoint',
  ],
  run_input_rows: ['Rows of the input', ({ input }) => input.rows],
  run_known_rows: ['Rows whose outcome is known, on disk or in the ledger', ({ beat }) => beat.known],
  run_cost: ['Cost so far, in the currency of the prices of the job', ({ cost }) => cost],
  run_scored_rows: ['Completed rows whose right answer is known', ({ scores }) => scores?.rows],
  run_accuracy: [
    'Share of the scored rows that have the right answer',
    ({ scores }) => scores?.accuracy?.value,
  ],
  run_brier: ['Brier score of the probabilities of the labels, from 0 to 2', ({ scores }) => scores?.brier],
  run_ece: ['Expected calibration error of the confidence', ({ scores }) => scores?.ece],
  run_duration_seconds: ['How long a run has taken', (summary) => summary.duration_s],
  run_waiting: ['Whether a run waits for something', ({ beat }) => Number(beat.waiting !== null)],
  run_post_age_seconds: ['Time since a run last said how it gets on', ({ ageMs }) => ageMs / 1000],
  run_state: [
    '1 for the state that a run is in, 0 for the others',
    ({ observed }) => STATES.map((state) => [[state], Number(state === observed)]),
    'state',
  ],
  run_info: [
    'Always 1; labels tell about a run',
    ({ deployment, beat }) => [[[deployment, beat.queue, beat.host].map(cut), 1]],
    ...['deployment', 'queue', 'host'],
  ],
};

/** Labelled by `worker`: a series ends with its worker and never falls. */
const OF_WORKERS: Metrics<WorkerHeartbeat> = {
  calls_total: [
    'Calls since a worker started, by HTTP status, or by error code where there was no answer',
    ({ calls }) =>
      Object.entries(calls)
        .slice(0, MOST_STATUSES)
        .map(([status, n]) => [[status.slice(0, STATUS_LENGTH)], n]),
    'status',
  ],
  worker_rows_total: ['Rows recorded since a worker started', ({ rows }) => rows],
  concurrency_most: ['Most calls at once of a worker', ({ concurrency }) => concurrency],
  worker_draining: ['Whether a worker takes no more rows', ({ draining }) => Number(draining)],
};

const OF_QUEUES: Metrics<WorkerHeartbeat['queues'][number] & Pick<WorkerHeartbeat, 'id'>> = {
  concurrency_limit: ['Calls at once that a worker may make now', ({ concurrency }) => concurrency],
  in_flight: ['Calls under way', (queue) => queue.in_flight],
  worker_waiting: ['Whether a worker waits for something', ({ waiting }) => Number(waiting !== null)],
};

const OF_STORE: Metrics<{ readonly ready: boolean; readonly version: string; readonly depths: Value }> = {
  queue_depth: [
    'Entries of a queue by their state; an entry holds up to chunk_size rows',
    ({ depths }) => depths,
    ...['queue', 'state'],
  ],
  store_up: ['Whether the store of the queue answers', ({ ready }) => Number(ready)],
  build_info: ['Always 1; the version is a label', ({ version }) => [[[version], 1]], 'version'],
};

const each = <N extends string>(names: readonly N[], values: Readonly<Record<N, number>>): Value =>
  names.map((name) => [[name], values[name]]);

const cut = (text: string): string => text.slice(0, LABEL_LENGTH);

/** @param common labels of all the metrics, before their own */
function add<Seen>(
  registry: Registry,
  metrics: Metrics<Seen>,
  common: Readonly<Record<string, (seen: Seen) => string>>,
  all: readonly Seen[],
): void {
  for (const [name, [help, tell, ...labels]] of Object.entries(metrics)) {
    const Kind = name.endsWith('_total') ? Counter : Gauge;
    const labelNames = [...Object.keys(common), ...labels];
    const metric = new Kind({ name: `promptmill_${name}`, help, labelNames, registers: [registry] });
    for (const seen of all) {
      const of = Object.values(common).map((label) => label(seen));
      const value = tell(seen) ?? [];
      const values = typeof value === 'number' ? [[[], value] as const] : value;
      for (const [own, n] of values) metric.labels(...of, ...own).inc(n);
    }
  }
}

async function depthsOf(views: readonly QueueView[]): Promise<Value> {
  const depths = await Promise.all(
    views.map(async (view) => {
      const counts = await within(PATIENCE_MS, view.depth()).catch(() => ({}));
      return Object.entries(counts).map(([state, n]) => [[view.name, state], n] as const);
    }),
  );
  return depths.flat();
}

const LATENCY = 'promptmill_run_latency_seconds';
const LATENCY_HELP = 'How long the last call of each row took';

/** In seconds: completions of a few tokens take a tenth of a second, long ones minutes. */
const BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600];

/** A real one has at most 3,000 characters. */
const LONGEST_HISTOGRAM = 20_000;

/**
 * Counted elsewhere: prom-client's histogram takes one observation at a time, and a run has millions. So this
 * one hands its own lines to the registry.
 */
class LatencyHistogram extends Histogram {
  constructor(private readonly runs: readonly ToldRun[]) {
    super({ name: LATENCY, help: LATENCY_HELP, registers: [] });
  }

  /** Called by the registry; missing from the types. */
  async getForPromString() {
    return {
      name: LATENCY,
      help: LATENCY_HELP,
      type: 'histogram',
      aggregator: 'sum',
      values: this.runs.flatMap(latencyLines),
    };
  }
}

/** A text that is no histogram, as in a forged heartbeat, yields no lines. */
function latencyLines({ beat: { latency, run }, job }: ToldRun) {
  if ((latency?.histogram.length ?? 0) > LONGEST_HISTOGRAM) return [];
  const line = (part: string, value: number, more: { readonly le?: number | '+Inf' } = {}) => ({
    metricName: `${LATENCY}_${part}`,
    labels: { job: cut(job), run, ...more },
    value,
  });
  const boundsMs = BOUNDS.map((bound) => bound * 1000);
  try {
    const { within: counts, calls, sumMs } = latencyBuckets(latency, boundsMs);
    return [
      ...BOUNDS.map((le, i) => line('bucket', counts[i] ?? 0, { le })),
      line('bucket', calls, { le: '+Inf' }),
      line('sum', sumMs / 1000),
      line('count', calls),
    ];
  } catch {
    return [];
  }
}
