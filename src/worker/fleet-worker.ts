import pLimit, { type LimitFunction } from 'p-limit';
import type { Logger } from 'pino';
import { within } from '../core/clock.js';
import type { Problem } from '../core/model.js';
import { demandOf, type QueueDemand, type ServedQueues, unserved } from '../ops/demand.js';
import { observedState, RUN_LOST_MS, readRuns, readWorkers } from '../ops/heartbeat.js';
import { WorkerHeartbeatSender } from '../ops/heartbeat-sender.js';
import { queueOfSet, queuesOf, serviceQueue } from '../queue/names.js';
import type { ServedEndpoint, ServiceAccess } from '../service/endpoint.js';
import type { Several } from '../service/endpoint-spec.js';
import type { Store } from '../store/store.js';
import { Batcher } from './batcher.js';
import type { CallEnded } from './caller.js';
import type { Served } from './lane.js';
import { ChunkWorker, type WorkerContext } from './worker.js';

/** Time between two reads of the run heartbeats, in ms; jittered, so that a fleet spreads its reads. */
const LOOK_MS = { idle: 500, busy: 1_000 } as const;
/** Time between two reads of the worker heartbeats, in ms: a large fleet has many. */
const OTHERS_MS = 30_000;
/** A store that does not answer for this long is asked again later, in ms. */
const LOOK_TIMEOUT_MS = 10_000;
/** A queue without a run is left after this time, in ms. */
const IDLE_MS = 60_000;

/** What a worker calls for a queue. Comes from its own side: no beat or entry decides where a key goes. */
export interface FleetService extends ServedQueues {
  readonly servedFor: (want: QueueDemand) => Pick<Served, 'endpoints' | 'set' | 'route'>;
}

/** Serves all jobs with one endpoint at this address. @param deployments null means all */
export function serviceAt(
  access: ServiceAccess,
  deployments: FleetService['deployments'] = null,
): FleetService {
  const servedFor: FleetService['servedFor'] = ({ deployment, limits }) => {
    const quota = {
      requestsPerMinute: limits.requests_per_minute,
      tokensPerMinute: limits.tokens_per_minute,
    };
    return { endpoints: [{ ...access, name: deployment, deployment, quota }], route: 'balance' };
  };
  const has: FleetService['has'] = (queue, deployment) => queue === serviceQueue(deployment, access.address);
  return { has, deployments, servedFor };
}

/** The endpoints of a job. */
export interface ServedJob {
  readonly set: Several<Parameters<typeof queueOfSet>[0][number]>;
  /** Those whose keys the worker has. */
  readonly endpoints: Several<ServedEndpoint>;
  readonly route: Served['route'];
}

/** Serves these jobs, and all others with the same endpoints. */
export function serviceOf(jobs: readonly ServedJob[]): FleetService {
  const byQueue = new Map(jobs.map((job) => [queueOfSet(job.set, false), job]));
  return {
    has: (queue) => byQueue.has(queue),
    deployments: null,
    servedFor: ({ queue }) => {
      const job = byQueue.get(queue);
      if (job === undefined) throw new Error(`not served: ${queue}`);
      return job;
    },
  };
}

interface FleetWorkerOptions {
  readonly store: Store;
  readonly service: FleetService;
  readonly concurrency: number;
  /** Most calls at once before the first are answered. */
  readonly untilAnswered: number;
  readonly log: Logger;
  readonly say: (line: string) => void;
  /** Called with the reason when this process cannot call any more. */
  readonly onStop: (problem: Problem) => void;
  /** For tests only. */
  readonly times?: WorkerContext['times'];
  /** In milliseconds. @default 60000 */
  readonly idleMs?: number;
}

interface Hand {
  readonly want: QueueDemand;
  readonly worker: ChunkWorker;
  wantedAt: number;
}

