import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import {
  type BackendFactory,
  ErrorCode,
  type IQueueBackend,
  type JobJson,
  type JobsOptions,
  type JobType,
  type KeepJobs,
  type MinimalJob,
  type MoveToDelayedOpts,
  type RedisQueueBackend,
  type RepeatableOptions,
  type RetryJobOpts,
  type WorkerOptions,
} from 'bullmq';
import {
  advanceScheduler,
  isNextOfScheduler,
  putScheduler,
  removeScheduler,
  SchedulerFile,
  schedulerFields,
} from './job-schedulers.js';
import { type Clock, type Entry, QueueState, type State } from './queue-state.js';

/** Methods of BullMQ's backends that Promptmill never calls. */
const NOT_HERE = [
  ...['addFlow', 'forQueue', 'parseNodeKey', 'clientName', 'setName', 'getClientList'],
  ...['moveToWaitingChildren', 'removeUnprocessedChildren', 'removeChildDependency', 'getDependencyCounts'],
  ...['getDependencies', 'getProcessedChildrenValues', 'getIgnoredChildrenFailures', 'paginate'],
  ...['removeDeduplicationKey', 'deleteDeduplicationKey', 'getDeduplicationJobId', 'retryFinishedJob'],
  ...['retryFinishedJobs', 'promote', 'changeDelay', 'changePriority', 'updateData', 'updateProgress'],
  ...['addLog', 'clearLogs', 'getJobLogs', 'getMetrics', 'getCountsPerPriority', 'drain'],
  ...['cleanJobsByState', 'obliterate', 'removeOrphanedJobs', 'removeDeprecatedPriorityKey', 'isFinished'],
  ...['isMaxed', 'isJobInState', 'trimEvents', 'publishEvent', 'readEvents', 'getJobScheduler'],
  ...['isJobScheduler', 'getJobSchedulersCount', 'getQueueMeta', 'getQueueMetaField', 'getQueueMetaFields'],
  ...['removeQueueMetaFields'],
] as const satisfies readonly (keyof IQueueBackend)[];
type NotHere = (typeof NOT_HERE)[number];

const notHere = (what: string): Error => new Error(`${what} is not in the embedded store`);

/** BullMQ's interface without those methods; calling one throws. */
const Backend = class {} as new () => Pick<IQueueBackend, NotHere>;
for (const name of NOT_HERE) {
  Object.defineProperty(Backend.prototype, name, {
    value: () => {
      throw notHere(name);
    },
  });
}

/** Options that a worker sets and a queue does not. */
type Options = Partial<
  Pick<WorkerOptions, 'name' | 'lockDuration' | 'limiter' | 'maxStalledCount' | 'stalledInterval'>
> & { readonly removeOnComplete?: Kept; readonly removeOnFail?: Kept };
type Kept = boolean | number | KeepJobs | undefined;

/** BullMQ's defaults, in ms. */
const LOCK_MS = 30_000;
const STALLED_CHECK_MS = 30_000;

/** Entries taken without a pause: one that always comes back at once would starve timers and sockets. */
const TAKEN_AT_ONCE = 64;
/** Delay of the error when another process has the directory: BullMQ's worker asks again at once. */
const LOST_MS = 500;

/** Queues of a store, in memory; what has to last is on disk. */
export class EmbeddedQueues {
  readonly #states = new Map<string, QueueState>();
  readonly #file: SchedulerFile;
  #taken = 0;

  /**
   * @param loss why the directory is no longer this process's; null while it is
   * @throws UsageError when the file of the job schedulers is damaged, or of another version
   */
  constructor(
    schedulers: string,
    private readonly loss: () => Error | null,
    private readonly onWarning: (message: string) => void,
    private readonly clock?: Clock,
  ) {
    this.#file = new SchedulerFile(schedulers);
    this.#file.read((name) => this.#stateOf(name));
  }

  /** Typed for Redis, as BullMQ's classes are by default. */
  get backendFactory(): BackendFactory<RedisQueueBackend> {
    const factory: BackendFactory = (name, options: object) => new QueueBackend(name, options, this);
    return factory as BackendFactory<RedisQueueBackend>;
  }

  /** @throws the error of `loss` */
  stateOf(name: string): QueueState {
    this.assertHeld();
    return this.#stateOf(name);
  }

