import { observedState, type RunHeartbeat, type SeenRun, type SeenWorker } from './heartbeat.js';

/** A queue with rows for a worker of this address. */
export interface QueueDemand {
  readonly queue: string;
  readonly deployment: string;
  readonly limits: RunHeartbeat['limits'];
  /** Whether the service has answered one of the runs before. */
  readonly answered: boolean;
}

interface Demand {
  readonly wanted: readonly QueueDemand[];
  /** Queues of runs at other addresses, one per run. */
  readonly elsewhere: readonly string[];
}

export interface ServedQueues {
  /** Queue of a deployment at the worker's own address. */
  readonly queueOf: (deployment: string) => string;
  /** Deployments whose rows it takes; null is all. */
  readonly deployments: ReadonlySet<string> | null;
}

/**
 * A beat is only a hint: the queue name is computed from the worker's own address, so the worst a forged one
 * can do is make it listen to an empty queue.
 */
export function demandOf(runs: readonly SeenRun[], served: ServedQueues): Demand {
  const wanted = new Map<string, QueueDemand>();
  const elsewhere: string[] = [];
  const newestFirst = runs
    .filter((seen) => observedState(seen) === 'running' && !seen.beat.emulated)
    .sort((a, b) => compare(b.beat.summary.started_at, a.beat.summary.started_at));
  for (const { beat } of newestFirst) {
    const { deployment, rows } = beat.summary;
    if (beat.queue !== served.queueOf(deployment)) {
      elsewhere.push(beat.queue);
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

export function unserved(queues: readonly string[], workers: readonly SeenWorker[]): readonly string[] {
  const served = new Set(workers.flatMap(({ beat }) => beat.queues.map(({ queue }) => queue)));
  return queues.filter((queue) => !served.has(queue));
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
