import {
  DelayedError,
  type Job,
  Queue,
  RateLimitError,
  UnrecoverableError,
  WaitingError,
  Worker,
} from 'bullmq';
import type { Logger } from 'pino';
import { backoffMs } from '../core/backoff.js';
import { steadyNow, watchClock, within } from '../core/clock.js';
import type { Problem } from '../core/model.js';
import type { WorkerHeartbeat } from '../ops/heartbeat.js';
import { WORKER_SAFE_MS } from '../ops/lost-workers.js';
import { clock, type OutageView, serviceWait } from '../pace/pauses.js';
import type { Quota } from '../pace/shared-pace.js';
import { type Chunk, type ChunkAt, type ChunkData, decodeChunk, executionOf } from '../queue/chunk.js';
import { ENTRY_LIMIT, KEEP_FAILED, MOST_LOSSES, REFUSED } from '../queue/chunk-queue.js';
import { deploymentsOf, type EndpointSpec } from '../service/endpoint-spec.js';
import { AnswerCheck } from './answer-check.js';
import type { Batcher, Totals } from './batcher.js';
import { MostBilled } from './billing.js';
import { BudgetWait } from './budget-wait.js';
import type { CallContext, Served } from './lane.js';
import { Lanes } from './route.js';
import { type Host, type Lease, Visit } from './visit.js';

/**
 * Lifetime of an unrenewed lock, in ms: outlasts a busy process or a short outage of the store. The entries
 * of a killed worker are requeued sooner (`ops/lost-workers.ts`).
 */
const LOCK_MS = 60_000;
/** Longest time between two renewals, in ms: how late a lease notices that another worker has its entry. */
const RENEW_MS = 5_000;
/** Time between two checks for lost locks, in ms; the second check hands the entry out again. */
const STALLED_CHECK_MS = 15_000;
/** Time for calls in flight to end when the worker closes, in ms. */
const GRACE_MS = 30_000;
/** Time to leave the store, in ms. */
const LEAVE_MS = 5_000;

/** Faults of a run's own parameters, deployment or patience: other runs need not have them. */
const OF_THE_RUN = new Set([
  'operation_not_supported',
  'api_version_not_supported',
  'deployment_not_found',
  'not_supported',
  'no_text',
  'rate_limited',
]);

export interface WorkerContext extends CallContext {
  /** Name of this process's heartbeat; the entries it takes carry it. */
  readonly name: string;
  /** The run that this process works on. @default none: it calls for the runs of others */
  readonly ownRun?: string;
  /** Called before the store is asked to tell others. */
  readonly onStop: (problem: Problem) => void;
  /** For tests only, in milliseconds. */
  readonly times?: { readonly lockMs: number; readonly stalledCheckMs: number } | undefined;
}

interface LeasedEntry extends Lease {
  readonly job: Job<ChunkData>;
  readonly token: string;
  /** True when the entry is back in the queue or with another worker. */
  isLost: boolean;
}

/** Takes chunks of one queue and calls their endpoints for their rows, under one limit for the process. */
export class ChunkWorker implements Host {
  readonly lanes: Lanes;
  readonly batcher: Batcher;
  readonly budgets: BudgetWait;
  readonly mostBilled = new MostBilled();
  readonly log: Logger;
  readonly #worker: Worker<ChunkData>;
  readonly #queue: Queue<ChunkData>;
  readonly #baseSlots: number;
  readonly #lockMs: number;
  readonly #clock: NodeJS.Timeout;
  readonly #renewal: NodeJS.Timeout;
  #renewing: Promise<void> | null = null;
  /** When the last renewal that the store answered began. */
  #renewedAt = steadyNow();
  readonly #leases = new Map<string, { readonly held: LeasedEntry; readonly over: Promise<void> }>();
  /** Executions of runs stopped for a fault of their own. */
  readonly #stopped = new Set<string>();
  /** Runs whose rows are called online from now on, whatever tier they ask for. */
  #online: ReadonlySet<string> = new Set();
  #closing: Promise<void> | null = null;
  #isLeaving = false;
  /** Ends a pause of this process alone. */
  #rest: NodeJS.Timeout | undefined;

