import { Counter, Gauge, type Registry } from 'prom-client';
import type { SeenWorker } from '../fleet/beats.js';
import { atLeast0 } from './run-metrics.js';

/** Statuses and codes are few; a worker that names more than these is not believed. */
const MOST_STATUSES = 50;
const MOST_QUEUES = 20;

/** What workers say of themselves, as metrics with the label `worker`: a series ends with its worker and never falls. */
export function addWorkerMetrics(registry: Registry, workers: readonly SeenWorker[]): void {
  const registers = [registry];
  const gauge = <L extends string>(name: string, help: string, labels: readonly L[] = []) =>
    new Gauge({ name, help, labelNames: ['worker', ...labels], registers });

  const calls = new Counter({
    name: 'promptmill_calls_total',
    help: 'Calls since a worker started, by HTTP status, or by error code where there was no answer',
    labelNames: ['worker', 'status'],
    registers,
  });
  const rows = new Counter({
    name: 'promptmill_worker_rows_total',
    help: 'Rows recorded since a worker started',
    labelNames: ['worker'],
    registers,
  });
  const most = gauge('promptmill_concurrency_most', 'Most calls at once of a worker');
  const limit = gauge('promptmill_concurrency_limit', 'Calls at once that a worker may make now', ['queue']);
  const inFlight = gauge('promptmill_in_flight', 'Calls under way', ['queue']);
  const waiting = gauge('promptmill_worker_waiting', 'Whether a worker waits for something', ['queue']);
  const draining = gauge('promptmill_worker_draining', 'Whether a worker takes no more rows');

  for (const { beat } of workers) {
    const worker = beat.id;
    for (const [status, n] of Object.entries(beat.calls).slice(0, MOST_STATUSES)) {
      calls.inc({ worker, status: status.slice(0, 50) }, atLeast0(n));
    }
    rows.inc({ worker }, atLeast0(beat.rows));
    most.set({ worker }, beat.concurrency);
    draining.set({ worker }, beat.draining ? 1 : 0);
    for (const one of beat.queues.slice(0, MOST_QUEUES)) {
      const labels = { worker, queue: one.queue.slice(0, 200) };
      limit.set(labels, one.concurrency);
      inFlight.set(labels, one.in_flight);
      waiting.set(labels, one.waiting === null ? 0 : 1);
    }
  }
}
