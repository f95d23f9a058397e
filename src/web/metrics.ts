import { setTimeout as after } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { SeenWorker } from '../fleet/beats.js';
import type { QueueView } from '../queue/queue-views.js';
import { type Latency, latencyBuckets } from '../report/latency.js';
import { SOURCES } from '../report/summary.js';
import { STATUSES } from '../model.js';
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
    const now = Date.now();
    const recent = runs.filter(
      ({ beat }) => beat.state === 'running' || now - Date.parse(beat.summary.finished_at) < RECENT_MS,
    );
    addRuns(shown, recent.slice(0, MOST_RUNS));
    addWorkers(shown, workers.slice(0, MOST_WORKERS));
    if (ready) await addQueues(shown, await views());
    gauge(shown, 'promptmill_store_up', 'Whether the store of the queue answers').set(ready ? 1 : 0);
    gauge(shown, 'promptmill_build_info', 'Always 1; the version is a label', ['version']).set(
      { version },
      1,
    );
    const text = `${await shown.metrics()}\n${await own.metrics()}`;
    return reply.type(Registry.PROMETHEUS_CONTENT_TYPE).send(text);
  });
}

const gauge = <L extends string>(registry: Registry, name: string, help: string, labelNames: L[] = []) =>
  new Gauge({ name, help, labelNames, registers: [registry] });

const counter = <L extends string>(registry: Registry, name: string, help: string, labelNames: L[]) =>
  new Counter({ name, help, labelNames, registers: [registry] });

/** What runs say of themselves, as metrics with the labels `job` and `run`. */
function addRuns(registry: Registry, runs: readonly WatchedRun[]): void {
  const counts = <L extends string>(name: string, help: string, label: L) =>
    counter(registry, name, help, ['job', 'run', label]);
  const measures = <L extends string>(name: string, help: string, labels: L[] = []) =>
    gauge(registry, name, help, ['job', 'run', ...labels]);

  const rows = counts('promptmill_rows_total', 'Rows in the output, by how they ended', 'outcome');
  const invalid = counter(
    registry,
    'promptmill_answers_invalid_total',
    'Completed rows in the output whose answer is invalid',
    ['job', 'run'],
  );
  const answers = counts(
    'promptmill_answers_total',
    'Completed rows in the output with an answer, by where it comes from',
    'source',
  );
  const tokens = counts('promptmill_tokens_total', 'Tokens that the service billed', 'kind');
  const calls = counts(
    'promptmill_run_calls_total',
    'Calls of a run: sent; of these retried, refused with 429; rows perhaps paid for twice',
    'what',
  );
  const latency = new LatencyHistogram(registry);
  const input = measures('promptmill_run_input_rows', 'Rows of the input');
  const known = measures(
    'promptmill_run_known_rows',
    'Rows whose outcome is known, on disk or in the ledger',
  );
  const cost = measures('promptmill_run_cost', 'Cost so far, in the currency of the prices of the job');
  const scored = measures('promptmill_run_scored_rows', 'Completed rows whose right answer is known');
  const accuracy = measures('promptmill_run_accuracy', 'Share of the scored rows that have the right answer');
  const brier = measures(
    'promptmill_run_brier',
    'Brier score of the probabilities of the labels, from 0 to 2',
  );
  const ece = measures('promptmill_run_ece', 'Expected calibration error of the confidence');
  const duration = measures('promptmill_run_duration_seconds', 'How long a run has taken');
  const waiting = measures('promptmill_run_waiting', 'Whether a run waits for something');
  const age = measures('promptmill_run_post_age_seconds', 'Time since a run last said how it gets on');
  const state = measures('promptmill_run_state', '1 for the state that a run is in, 0 for the others', [
    'state',
  ]);
  const info = measures('promptmill_run_info', 'Always 1; labels tell about a run', [
    'deployment',
    'queue',
    'host',
  ]);

  for (const { beat, standing, ageMs } of runs) {
    const { summary } = beat;
    const labels = { job: cut(summary.job), run: beat.run };
    for (const outcome of STATUSES) rows.inc({ ...labels, outcome }, summary.rows[outcome]);
    invalid.inc(labels, summary.answers_invalid);
    for (const source of SOURCES) answers.inc({ ...labels, source }, summary.answer_sources[source]);
    tokens.inc({ ...labels, kind: 'prompt' }, summary.usage.prompt_tokens);
    tokens.inc({ ...labels, kind: 'completion' }, summary.usage.completion_tokens);
    for (const what of CALLS) calls.inc({ ...labels, what }, summary.calls[what]);
    latency.add(labels, beat.latency);
    input.set(labels, summary.input.rows);
    known.set(labels, beat.known);
    if (summary.cost !== null) cost.set(labels, summary.cost);
    if (summary.scores !== undefined) scored.set(labels, summary.scores.rows);
    if (summary.scores?.accuracy) accuracy.set(labels, summary.scores.accuracy.value);
    if (typeof summary.scores?.brier === 'number') brier.set(labels, summary.scores.brier);
    if (typeof summary.scores?.ece === 'number') ece.set(labels, summary.scores.ece);
    duration.set(labels, summary.duration_s);
    waiting.set(labels, beat.waiting === null ? 0 : 1);
    age.set(labels, ageMs / 1000);
    for (const one of STATES) state.set({ ...labels, state: one }, one === standing ? 1 : 0);
    info.set(
      { ...labels, deployment: cut(summary.deployment), queue: cut(beat.queue), host: cut(beat.host) },
      1,
    );
  }
}