  #stateOf(name: string): QueueState {
    let state = this.#states.get(name);
    if (state === undefined) {
      state = new QueueState(this.clock);
      this.#states.set(name, state);
    }
    return state;
  }

  assertHeld(): void {
    const loss = this.loss();
    if (loss !== null) throw loss;
  }

  async beforeTaking(): Promise<void> {
    if (++this.#taken % TAKEN_AT_ONCE === 0) await setImmediate();
    if (this.loss() !== null) await sleep(LOST_MS);
  }

  /** Writes the schedulers and their entries to disk. @throws the file system's error */
  note(): void {
    this.#file.write(this.#states);
  }

  /** Work goes on after an error: the next process may then hand out an entry again. */
  tryToNote(): void {
    try {
      this.note();
    } catch (error) {
      this.onWarning(this.#file.why(error));
    }
  }

  close(): void {
    for (const state of this.#states.values()) state.close();
  }
}

/** BullMQ's backend for one queue or worker. Its methods do what BullMQ's scripts for Redis do. */
class QueueBackend extends Backend implements IQueueBackend {
  readonly keys = {} as IQueueBackend['keys'];
  readonly minimumBlockTimeout = 0.001;
  closing: Promise<void> | undefined;
  #added = 0;
  /** The worker is about to stop and must not wait. */
  #isInterrupted = false;
  #endWait: () => void = () => {};

  constructor(
    readonly qualifiedName: string,
    private readonly options: Options,
    private readonly queues: EmbeddedQueues,
  ) {
    super();
  }

  /** @throws when another process has the state directory */
  get #queue(): QueueState {
    return this.queues.stateOf(this.qualifiedName);
  }

  async waitUntilReady(): Promise<void> {}

  close(): Promise<void> {
    this.closing ??= this.disconnectBlocking();
    return this.closing;
  }

  disconnect(): Promise<void> {
    return this.disconnectBlocking();
  }

  /** There is no connection, so there are no events. */
  on(): this {
    return this;
  }

  once(): this {
    return this;
  }

  removeListener(): this {
    return this;
  }

  toKey(type: string): string {
    return `${this.qualifiedName}:${type}`;
  }

  async addJob(job: JobJson, jobId: string): Promise<string> {
    return this.#add(this.#queue, job, jobId);
  }

  async addJobs(entries: Parameters<IQueueBackend['addJobs']>[0]): Promise<string[]> {
    const queue = this.#queue;
    return entries.map(({ job, jobId }) => this.#add(queue, job, jobId));
  }

  #add(queue: QueueState, job: JobJson, jobId: string): string {
    const { opts } = job;
    if (job.parentKey !== undefined || job.deduplicationId !== undefined)
      throw notHere('a flow or deduplication');
    const id = jobId || job.id || this.#newId(queue);
    if (queue.get(id) !== undefined) return id;
    const { delay = 0, priority = 0, lifo = false } = opts;
    const json = { ...job, id, delay, priority, returnvalue: 'null' };
    queue.add(json, delay > 0 ? job.timestamp + delay : 0, lifo);
    return id;
  }

  #newId(queue: QueueState): string {
    while (queue.get(String(++this.#added)) !== undefined);
    return String(this.#added);
  }

  async moveToActive(token: string, name?: string): Promise<NextJob> {
    return this.#take(token, name);
  }

  async #take(token: string, name = this.options.name): Promise<NextJob> {
    await this.queues.beforeTaking();
    const queue = this.#queue;
    const { limiter, lockDuration = LOCK_MS } = this.options;
    queue.promoteDue();
    const limitedMs = limiter === undefined ? 0 : queue.limitedMs(limiter.max);
    if (limitedMs > 0) return nothing(limitedMs);
    if (queue.isPaused) return nothing();
    const [entry] = queue.list('waiting');
    if (entry === undefined) return nothing(0, queue.nextDelayed?.rank);
    const { json } = entry;
    if (limiter !== undefined && json.deferredFailure === undefined) queue.countTaken(limiter.duration);
    queue.take(entry, token === ANY ? null : { token, until: queue.clock.steady() + lockDuration });
    json.processedOn = queue.clock.now();
    json.attemptsStarted++;
    if (name !== undefined) json.processedBy = name;
    return [{ ...json }, entry.id, 0, 0];
  }

  async moveToCompleted<T, R, N extends string>(
    job: MinimalJob<T, R, N>,
    returnValue: R,
    removeOnComplete: Kept,
    token: string,
    fetchNext: boolean,
  ): Promise<{ result: NextJob | undefined; finishedOn: number }> {
    const queue = this.#queue;
    const entry = activeOf(queue, job.id, token, 'moveToFinished');
    entry.json.returnvalue = JSON.stringify(returnValue ?? null);
    const finishedOn = this.#finish(
      queue,
      entry,
      'completed',
      removeOnComplete ?? this.options.removeOnComplete,
    );
    return { result: await this.#next(token, fetchNext), finishedOn };
  }

  async moveToFailed<T, R, N extends string>(
    job: MinimalJob<T, R, N>,
    failedReason: string,
    removeOnFail: Kept,
    token: string,
    fetchNext: boolean,
    fieldsToUpdate?: Record<string, unknown>,
  ): Promise<{ result: NextJob | undefined; finishedOn: number }> {
    const queue = this.#queue;
    const entry = activeOf(queue, job.id, token, 'moveToFinished');
    update(entry, { ...fieldsToUpdate, failedReason });
    delete entry.json.deferredFailure;
    const finishedOn = this.#finish(queue, entry, 'failed', removeOnFail ?? this.options.removeOnFail);
    return { result: await this.#next(token, fetchNext), finishedOn };
  }

  #finish(queue: QueueState, entry: Entry, state: 'completed' | 'failed', kept: Kept): number {
    const finishedOn = queue.clock.now();
    const { json } = entry;
    json.attemptsMade++;
    json.finishedOn = finishedOn;
    queue.move(entry, state, finishedOn);
    const { age, count } = keptOf(kept);
    const finished = queue.list(state);
    const gone = [
      ...(age === undefined ? [] : finished.filter(({ rank }) => rank <= finishedOn - age * 1000)),
      ...(count < 0 ? [] : finished.slice(0, Math.max(0, finished.length - count))),
    ];
    for (const each of count === 0 ? [entry] : new Set(gone)) queue.remove(each);
    if (json.repeatJobKey !== undefined) this.queues.tryToNote();
    return finishedOn;
  }

  #next(token: string, fetchNext: boolean): Promise<NextJob> | undefined {
    return fetchNext && this.closing === undefined ? this.#take(token) : undefined;
  }

  async moveToDelayed(
    jobId: string,
    timestamp: number,
    delay: number,
    token = ANY,
    { skipAttempt = false, fieldsToUpdate, fetchNext = false }: MoveToDelayedOpts = {},
  ): Promise<NextJob | undefined> {
    const queue = this.#queue;
    const entry = activeOf(queue, jobId, token, 'moveToDelayed');
    update(entry, fieldsToUpdate);
    if (!skipAttempt) entry.json.attemptsMade++;
    entry.json.delay = delay;
    queue.move(entry, 'delayed', timestamp + delay);
    const next = await this.#next(token, fetchNext);
    return next?.[0] == null ? undefined : next;
  }

  /** @returns milliseconds until the limiter period ends */
  async moveJobFromActiveToWait(jobId: string, token = ANY): Promise<number> {
    const queue = this.#queue;
    const entry = heldOf(queue, jobId, token, 'moveJobFromActiveToWait');
    if (entry.state === 'active') queue.wait(entry, 'first');
    return queue.limitMs;
  }

  async retryJob(jobId: string, lifo: boolean, token = ANY, opts: RetryJobOpts = {}): Promise<void> {
    const queue = this.#queue;
    queue.promoteDue();
    const entry = activeOf(queue, jobId, token, 'retryJob');
    update(entry, opts.fieldsToUpdate);
    entry.json.attemptsMade++;
    queue.wait(entry, lifo ? 'first' : 'last');
  }

  async moveStalledJobsToWait(): Promise<string[]> {
    const queue = this.#queue;
    const { maxStalledCount = 1, stalledInterval = STALLED_CHECK_MS } = this.options;
    const stalled = queue.takeStalled(stalledInterval);
    for (const { json } of stalled) {
      json.stalledCounter++;
      if (json.stalledCounter <= maxStalledCount || queue.schedulers.has(json.repeatJobKey ?? '')) continue;
      json.deferredFailure = 'job stalled more than allowable limit';
    }
    return stalled.map(({ id }) => id);
  }

  /** @returns 0: none is left */
  async promoteJobs(): Promise<number> {
    const queue = this.#queue;
    for (const entry of [...queue.list('delayed')]) queue.wait(entry, 'last');
    return 0;
  }

  async pause(pause: boolean): Promise<void> {
    this.#queue.pause(pause);
  }

  async extendLock(jobId: string, token: string, duration: number): Promise<number> {
    return (await this.extendLocks([jobId], [token], duration)).length === 0 ? 1 : 0;
  }

  /** @returns the ids that the worker no longer holds */
  async extendLocks(jobIds: string[], tokens: string[], duration: number): Promise<string[]> {
    const queue = this.#queue;
    const until = queue.clock.steady() + duration;
    return jobIds.filter((id, i) => {
      const entry = queue.get(id);
      const token = tokens[i] ?? '';
      if (entry === undefined || !queue.isHeld(entry) || entry.lock?.token !== token) return true;
      entry.lock = { token, until };
      entry.isMarked = false;
      return false;
    });
  }

  /** @returns 0 when there is none, or a worker has it */
  async remove(jobId: string): Promise<number> {
    const queue = this.#queue;
    const entry = queue.get(jobId);
    if (entry === undefined) return 0;
    if (isNextOfScheduler(queue, entry)) throw failure(ErrorCode.JobBelongsToJobScheduler, jobId, 'remove');
    if (queue.isHeld(entry)) return 0;
    queue.remove(entry);
    if (entry.json.repeatJobKey !== undefined) this.queues.tryToNote();
    return 1;
  }

  async addJobScheduler(
    id: string,
    next: number,
    data: string,
    opts: JobsOptions,
    { name = '', pattern, tz, every }: RepeatableOptions,
    entryOpts: JobsOptions,
  ): Promise<[string, number]> {
    if (pattern === undefined || every !== undefined) throw notHere('a job scheduler without a pattern');
    const wanted = { name, next, pattern, tz: tz ?? null, data, opts };
    const entry = putScheduler(this.#queue, id, wanted, entryOpts);
    if (entry === null) throw failure(ErrorCode.SchedulerJobIdCollision, id, 'addJobScheduler');
    this.queues.note();
    return [entry.id, entry.delay ?? 0];
  }

  async updateJobSchedulerNextMillis(
    id: string,
    next: number,
    _data: string,
    entryOpts: JobsOptions,
    producerId?: string,
  ): Promise<string | null> {
    const entry = advanceScheduler(this.#queue, id, next, entryOpts, producerId);
    if (entry !== null) this.queues.tryToNote();
    return entry?.id ?? null;
  }

  /** @returns 0 when removed, 1 when there was none */
  async removeJobScheduler(id: string): Promise<number> {
    const wasThere = removeScheduler(this.#queue, id);
    if (wasThere) this.queues.note();
    return wasThere ? 0 : 1;
  }

  async getJobSchedulerData(id: string): Promise<Record<string, string>> {
    return schedulerFields(this.#queue.schedulers.get(id));
  }

  /** @returns ids and times in turns */
  async getJobSchedulersRange(start: number, end: number, asc: boolean): Promise<string[]> {
    const sorted = [...this.#queue.schedulers].sort(([, a], [, b]) =>
      asc ? a.next - b.next : b.next - a.next,
    );
    return rangeOf(sorted, start, end).flatMap(([id, { next }]) => [id, String(next)]);
  }

  async getState(jobId: string): ReturnType<IQueueBackend['getState']> {
    const entry = this.#queue.get(jobId);
    if (entry === undefined) return 'unknown';
    return entry.state === 'waiting' && entry.rank > 0 ? 'prioritized' : entry.state;
  }

  async getJobData(jobId: string): Promise<JobJson | undefined> {
    const json = this.#queue.get(jobId)?.json;
    return json && { ...json };
  }

  async getCounts(types: JobType[]): Promise<number[]> {
    const queue = this.#queue;
    return types.map((type) => listed(queue, type).length);
  }

  async getRanges(types: JobType[], start = 0, end = -1, asc = false): Promise<[string][]> {
    const queue = this.#queue;
    return types.map((type) => {
      const entries = listed(queue, type);
      // BullMQ reverses these lists itself, so they come last first even when the first is asked for.
      const isList = type === 'active' || type === 'wait' || type === 'waiting';
      const range = rangeOf(asc ? entries : entries.toReversed(), start, end);
      const ids = (isList && asc ? range.toReversed() : range).map(({ id }) => id);
      // The type says lists of one id; it means lists of ids.
      return ids as [string];
    });
  }

  /** The pause is the only metadata that is ever read here. */
  async setQueueMeta(values: Record<string, string | number>): Promise<number> {
    this.queues.assertHeld();
    const limit = ['concurrency', 'max', 'duration'].find((name) => name in values);
    if (limit !== undefined) throw notHere(`a limit for all workers (${limit})`);
    return 0;
  }

  async hasQueueMetaField(field: string): Promise<boolean> {
    return field === 'paused' && this.#queue.isPaused;
  }

  async setRateLimit(expireTimeMs: number): Promise<void> {
    this.#queue.limit(expireTimeMs);
  }

  async removeRateLimitKey(): Promise<number> {
    return this.#queue.unlimit() ? 1 : 0;
  }

  async getRateLimitTtl(maxJobs = 0): Promise<number> {
    const queue = this.#queue;
    if (maxJobs > 0) return queue.limitedMs(maxJobs);
    return queue.limitMs > 0 ? queue.limitMs : NO_KEY;
  }

  /** Waits as long as it takes: every added entry wakes it, so there is nothing to poll for. */
  async waitForJob(): ReturnType<IQueueBackend['waitForJob']> {
    if (this.#isInterrupted) return null;
    const queue = this.#queue;
    await new Promise<void>((resolve) => {
      this.#endWait = () => queue.release(resolve);
      queue.whenReady(resolve);
    });
    return this.#isInterrupted ? null : { member: '', score: 0 };
  }

  async disconnectBlocking(): Promise<void> {
    this.#isInterrupted = true;
    this.#endWait();
  }

  async reconnectBlocking(): Promise<void> {
    this.#isInterrupted = false;
  }
}

/** Token of a caller that may move an entry whoever holds it. */
const ANY = '0';
/** Redis' reply for the remaining time of a missing key. */
const NO_KEY = -2;

/** An entry and its id; without one, for how many ms none may be taken, and when the next is due. */
type NextJob = [json: JobJson | null, id: string, limitMs: number, delayUntil: number];
const nothing = (limitMs = 0, delayUntil = 0): NextJob => [null, '', limitMs, delayUntil];

/** The entry that a worker holds. @throws when it does not */
function heldOf(queue: QueueState, id: string | undefined, token: string, command: string): Entry {
  const entry = queue.get(id ?? '');
  if (entry === undefined) throw failure(ErrorCode.JobNotExist, id, command);
  if (token !== ANY && !queue.isHeld(entry)) throw failure(ErrorCode.JobLockNotExist, id, command);
  if (token !== ANY && entry.lock?.token !== token) throw failure(ErrorCode.JobLockMismatch, id, command);
  return entry;
}

function activeOf(queue: QueueState, id: string | undefined, token: string, command: string): Entry {
  const entry = heldOf(queue, id, token, command);
  if (entry.state !== 'active') throw failure(ErrorCode.JobNotInState, id, command);
  return entry;
}

/** BullMQ's own errors say the same, but it does not export the function that makes them. */
const WHY = new Map<ErrorCode, string>([
  [ErrorCode.JobNotExist, 'it is not there'],
  [ErrorCode.JobLockNotExist, 'no worker has it'],
  [ErrorCode.JobLockMismatch, 'another worker has it'],
  [ErrorCode.JobNotInState, 'it is not active'],
  [ErrorCode.JobBelongsToJobScheduler, 'it belongs to a job scheduler'],
  [ErrorCode.SchedulerJobIdCollision, 'the entry for its next time is there already'],
]);

const failure = (code: ErrorCode, id: string | undefined, command: string): Error =>
  Object.assign(new Error(`${command} refuses ${id}: ${WHY.get(code)}`), { code });

function update({ json }: Entry, fields: Record<string, unknown> = {}): void {
  const { failedReason, stacktrace } = fields;
  if (typeof failedReason === 'string') json.failedReason = failedReason;
  if (typeof stacktrace === 'string') json.stacktrace = stacktrace;
}

/** For how many seconds, and how many, finished entries are kept; a count of -1 is all. */
function keptOf(kept: Kept): { readonly age: number | undefined; readonly count: number } {
  if (typeof kept === 'object') return { age: 'age' in kept ? kept.age : undefined, count: kept.count ?? -1 };
  return { age: undefined, count: typeof kept === 'number' ? kept : kept === true ? 0 : -1 };
}

const STATES: ReadonlySet<string> = new Set<State>(['waiting', 'active', 'delayed', 'completed', 'failed']);
const isState = (type: string): type is State => STATES.has(type);

function listed(queue: QueueState, type: JobType): readonly Entry[] {
  if (type === 'prioritized') return queue.list('waiting').filter(({ rank }) => rank > 0);
  if (type === 'wait' || type === 'waiting') return queue.list('waiting').filter(({ rank }) => rank === 0);
  return isState(type) ? queue.list(type) : [];
}

/** Both ends included; -1 is the last. */
const rangeOf = <T>(items: readonly T[], start: number, end: number): readonly T[] =>
  items.slice(start, end === -1 ? undefined : end + 1);
