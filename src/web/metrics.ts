import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { QueueView } from '../queue/queue-views.js';
import { addQueueMetrics } from './queue-metrics.js';
import { addRunMetrics } from './run-metrics.js';
import type { FleetWatch } from './watch.js';
import { addWorkerMetrics } from './worker-metrics.js';

/** Runs that ended longer ago are left out, so that what Prometheus keeps of an old run ends with it: a day. */
const RECENT_MS = 24 * 3_600_000;
/** The newest runs at most: each has about 50 series. */
const MOST_RUNS = 50;
const MOST_WORKERS = 500;

export interface MetricsOptions {
  readonly watch: FleetWatch;
  /** The queues that can be asked. */
  readonly views: () => Promise<readonly QueueView[]>;
  readonly version: string;
}

/**
 * `/metrics`. The figures are those of the board: runs and workers count, and this process only tells. So they are
 * right after a restart of it, and what it shows is made anew for each scrape.
 */
export function addMetrics(app: FastifyInstance, { watch, views, version }: MetricsOptions): void {
  // The CPU and memory of this process.
  const own = new Registry();
  collectDefaultMetrics({ register: own });

  app.get('/metrics', async (_request, reply) => {
    const board = new Registry();
    const { runs, workers, ready } = await watch.view();
    const now = Date.now();
    const recent = runs.filter(
      ({ beat }) => beat.state === 'running' || now - Date.parse(beat.summary.finished_at) < RECENT_MS,
    );
    addRunMetrics(board, recent.slice(0, MOST_RUNS));
    addWorkerMetrics(board, workers.slice(0, MOST_WORKERS));
    if (ready) await addQueueMetrics(board, await views());
    gauge(board, 'promptmill_store_up', 'Whether the store of the queue answers').set(ready ? 1 : 0);
    gauge(board, 'promptmill_build_info', 'Always 1; the version is a label', ['version']).set(
      { version },
      1,
    );
    const text = `${await board.metrics()}\n${await own.metrics()}`;
    return reply.type(Registry.PROMETHEUS_CONTENT_TYPE).send(text);
  });
}

const gauge = <Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: Label[] = [],
): Gauge<Label> => new Gauge({ name, help, labelNames, registers: [registry] });
