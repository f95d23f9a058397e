import type { LimitFunction } from 'p-limit';
import type { Logger } from 'pino';
import { steadyNow } from '../core/clock.js';
import type { Problem, Tokens } from '../core/model.js';
import type { QueueDemand } from '../ops/demand.js';
import { NO_TOKENS, plus } from '../pace/budget.js';
import { Capacity } from '../pace/capacity.js';
import { Gate } from '../pace/gate.js';
import { LateCalls } from '../pace/late-calls.js';
import { Pacer, type PacerParts } from '../pace/pacer.js';
import { Outage } from '../pace/pauses.js';
import { StarvedCalls } from '../pace/starved-calls.js';
import { type Reserved, TokenEstimator } from '../pace/usage.js';
import type { ChunkAt } from '../queue/chunk.js';
import type { queuesOf } from '../queue/names.js';
import type { ServedEndpoint, ServiceAccess } from '../service/endpoint.js';
import type { Several } from '../service/endpoint-spec.js';
import { ADVICE } from '../service/quirks.js';
import type { Tier } from '../service/response.js';
import type { NoCapacity, NoRoom, Notice, Unsettled, Verdict, Wait } from '../service/verdict.js';
import type { Store } from '../store/store.js';
import { type CallAccess, Caller } from './caller.js';
import { FairLimit, type TaskLine } from './fair-limit.js';
import { completionOf } from './row-usage.js';

/** The process, as far as its calls go. */
export interface CallContext extends Omit<CallAccess, keyof ServiceAccess> {
  readonly store: Store;
  /** Names the pace that all jobs share which call this deployment. */
  readonly queueOf: ReturnType<typeof queuesOf>;
  /** Whether its calls tell which endpoint they are of. @default false */
  readonly tellsEndpoint?: boolean;
  /** Most calls at once before the first are answered. @default `concurrency` */
  readonly untilAnswered?: number;
  /** The limit shared by the lanes of the process. @default only `concurrency`, of each */
  readonly slots?: LimitFunction;
}

/** What a worker serves. */
export interface Served {
  readonly queue: string;
  readonly endpoints: Several<ServedEndpoint>;
  /** All endpoints of the queue, if other workers may have keys for more of them. @default `endpoints` */
  readonly set?: readonly Pick<ServedEndpoint, 'name' | 'deployment'>[];
  /** `in_order`: a row goes to an endpoint only if those before it are no use, or it has waited for a second. */
  readonly route: 'balance' | 'in_order';
  readonly limits: Pick<QueueDemand['limits'], 'token_estimate' | 'prompts_per_request' | 'chunk_size'>;
  /** Whether the service has answered before. */
  readonly answered: boolean;
}

/** What a lane has to do with the other lanes of its route. */
export interface LaneRoute {
  /** Where its rows wait. */
  readonly line: TaskLine<Lane>;
  /** Whether it may take the next row now. */
  mayTake(lane: Lane): boolean;
  /** Whether rows that it cannot call need not go back to the queue. */
  hasOther(lane: Lane): boolean;
  /** @returns why the run must stop, as no other lane is left; null when it goes on */
  stop(lane: Lane, problem: Problem): Problem | null;
}

interface Ended {
  readonly chunk: ChunkAt;
  /** Of its first row: tells the call from others. */
  readonly name: string;
  readonly verdicts: readonly Verdict[];
  readonly reserved: Reserved;
  readonly startedAt: number;
  readonly tier?: Tier | undefined;
}

/** Consecutive responses that could not be split into rows, after which each row is called alone. */
const MIXED_UP = 3;
/** Times that all rows fail alike while a plain call succeeds, after which a run without any answer stops. */
const ALL_ALIKE = 2;

/** Rows are taken this long before their permits come, in ms: twice as long as permits are given in advance. */
const AHEAD_MS = 500;
/** The same in rows, where only tokens have a quota. */
const FEW = 8;

