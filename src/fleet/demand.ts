import { type RunBeat, type SeenRun, type SeenWorker, standingOf } from './beats.js';

/** A queue in which runs have rows for a worker of this address. */
export interface WantedQueue {
  readonly queue: string;
  readonly deployment: string;
  /** As the newest of the runs says them. */
  readonly limits: RunBeat['limits'];
  /** Whether the service has answered one of the runs before. */
  readonly answered: boolean;
}

interface Demand {
  readonly wanted: readonly WantedQueue[];
  /** The queues of runs of other addresses, one for each run. */
  readonly elsewhere: readonly string[];
}

/** Who a worker works for. */
export interface Place {
  /** Name of the queue of a deployment behind the worker's own address. */
  readonly queueOf: (deployment: string) => string;
  /** Deployments whose rows it takes; null is all. */
  readonly deployments: ReadonlySet<string> | null;
}

/**
 * What the runs that go on want of a worker. A beat is only a hint: the name of a queue is computed from the worker's own
 * address, so a forged one can make it listen where nothing is, and no more.
 */
export function demandOf(runs: readonly SeenRun[], place: Place): Demand {
  const wanted = new Map<string, WantedQueue>();
  const elsewhere: string[] = [];
  const newestFirst = runs
    .filter((seen) => standingOf(seen) === 'running' && !seen.beat.emulated)
    .sort((a, b) => compare(b.beat.summary.started_at, a.beat.summary.started_at));
  for (const { beat } of newestFirst) {
    const { deployment, rows } = beat.summary;
    if (beat.queue !== place.queueOf(deployment)) {
      elsewhere.push(beat.queue);
      continue;
    }
    if (place.deployments?.has(deployment) === false) continue;
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

/** Of queues those that no worker takes rows of. */
export function unserved(queues: readonly string[], workers: readonly SeenWorker[]): readonly string[] {
  const served = new Set(workers.flatMap(({ beat }) => beat.queues.map(({ queue }) => queue)));
  return queues.filter((queue) => !served.has(queue));
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