const cut = (text: string): string => text.slice(0, LABEL_LENGTH);

/** What workers say of themselves, as metrics with the label `worker`: a series ends with its worker and never falls. */
function addWorkers(registry: Registry, workers: readonly SeenWorker[]): void {
  const measures = <L extends string>(name: string, help: string, labels: L[] = []) =>
    gauge(registry, name, help, ['worker', ...labels]);

  const calls = counter(
    registry,
    'promptmill_calls_total',
    'Calls since a worker started, by HTTP status, or by error code where there was no answer',
    ['worker', 'status'],
  );
  const rows = counter(registry, 'promptmill_worker_rows_total', 'Rows recorded since a worker started', [
    'worker',
  ]);
  const most = measures('promptmill_concurrency_most', 'Most calls at once of a worker');
  const limit = measures('promptmill_concurrency_limit', 'Calls at once that a worker may make now', [
    'queue',
  ]);
  const inFlight = measures('promptmill_in_flight', 'Calls under way', ['queue']);
  const waiting = measures('promptmill_worker_waiting', 'Whether a worker waits for something', ['queue']);
  const draining = measures('promptmill_worker_draining', 'Whether a worker takes no more rows');

  for (const { beat } of workers) {
    const worker = beat.id;
    for (const [status, n] of Object.entries(beat.calls).slice(0, MOST_STATUSES)) {
      calls.inc({ worker, status: status.slice(0, STATUS_LENGTH) }, n);
    }
    rows.inc({ worker }, beat.rows);
    most.set({ worker }, beat.concurrency);
    draining.set({ worker }, beat.draining ? 1 : 0);
    for (const one of beat.queues.slice(0, MOST_QUEUES)) {
      const labels = { worker, queue: cut(one.queue) };
      limit.set(labels, one.concurrency);
      inFlight.set(labels, one.in_flight);
      waiting.set(labels, one.waiting === null ? 0 : 1);
    }
  }
}

/** Entries of the queues by their state. */
async function addQueues(registry: Registry, views: readonly QueueView[]): Promise<void> {
  const depth = gauge(
    registry,
    'promptmill_queue_depth',
    'Entries of a queue by their state; an entry holds up to chunk_size rows',
    ['queue', 'state'],
  );
  const patience = new AbortController();
  const tired = after(PATIENCE_MS, null, { signal: patience.signal }).catch(() => null);
  await Promise.all(
    views.map(async (view) => {
      const counts = await Promise.race([view.depth().catch(() => null), tired]);
      for (const [state, n] of Object.entries(counts ?? {})) depth.set({ queue: view.name, state }, n);
    }),
  );
  patience.abort();
}

const LATENCY = 'promptmill_run_latency_seconds';
const LATENCY_HELP = 'How long the last call of each row took';

/** Completions of a few tokens take a tenth of a second, long ones minutes. In seconds. */
const BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600];

/** A real text has at most 3,000 characters. */
const LONGEST_HISTOGRAM = 20_000;

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
class LatencyHistogram extends Histogram {
  readonly #lines: Line[] = [];

  constructor(registry: Registry) {
    super({ name: LATENCY, help: LATENCY_HELP, labelNames: ['job', 'run'], registers: [registry] });
  }

  /** A text that is no histogram, which only a forged heartbeat has, leaves that run out. */
  add(labels: { readonly job: string; readonly run: string }, latency: Latency): void {
    if ((latency?.histogram.length ?? 0) > LONGEST_HISTOGRAM) return;
    try {
      const { within, calls, sumMs } = latencyBuckets(
        latency,
        BOUNDS.map((bound) => bound * 1000),
      );
      const bucket = (le: number | '+Inf', value: number): Line => ({
        metricName: `${LATENCY}_bucket`,
        labels: { ...labels, le },
        value,
      });
      this.#lines.push(
        ...BOUNDS.map((bound, i) => bucket(bound, within[i] ?? 0)),
        bucket('+Inf', calls),
        { metricName: `${LATENCY}_sum`, labels, value: sumMs / 1000 },
        { metricName: `${LATENCY}_count`, labels, value: calls },
      );
    } catch {}
  }

  /** What the registry asks a histogram for; the types leave it out. */
  async getForPromString() {
    return { name: LATENCY, help: LATENCY_HELP, type: 'histogram', aggregator: 'sum', values: this.#lines };
  }
}