/** After "no room" one more call is tried after so many call durations, within these bounds in ms. */
const ROUNDS = 4;
const SHORTEST_FIRST_MS = 1_000;
const LONGEST_FIRST_MS = 60_000;

/** Why fewer calls are made at once. */
type TooMany = 'starved' | 'late' | 'no_room';

/** Time between two calls that try whether an endpoint takes calls again that refused them, in ms. */
const PROBE_MS = 60_000;

/**
 * Calls one endpoint. Learns from each call when the next may be made, how many at once, and how many tokens
 * an answer takes.
 */
export class Lane {
  readonly name: string;
  readonly caller: Caller;
  readonly gate: Gate;
  /** One limit over all its calls in the process; runs take turns. */
  readonly limit: FairLimit<Lane>;
  readonly outage = new Outage();
  readonly capacity = new Capacity();
  readonly pacer: Pacer;
  readonly estimate: TokenEstimator;
  readonly #log: Logger;
  readonly #keys: ServedEndpoint['keys'];
  /** The endpoint refuses all calls; one tries it at a time. Null while it takes them. */
  #stopped: { readonly problem: Problem; readonly probeAt: number } | null = null;
  /** Whether any row became known. */
  #answered: boolean;
  #mixedUp = 0;
  readonly #noticed = new Set<Notice>();
  readonly #starved = new StarvedCalls();
  readonly #late = new LateCalls();
  /** Reasons already logged as a warning. */
  readonly #told = new Set<TooMany>();
  /** Most prompts in a request that the server had room for, as far as known. */
  #mostInPack = Number.POSITIVE_INFINITY;
  /** The last run whose rows all failed alike while a plain call succeeded, and how often. */
  #alike = { run: '', times: 0 };

  constructor(
    context: CallContext,
    endpoint: ServedEndpoint,
    { limits, answered }: Pick<Served, 'limits' | 'answered'>,
    readonly route: LaneRoute,
    onPause: PacerParts['onPause'],
  ) {
    const { store, concurrency, untilAnswered = concurrency, log, slots, tellsEndpoint } = context;
    const { name, address, keys, connect, quota } = endpoint;
    this.name = name;
    this.#log = log;
    this.#keys = keys;
    this.#answered = answered;
    this.caller = new Caller(
      { ...context, address, keys, connect, ...(tellsEndpoint && { endpoint: name }) },
      answered,
    );
    this.estimate = new TokenEstimator(limits.token_estimate);
    this.limit = new FairLimit<Lane>(
      concurrency,
      route.line,
      this,
      () => route.mayTake(this),
      () => this.isLast,
    );
    this.pacer = new Pacer({
      values: store.keyValue,
      queue: context.queueOf(endpoint),
      limits: quota,
      ceiling: concurrency,
      untilAnswered,
      underWay: () => this.gate.calls,
      onConcurrency: (most) => {
        this.limit.concurrency = most;
      },
      onPause,
      clock: steadyNow,
      onChange: (change) => log.info(change, 'the pace changed'),
      onStoreError: (error) => log.debug({ err: error }, 'the store refused the pace'),
    });
    this.limit.concurrency = this.pacer.concurrency;
    this.gate = new Gate(this.pacer, this.outage, slots ?? ((call) => call()), () => route.line.offer());
  }

  /** Why the endpoint refuses all calls; null while it takes them. */
  get stopped(): Problem | null {
    return this.#stopped?.problem ?? null;
  }

  /** True when it makes no calls now, or only probes. */
  get isAside(): boolean {
    return this.#stopped !== null || this.outage.view !== null || this.gate.waitingMs > 0;
  }

  /** True when it was put aside and has no key left to try. */
  get isRevoked(): boolean {
    return this.#stopped !== null && this.#keys.current() === null;
  }

  /** True when rows that others have room for are better left to them. */
  get isLast(): boolean {
    return this.isAside || this.outage.isFailing;
  }