  constructor(
    private readonly context: WorkerContext,
    private readonly served: Served,
  ) {
    const { store, concurrency, untilAnswered = concurrency, times, log } = context;
    const { queue, limits } = served;
    this.#lockMs = times?.lockMs ?? LOCK_MS;
    this.batcher = context.batcher;
    this.log = log;
    this.budgets = new BudgetWait(context.batcher);
    this.lanes = new Lanes(context, served, (ms) => this.#keepEntries(ms));
    // Enough chunks to fill the limit while the last rows of some are still in flight.
    this.#baseSlots = 2 * Math.ceil((untilAnswered * limits.prompts_per_request) / limits.chunk_size) + 1;
    this.#queue = new Queue(queue, { connection: store.connection }, store.backendFactory);
    this.#worker = new Worker<ChunkData>(
      queue,
      (job, token) => this.#process(job, token ?? ''),
      {
        connection: store.connection,
        name: context.name,
        concurrency: this.#baseSlots,
        lockDuration: this.#lockMs,
        // BullMQ's own renewal uses the system clock, and stops for as long as that was set back (fault 90).
        skipLockRenewal: true,
        stalledInterval: times?.stalledCheckMs ?? STALLED_CHECK_MS,
        maxStalledCount: MOST_LOSSES,
        limiter: ENTRY_LIMIT,
        // For an entry that lost its own options with its data.
        removeOnFail: KEEP_FAILED,
        // Without the strategy a worker stalls every chunk that must be retried.
        settings: { backoffStrategy: (attempt = 1) => backoffMs(attempt, Math.random()) },
      },
      store.backendFactory,
    );
    this.#clock = watchClock((ms) => void this.#clockWasSetBack(ms));
    this.#renewal = setInterval(() => void this.#renewOnce(), Math.min(this.#lockMs / 2, RENEW_MS));
    this.#worker.on('error', (error) => log.debug({ err: error }, 'worker connection'));
    this.#queue.on('error', (error) => log.debug({ err: error }, 'worker connection'));
  }

