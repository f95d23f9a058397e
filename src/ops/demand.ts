import { observedState, type RunHeartbeat, type SeenRun, type SeenWorker } from './heartbeat.js';

/** A queue with rows for this worker. */
export interface QueueDemand {
  readonly queue: string;
  readonly deployment: string;
  readonly limits: RunHeartbeat['limits'];
  /** Whether the service has answered one of the runs before. */
  readonly answered: boolean;
}

interface Demand {
  readonly wanted: readonly QueueDemand[];
  /** Queues of runs at other endpoints, one per run. */
  readonly elsewhere: readonly Elsewhere[];
}

interface Elsewhere {
  readonly queue: string;
  /** Whether the run has several endpoints. */
  readonly several: boolean;
}

export interface ServedQueues {
  /** Whether a queue is one of the worker's own endpoints. */
  readonly has: (queue: string, deployment: string) => boolean;
  /** Deployments whose rows it takes; null is all. */
  readonly deployments: ReadonlySet<string> | null;
}

/**
 * A beat is only a hint: the queue name is computed from the worker's own endpoints, so the worst a forged one
 * can do is make it listen to an empty queue.
 */
export function demandOf(runs: readonly SeenRun[], served: ServedQueues): Demand {
  const wanted = new Map<string, QueueDemand>();
  const elsewhere: Elsewhere[] = [];
  const newestFirst = runs
    .filter((seen) => observedState(seen) === 'running' && !seen.beat.emulated)
    .sort((a, b) => compare(b.beat.summary.started_at, a.beat.summary.started_at));
  for (const { beat } of newestFirst) {
    const { deployment, rows, endpoints } = beat.summary;
    if (!served.has(beat.queue, deployment)) {
      elsewhere.push({ queue: beat.queue, several: endpoints !== undefined });
      continue;
    }
    if (served.deployments?.has(deployment) === false) continue;
    const before = wanted.get(beat.queue);
    const answered = rows.completed + rows.filtered > 0 || before?.answered === true;
    wanted.set(beat.queue, {
      queue: beat.queue,
      deployment,
      limits: before?.limits ?? beat.limits,
      answered,
    });
  }
  return { wanted: [...wanted.values()], elsewhere };
}

export function unserved(
  elsewhere: readonly Elsewhere[],
  workers: readonly SeenWorker[],
): readonly Elsewhere[] {
  const served = new Set(workers.flatMap(({ beat }) => beat.queues.map(({ queue }) => queue)));
  return elsewhere.filter(({ queue }) => !served.has(queue));
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