/** Works for every live run with this worker's endpoints: a chunk worker for each queue, one limit for all. */
export class FleetWorker {
  readonly #hands = new Map<string, Hand>();
  /** Workers finishing their last calls. */
  readonly #leaving = new Set<Promise<void>>();
  readonly #slots: LimitFunction;
  readonly #batcher: Batcher;
  readonly #heartbeat: WorkerHeartbeatSender;
  #timer: NodeJS.Timeout | null = null;
  #closing: Promise<void> | null = null;
  #told = '';
  #othersAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: FleetWorkerOptions) {
    const { store, log, concurrency } = options;
    this.#slots = pLimit(concurrency);
    this.#batcher = new Batcher(store.ledger, log);
    this.#heartbeat = new WorkerHeartbeatSender({
      keyValue: store.keyValue,
      log,
      run: null,
      concurrency,
      view: () => ({
        queues: [...this.#hands.values()].map(({ worker }) => worker.heartbeat),
        draining: this.#closing !== null,
        rows: this.#batcher.outcomes,
      }),
    });
  }

  get inFlight(): number {
    return this.#slots.activeCount;
  }

  begin(): void {
    this.#heartbeat.begin();
    void this.#look();
  }

  /**
   * Finishes and records the calls in flight, and returns the rest. Bounded like {@link ChunkWorker.close}.
   */
  close(): Promise<void> {
    this.#closing ??= this.#leave();
    return this.#closing;
  }

  async #leave(): Promise<void> {
    clearTimeout(this.#timer ?? undefined);
    // Keep beating as `draining` until the last call has ended.
    for (const { worker } of this.#hands.values()) this.#dismiss(worker);
    await Promise.all(this.#leaving);
    await this.#heartbeat.end();
  }

  async #look(): Promise<void> {
    const { store, log, service } = this.options;
    try {
      const runs = await within(LOOK_TIMEOUT_MS, store.keyValue.list('run', RUN_LOST_MS));
      const seen = readRuns(runs);
      const { wanted, elsewhere } = demandOf(seen, service);
      if (this.#closing === null) this.#meet(wanted, performance.now());
      const online = seen.filter((each) => each.beat.online && observedState(each) === 'running');
      for (const [queue, { worker }] of this.#hands) {
        const own = online.filter(({ beat }) => beat.queue === queue);
        worker.setOnline(new Set(own.map(({ beat }) => beat.run)));
      }
      await this.#tellOf(elsewhere, performance.now());
    } catch (error) {
      // Current work goes on.
      log.debug({ err: error }, 'cannot read the heartbeats of runs; not looking for new work');
    }
    if (this.#closing !== null) return;
    const ms = this.#hands.size === 0 ? LOOK_MS.idle : LOOK_MS.busy;
    this.#timer = setTimeout(() => void this.#look(), ms * (1 + Math.random()));
  }

  /** A run that nobody works for usually has a wrong address, here or there. */
  async #tellOf(others: Parameters<typeof unserved>[0], now: number): Promise<void> {
    if (others.length === 0 || now - this.#othersAt < OTHERS_MS) return;
    this.#othersAt = now;
    const beats = await within(LOOK_TIMEOUT_MS, this.options.store.keyValue.list('worker'));
    const waiting = unserved(others, readWorkers(beats));
    const several = waiting.filter((each) => each.several).length;
    const lines = [
      waitingFor(waiting.length - several, 'another address'),
      waitingFor(several, 'several endpoints: start `promptmill work --job` with the job file'),
    ].flat();
    if (lines.join() !== this.#told) for (const line of lines) this.options.say(line);
    this.#told = lines.join();
  }

  #meet(wanted: readonly QueueDemand[], now: number): void {
    for (const want of wanted) {
      const hand = this.#hands.get(want.queue);
      if (hand !== undefined && sameLimits(hand.want, want)) {
        hand.wantedAt = now;
        continue;
      }
      // The leaving worker and its successor share the limit of calls.
      if (hand !== undefined) {
        const { deployment, limits } = want;
        this.options.log.info({ deployment, limits }, 'using the limits of a later run');
        this.#dismiss(hand.worker);
      } else {
        this.options.say(`taking rows of ${want.deployment}`);
      }
      this.#hands.set(want.queue, { want, worker: this.#hire(want), wantedAt: now });
    }
    for (const [queue, { want, worker, wantedAt }] of this.#hands) {
      if (now - wantedAt < (this.options.idleMs ?? IDLE_MS)) continue;
      this.#hands.delete(queue);
      this.#dismiss(worker);
      this.options.say(`no run needs ${want.deployment} any more`);
    }
  }

  #hire(want: QueueDemand): ChunkWorker {
    const { service, store, concurrency, untilAnswered, log, onStop, times } = this.options;
    const onCall = ({ type, ...call }: CallEnded): void => {
      this.#heartbeat.called(call.status);
      log.debug(call, type);
    };
    const name = this.#heartbeat.id;
    const queueOf = queuesOf(false);
    const context = { name, queueOf, store, concurrency, untilAnswered, log, onStop, onCall, times };
    const shared = { slots: this.#slots, batcher: this.#batcher };
    return new ChunkWorker({ ...context, ...shared }, { ...want, ...service.servedFor(want) });
  }

  #dismiss(worker: ChunkWorker): void {
    const left = worker.close().finally(() => {
      this.#leaving.delete(left);
    });
    this.#leaving.add(left);
  }
}

const waitingFor = (runs: number, what: string): string[] =>
  runs === 0 ? [] : [`${runs === 1 ? '1 run waits' : `${runs} runs wait`} for workers of ${what}`];

const sameLimits = (a: QueueDemand, b: QueueDemand): boolean =>
  JSON.stringify(a.limits) === JSON.stringify(b.limits);