  /** Uncalled rows go back to the queue: the worker closes, or a run must stop. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** One renewal at a time, abandoned before the locks run out if the store does not answer. */
  #renewOnce(): Promise<void> {
    this.#renewing ??= within(this.#lockMs / 2, this.#renew())
      .catch((error) => this.context.log.debug({ err: error }, 'locks were not renewed'))
      .finally(() => {
        this.#renewing = null;
      });
    return this.#renewing;
  }

  /** After a sleep so long that others may have its rows, the process checks before it calls. */
  looked(): Promise<void> | undefined {
    return this.#slept ? this.#renewOnce() : undefined;
  }

  get #slept(): boolean {
    return steadyNow() - this.#renewedAt > WORKER_SAFE_MS;
  }

  /**
   * Renews the locks of all leases. Calls in flight go on in any case, because they are paid for. After a
   * freeze every entry is checked: it may be back in the queue, where a lock can still be renewed.
   */
  async #renew(): Promise<void> {
    const now = steadyNow();
    const leases = new Map(this.#leases);
    const tokens = [...leases.values()].map(({ held }) => held.token);
    const unrenewed =
      leases.size === 0 ? [] : await this.#worker.extendJobLocks([...leases.keys()], tokens, this.#lockMs);
    // It may have slept before this, or while the reply was on its way.
    for (const id of this.#slept ? leases.keys() : unrenewed) {
      const held = leases.get(id)?.held;
      if (held !== undefined) held.isLost = !(await this.#has(held));
    }
    this.#renewedAt = now;
  }

  /** Whether this lease still has the entry. A lock that ran out and that nobody took is still valid. */
  async #has({ job }: LeasedEntry): Promise<boolean> {
    const now = await this.#queue.getJob(job.id ?? '');
    return now?.attemptsStarted === job.attemptsStarted && (await now.getState()) === 'active';
  }

  /**
   * BullMQ delays failed entries, and pauses the queue, until a wall-clock time. That would now come too
   * late, so both end; the pacer keeps pauses by itself.
   */
  async #clockWasSetBack(ms: number): Promise<void> {
    const { log } = this.context;
    log.warn({ seconds: Math.round(ms / 1000) }, 'the clock of this machine was set back');
    try {
      await this.#queue.removeRateLimitKey();
      await this.#queue.promoteJobs();
    } catch (error) {
      log.debug({ err: error }, 'the queue refused to let go what waits for a time');
    }
  }

  get inFlight(): number {
    return this.lanes.all.reduce((sum, { caller }) => sum + caller.inFlight, 0);
  }

  get heartbeat(): WorkerHeartbeat['queues'][number] {
    const { quota } = this;
    return {
      queue: this.served.queue,
      deployment: deploymentsOf(this.served.endpoints),
      concurrency: this.lanes.own.concurrency,
      in_flight: this.inFlight,
      waiting: serviceWait(this, steadyNow()) ?? this.capacityWait(steadyNow()),
      quota: quota && {
        requests_per_minute: quota.perMinute,
        is_found: quota.isFound,
        tokens_per_minute: quota.tokensPerMinute,
      },
    };
  }

  isOnline(run: string): boolean {
    return this.#online.has(run);
  }

  /** Tells which runs are called online, and no others. Their rows that wait for capacity are called at once. */
  setOnline(runs: ReadonlySet<string>): void {
    const isNew = [...runs].some((run) => !this.#online.has(run));
    this.#online = runs;
    if (isNew) void this.#promote();
  }

  async #promote(): Promise<void> {
    await this.#queue
      .promoteJobs()
      .catch((error) => this.context.log.debug({ err: error }, 'the queue refused to let go what waits'));
  }

  get unrecorded(): number {
    return this.batcher.unrecorded;
  }

  /** Milliseconds the service asked this process to wait; 0 when it is calling. */
  get waitingMs(): number {
    return this.lanes.own.waitingMs;
  }

  /** The current outage as this process sees it, or null. */
  get outage(): OutageView | null {
    return this.lanes.own.outage;
  }

  /** Null while unknown. */
  get quota(): Quota | null {
    return this.lanes.own.quota;
  }

  /** In words; null while calls of the flex tier are made, or none are wanted. */
  capacityWait(now: number): string | null {
    const ms = Math.max(...this.lanes.own.lanes.map(({ capacity }) => capacity.waitingMs));
    return ms === 0 || this.#online.size > 0
      ? null
      : `waiting for flex capacity; next call at ${clock(now + ms)}`;
  }

  /** What rows that go to another deployment wait for, in words; null when nothing. */
  otherWait(now: number): string | null {
    for (const { name, outage, pacer } of this.lanes.others) {
      const wait = serviceWait({ outage: outage.view, waitingMs: pacer.waitingMs }, now);
      if (wait !== null) return `${name}: ${wait}`;
    }
    return null;
  }

  totals(run: string): Totals {
    return this.batcher.totals(run);
  }

  /** Ends an outage that the failing rows have probably caused: from now on they use up attempts. */
  blameRows(): void {
    for (const { outage } of this.lanes.own.lanes) outage.answered();
  }

  /**
   * Finishes and records the calls in flight, returns the other rows, and leaves the queue. Calls that
   * outlast the grace period are abandoned; they may be billed.
   */
  close(): Promise<void> {
    this.#closing ??= this.#leave();
    return this.#closing;
  }

  async #leave(): Promise<void> {
    this.#isLeaving = true;
    clearInterval(this.#clock);
    clearTimeout(this.#rest);
    for (const { pacer } of this.lanes.all) pacer.close();
    // BullMQ's own close waits forever while the store is away (fault 46).
    await within(GRACE_MS, this.#worker.close()).catch((error) =>
      this.context.log.warn({ err: error }, 'calls in flight were given up'),
    );
    clearInterval(this.#renewal);
    await this.lanes.close();
    await within(LEAVE_MS, Promise.all([this.batcher.flushed(), this.#queue.close()])).catch(() => {});
  }

  async #process(job: Job<ChunkData>, token: string): Promise<void> {
    const chunk = decodeChunk(job.data);
    const asking = chunk === null ? null : this.#askingFor(chunk);
    if (chunk === null || asking === undefined || !this.#serves(chunk)) {
      // Empty data: the store lost it, and the run adds the entry again.
      const level = Object.keys(job.data ?? {}).length === 0 ? 'debug' : 'warn';
      this.context.log[level]({ entry: job.id }, 'refused a queue entry that is no chunk of this deployment');
      throw new UnrecoverableError(`${REFUSED} not a chunk of this deployment`);
    }
    const id = job.id ?? '';
    // After a freeze, or a lost store, the entry comes back while its first lease goes on.
    while (this.#leases.has(id)) await this.#leases.get(id)?.over;
    const held: LeasedEntry = {
      ...{ job, token, chunk, asking, isLost: false },
      attempt: job.attemptsMade + 1,
      attempts: job.opts.attempts ?? 1,
      isOwn: this.context.ownRun === chunk.run,
    };
    const work = this.#work(held);
    this.#leases.set(id, { held, over: work.catch(() => {}) });
    try {
      await work;
    } finally {
      this.#leases.delete(id);
      // Back to the usual number of chunks, but only while rows wait; otherwise another chunk is due.
      if (this.lanes.own.line.pendingCount > 0 && this.#worker.concurrency > this.#baseSlots)
        this.#worker.concurrency--;
    }
  }

  /** Its endpoints are those of the queue, each once, also the one asked last. */
  #serves({ endpoints, asks }: Chunk): boolean {
    const { set = this.served.endpoints } = this.served;
    const isIn = ({ name, deployment }: Pick<EndpointSpec, 'name' | 'deployment'>): boolean =>
      endpoints.some((each) => name === each.name && deployment === each.deployment);
    const isLastIn =
      set.length === 1 || !asks?.deployment || set.some(({ name }) => name === asks.deployment);
    return endpoints.length === set.length && set.every(isIn) && isLastIn;
  }

  isStopped(chunk: Chunk): boolean {
    return this.#stopped.size > 0 && this.#stopped.has(executionOf(chunk));
  }

  /** Null when answers are not read; undefined when this process cannot read them. */
  #askingFor({ asks }: Chunk): AnswerCheck | null | undefined {
    try {
      return asks && new AnswerCheck(asks);
    } catch (error) {
      this.context.log.warn({ err: error }, 'what is expected of the answers cannot be read');
      return undefined;
    }
  }

  async #work(held: LeasedEntry): Promise<void> {
    const { job, token, chunk } = held;
    if (this.isStopped(chunk)) return;
    const end = await new Visit(this, held).run();
    switch (end.kind) {
      case 'done':
        return;
      case 'wait':
        if (!this.lanes.own.isPartial) throw new RateLimitError();
        this.#restFor(this.waitingMs);
        break;
      case 'retry':
        throw new Error(
          `${end.rows} of ${chunk.rows.length} rows to be tried again: ${end.codes.join(', ')}`,
        );
      case 'later':
        await job.moveToDelayed(Date.now() + end.ms, token);
        // It may have gone online meanwhile.
        if (chunk.tier !== undefined && this.isOnline(chunk.run)) await this.#promote();
        throw new DelayedError();
      case 'left':
        break;
    }
    if (!held.isLost) await job.moveToWait(token);
    throw new WaitingError();
  }

  /**
   * Entries returned during a pause would be handed out again at once. Every worker pauses its queue, because
   * runs of one state directory share their pauses but not their queues.
   */
  async #keepEntries(ms: number): Promise<void> {
    if (this.lanes.own.isPartial) return this.#restFor(ms);
    await this.#queue
      .rateLimit(ms)
      .catch((error) => this.context.log.debug({ err: error }, 'the queue refused to pause'));
  }

  /** Workers with keys for other endpoints of the queue go on. */
  #restFor(ms: number): void {
    if (ms <= 0 || this.#isLeaving) return;
    clearTimeout(this.#rest);
    void this.#worker.pause(true);
    this.#rest = setTimeout(() => {
      this.#rest = undefined;
      if (!this.#isLeaving) void this.#worker.resume();
    }, ms);
  }

  /**
   * Nothing can succeed until a person fixes the cause: tells the run's collector, wherever it is. This
   * process stops calling, unless the fault is that of another process's run. If it has only some of the run's
   * endpoints, it leaves the run to workers with the others.
   */
  async stop(chunk: ChunkAt, problem: Problem): Promise<void> {
    const { store, ownRun } = this.context;
    const { run, execution } = chunk;
    const { isPartial } = this.lanes.own;
    if (problem.code === 'budget' || (OF_THE_RUN.has(problem.code) && run !== ownRun && !isPartial)) {
      await store.ledger.stop(run, execution, problem);
      this.#stopped.add(executionOf(chunk));
      return;
    }
    this.#isLeaving = true;
    for (const { pacer } of this.lanes.all) pacer.close();
    this.context.onStop(problem);
    await this.#worker.pause(true);
    if (!isPartial) await store.ledger.stop(run, execution, problem);
  }

  /**
   * When the last waiting row has started, the slow rows of the current chunks would soon leave slots unused,
   * so one chunk more than usual is taken. BullMQ reads a new concurrency only when an entry ends, so it is
   * nudged.
   */
  beforeCall(): void {
    const most = this.context.concurrency + 1;
    if (this.lanes.own.line.pendingCount > 0 || this.#leases.size < this.#worker.concurrency) return;
    if (this.#isLeaving || this.#rest !== undefined || this.#worker.concurrency >= most) return;
    this.#worker.concurrency++;
    void this.#worker.pause(true).then(() => {
      if (!this.#isLeaving && this.#rest === undefined) void this.#worker.resume();
    });
  }
}
