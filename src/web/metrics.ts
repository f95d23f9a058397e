import type { FastifyInstance } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { latencyBuckets } from '../account/latency.js';
import { SOURCES } from '../account/summary.js';
import { within } from '../deadline.js';
import type { RunBeat, WorkerBeat } from '../fleet/beats.js';
import { STATUSES } from '../model.js';
import type { QueueView } from '../queue/queue-views.js';
import { CALLS } from '../store/counters.js';
import type { FleetWatch, WatchedRun } from './watch.js';

/** Runs that ended longer ago are left out, so that what Prometheus keeps of an old run ends with it: a day. */
const RECENT_MS = 24 * 3_600_000;
/** The newest runs at most: each has about 50 series. */
const MOST_RUNS = 50;
const MOST_WORKERS = 500;
/** Statuses and codes are few; a worker that names more than these is not believed. */
const MOST_STATUSES = 50;
const MOST_QUEUES = 20;
/** A label out of a heartbeat is cut to this many characters; that of a status to fewer. */
const LABEL_LENGTH = 200;
const STATUS_LENGTH = 50;
/** A scrape does not wait longer for the counts of a queue, in milliseconds; they are then left out. */
const PATIENCE_MS = 2_000;

const STATES = ['running', 'lost', 'finished', 'stopped', 'interrupted'] as const;

interface MetricsOptions {
  readonly watch: FleetWatch;
  /** The queues that can be asked. */
  readonly views: () => Promise<readonly QueueView[]>;
  readonly version: string;
}

/**
 * `/metrics`. The figures are those of the heartbeats: runs and workers count, and this process only tells. So they are
 * right after a restart of it, and what it shows is made anew for each scrape.
 */
export function addMetrics(app: FastifyInstance, { watch, views, version }: MetricsOptions): void {
  // The CPU and memory of this process.
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

/** A value, or one for each combination of the metric's own labels; none where there is nothing to tell. */
type Value = number | null | undefined | readonly (readonly [labels: readonly string[], value: number])[];

/**
 * Metrics of what is seen: name without `promptmill_` → help, value, names of its own labels. One that ends in `_total` is a
 * counter, as Prometheus has it.
 */
type Metrics<Seen> = Readonly<
  Record<string, readonly [help: string, value: (seen: Seen) => Value, ...labels: string[]]>
>;

type ToldRun = WatchedRun & RunBeat['summary'];

const OF_RUNS: Metrics<ToldRun> = {
  rows_total: ['Rows in the output, by how they ended', ({ rows }) => each(STATUSES, rows), 'outcome'],
  answers_invalid_total: [
    'Completed rows in the output whose answer is invalid',
    (summary) => summary.answers_invalid,
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
    ({ standing }) => STATES.map((state) => [[state], Number(state === standing)]),
    'state',
  ],
  run_info: [
    'Always 1; labels tell about a run',
    ({ deployment, beat }) => [[[deployment, beat.queue, beat.host].map(cut), 1]],
    ...['deployment', 'queue', 'host'],
  ],
};

/** With the label `worker`: a series ends with its worker and never falls. */
const OF_WORKERS: Metrics<WorkerBeat> = {
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

/** Of the queues of a worker. */
const OF_QUEUES: Metrics<WorkerBeat['queues'][number] & Pick<WorkerBeat, 'id'>> = {
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

/** @param common labels that all of the metrics have, before their own ones */
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

/** Entries of each queue by their state. */
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

/** Completions of a few tokens take a tenth of a second, long ones minutes. In seconds. */
const BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600];

/** A real text has at most 3,000 characters. */
const LONGEST_HISTOGRAM = 20_000;

/**
 * A histogram that was counted elsewhere. That of prom-client only takes one observation after the other, and a run
 * has millions; so this one answers the registry with lines of its own.
 */
class LatencyHistogram extends Histogram {
  constructor(private readonly runs: readonly ToldRun[]) {
    super({ name: LATENCY, help: LATENCY_HELP, registers: [] });
  }

  /** What the registry asks a histogram for; the types leave it out. */
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

/** The lines of one run. A text that is no histogram, which only a forged heartbeat has, makes none. */
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