  /** Puts it aside while others go on. */
  stop(problem: Problem): void {
    if (this.#stopped === null) this.#log.warn(`${this.name}: ${problem.message} The other endpoints go on.`);
    this.#stopped = { problem, probeAt: steadyNow() + PROBE_MS };
  }

  /** Whether one more row would be called soon. In an outage one row probes. */
  get hasRoom(): boolean {
    const { gate, outage, pacer } = this;
    if (gate.waitingMs > 0) return false;
    // A key that was revoked stays so.
    const mayProbe = !this.isRevoked && steadyNow() >= (this.#stopped?.probeAt ?? 0);
    if (this.#stopped !== null) return mayProbe && gate.asking + gate.calls === 0;
    if (outage.view !== null) return gate.asking + gate.calls === 0;
    const { quota } = pacer;
    if (quota === null) return true;
    return (
      gate.asking < (quota.perMinute === null ? FEW : Math.max(2, (quota.perMinute / 60_000) * AHEAD_MS))
    );
  }

  /** @param asked most rows in one request, as the job asks */
  packSize(asked: number, attempt: number): number {
    // One row the service cannot take fails its whole request, so each attempt packs fewer.
    if (this.#mixedUp >= MIXED_UP) return 1;
    return Math.min(this.#mostInPack, Math.ceil(asked / 4 ** (attempt - 1)));
  }

  /**
   * Learns at once: later it would undo what newer calls taught. May tell other workers, and make a plain call
   * to see whether the service is down.
   * @returns why the run must stop, or null
   */
  async observe(call: Ended): Promise<Problem | null> {
    const problem = await this.#learn(call);
    if (this.#stopped !== null && call.verdicts.some(({ kind }) => kind === 'final')) {
      this.#log.warn(`${this.name} takes calls again`);
      this.#stopped = null;
    }
    const stop = call.verdicts.find(({ kind }) => kind === 'stop');
    return problem ?? (stop?.kind === 'stop' ? stop.problem : null);
  }

  #learn(call: Ended): Problem | null | Promise<Problem | null> {
    const { caller, outage, pacer, estimate } = this;
    const { verdicts, reserved } = call;
    this.#ofPack(verdicts);
    this.#notice(verdicts);
    const failure = verdicts.find(isRetry);
    // A response that cannot be split is still a response.
    if (failure && verdicts.every((verdict) => isRetry(verdict) && !verdict.alone))
      return this.#failed(call, failure);
    const refusal = verdicts.find(isWait);
    // An aborted call and a gateway's quota refusal do not prove that the service is up.
    if (failure?.problem.code !== 'aborted' && refusal !== verdicts[0]) outage.answered();
    if (refusal) return this.#refused(call, refusal);
    const lack = verdicts.find(isNoCapacity);
    if (lack) {
      pacer.withdrawn(reserved.tokens);
      const { problem } = lack;
      if (this.capacity.lacked(caller.inFlight, call.startedAt))
        this.#log.info(
          { ms: this.capacity.waitingMs, ...problem },
          'no capacity; rows of the flex tier wait',
        );
      return null;
    }
    if (call.tier === 'flex') this.capacity.found();
    const full = verdicts.find(isNoRoom);
    if (full) {
      this.#noRoom(call, full);
      return null;
    }
    this.#answeredIn(call);
    this.#answered ||= verdicts.some(({ kind }) => kind === 'final');
    const usage = usageOf(verdicts);
    // Larger than the whole quota: never admitted, so its tokens are not used up.
    const beyond = verdicts.every(exceedsQuota)
      ? -reserved.tokens
      : usage && estimate.settle(reserved, usage);
    pacer.answered(call.startedAt, beyond ?? 0, caller.advertised);
    return null;
  }

  #notice(verdicts: readonly Verdict[]): void {
    for (const verdict of verdicts) {
      if (verdict.kind !== 'final' || verdict.notice === undefined || this.#noticed.has(verdict.notice))
        continue;
      this.#noticed.add(verdict.notice);
      this.#log.warn(ADVICE[verdict.notice]);
    }
  }

  /** A server that mixes up every shared response gets all rows paid twice. */
  #ofPack(verdicts: readonly Verdict[]): void {
    if (verdicts.length === 1) return;
    if (verdicts.some(({ kind }) => kind === 'final')) this.#mixedUp = 0;
    if (!verdicts.some((verdict) => isRetry(verdict) && verdict.alone)) return;
    this.#mixedUp++;
    if (this.#mixedUp !== MIXED_UP) return;
    this.#log.warn(
      'answers to several prompts in one request have choices with wrong indexes; rows are called one by one from now on',
    );
  }

  #answeredIn({ startedAt, chunk }: Ended): void {
    const { timeoutMs } = chunk.endpoint;
    const now = steadyNow();
    this.#starved.answered(startedAt, now - startedAt, timeoutMs);
    if (this.#late.answered(startedAt, timeoutMs, now)) this.pacer.late();
  }

  /** Whether the call timed out because too many are made at once. */
  #isTooMany(call: Ended, { problem, unheard }: Unsettled): boolean {
    if (problem.code !== 'timeout') return false;
    return (unheard === true && this.#isStarved(call)) || this.#isLate(call);
  }

  /** The server answers some calls fast and lets others starve. */
  #isStarved({ startedAt }: Ended): boolean {
    if (!this.#starved.isStarved(startedAt)) return false;
    const ms = this.#starved.starved(startedAt, steadyNow());
    if (ms !== null) {
      const half = Math.max(1, Math.floor(this.pacer.concurrency / 2));
      this.#lower('starved', half, startedAt, `calls time out while others are answered in ${inTime(ms)}`);
    }
    return true;
  }

  /** Calls wait in the server's queue until they time out. */
  #isLate({ startedAt, chunk }: Ended): boolean {
    const { pacer } = this;
    const { timeoutMs } = chunk.endpoint;
    const late = this.#late.timedOut(startedAt, timeoutMs, pacer.atOnce, pacer.pausedUntil, steadyNow());
    if (late === 'odd') return false;
    if (late === 'known') return true;
    if (late.kind === 'too many') {
      const why = `calls time out while others are answered only after ${inTime(late.answeredMs)}`;
      this.#lower('late', late.most, startedAt, why);
    } else {
      pacer.raise(late.back);
      this.#log.warn(
        { concurrency: late.back },
        'calls time out, and making fewer at once did not help: they take so long by themselves. Raise limits.timeout_seconds',
      );
    }
    return true;
  }

  /** The concurrent calls exceed the server's context. */
  #noRoom({ startedAt, verdicts }: Ended, { problem }: NoRoom): void {
    const { pacer } = this;
    if (verdicts.length > 1) this.#mostInPack = Math.min(this.#mostInPack, Math.ceil(verdicts.length / 2));
    const half = Math.max(1, Math.floor(pacer.atOnce / 2));
    const why = `the server has no room for the calls at once: ${problem.message}`;
    // One long prompt may be the cause, and a refusal uses no attempt: try more again soon.
    const rounds = ROUNDS * (steadyNow() - startedAt);
    const firstMs = Math.min(LONGEST_FIRST_MS, Math.max(SHORTEST_FIRST_MS, rounds));
    this.#lower('no_room', half, startedAt, why, firstMs);
  }

  #lower(cause: TooMany, most: number, startedAt: number, why: string, firstMs?: number): void {
    const { pacer } = this;
    if (!pacer.lower(most, startedAt, firstMs)) return;
    const { concurrency } = pacer;
    const level = this.#told.has(cause) ? 'info' : 'warn';
    this.#told.add(cause);
    this.#log[level](
      { concurrency },
      `${why}; at most ${concurrency} at once for now; more are tried later, one by one. ${ADVICE[cause]}`,
    );
  }

  /** When nothing succeeds, every worker of the queue pauses, and no attempt is used. */
  async #failed(call: Ended, failure: Unsettled): Promise<Problem | null> {
    const { outage, pacer } = this;
    const { problem, notReady, mayBeRequest = false } = failure;
    // A server still loading its model counts as not connected: that is never the row's fault.
    const connected = failure.connected && !notReady;
    const held = pacer.failed(connected);
    let stop: Problem | null = null;
    // A server that answers others is not down.
    if (problem.code !== 'aborted' && !this.#isTooMany(call, failure)) {
      const now = steadyNow();
      const before = pacer.waitingMs;
      const { name, startedAt } = call;
      const failed = { rows: [name], problem, connected, mayBeRequest, startedAt };
      let ms = outage.failed(failed, now, Math.random());
      if (ms === 'doubt') {
        let passed = false;
        try {
          passed = await this.#passes(call);
        } finally {
          ms = outage.decided(passed, steadyNow(), Math.random());
        }
        if (passed) stop = this.#ofTheRows(call, problem);
      }
      if (ms !== null && ms > before) {
        this.#log.info({ ms, ...problem }, 'the service is down; pausing');
        await pacer.pause(ms);
      }
    }
    await held;
    await outage.certain;
    return stop;
  }

  async #passes({ chunk }: Ended): Promise<boolean> {
    const { caller, pacer } = this;
    const admission = await pacer.admit(1);
    return typeof admission === 'object' && (await caller.answersPlain(chunk));
  }

  /** The requests of the rows are the cause. When no row was ever answered, the others would fail, too. */
  #ofTheRows({ chunk: { run } }: Ended, { message }: Problem): Problem | null {
    const times = this.#alike.run === run ? this.#alike.times + 1 : 1;
    this.#alike = { run, times };
    const said =
      'the service fails every row alike and answers a plain request: the requests of the rows are the cause';
    this.#log[times === 1 ? 'warn' : 'info']({ run, message }, said);
    if (this.#answered || times < ALL_ALIKE) return null;
    return {
      code: 'not_supported',
      message:
        `the service says of every row's request: ${message}, and answers a plain one. ` +
        'Look for what it does not support in parameters, row_parameters and prompt.',
    };
  }

  /** No quota: every worker of the queue pauses without using attempts. Too many refusals stop the run. */
  async #refused({ startedAt, reserved }: Ended, { ms: hint, problem }: Wait): Promise<Problem | null> {
    const { pacer } = this;
    const before = pacer.waitingMs;
    const goesOn = pacer.refused(hint, startedAt, reserved.tokens);
    const ms = pacer.waitingMs;
    if (ms > before) this.#log.info({ ms, ...problem }, 'the service asked to wait');
    return (await goesOn) ? null : problem;
  }
}

const isRetry = (verdict: Verdict): verdict is Unsettled => verdict.kind === 'retry';

const isNoCapacity = (verdict: Verdict): verdict is NoCapacity => verdict.kind === 'no_capacity';

const isNoRoom = (verdict: Verdict): verdict is NoRoom => verdict.kind === 'no_room';

/** `120 ms`, `3.5 s`. */
const inTime = (ms: number): string => (ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`);

const isWait = (verdict: Verdict): verdict is Wait => verdict.kind === 'wait';

const exceedsQuota = (verdict: Verdict): boolean =>
  verdict.kind === 'final' &&
  verdict.outcome.status === 'failed' &&
  verdict.outcome.error.code === 'request_exceeds_quota';

/** Total usage of a request; null when the service gave none for any row. */
function usageOf(verdicts: readonly Verdict[]): Tokens | null {
  let sum: Tokens | null = null;
  for (const verdict of verdicts) {
    const usage = completionOf(verdict)?.usage ?? null;
    if (usage !== null) sum = plus(sum ?? NO_TOKENS, usage);
  }
  return sum;
}
