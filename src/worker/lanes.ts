import type { LimitFunction } from 'p-limit';
import type { Logger } from 'pino';
import { steadyNow } from '../core/clock.js';
import type { Problem, Tokens } from '../core/model.js';
import type { QueueDemand } from '../ops/demand.js';
import { NO_TOKENS, plus } from '../pace/budget.js';
import { Gate } from '../pace/gate.js';
import { LateCalls } from '../pace/late-calls.js';
import { Pacer, type PacerParts } from '../pace/pacer.js';
import { Outage } from '../pace/pauses.js';
import { StarvedCalls } from '../pace/starved-calls.js';
import { type Reserved, TokenEstimator } from '../pace/usage.js';
import type { Chunk } from '../queue/chunk.js';
import { ADVICE } from '../service/quirks.js';
import type { NoRoom, Notice, Unsettled, Verdict, Wait } from '../service/verdict.js';
import type { Store } from '../store/store.js';
import { type CallAccess, Caller } from './caller.js';
import { FairLimit } from './fair-limit.js';
import { completionOf } from './row-usage.js';

/** The process, as far as its calls go. */
export interface CallContext extends CallAccess {
  readonly store: Store;
  readonly queueOf: (deployment: string) => string;
  /** Most calls at once before the first are answered. @default `concurrency` */
  readonly untilAnswered?: number;
  /** The limit shared by the lanes of the process. @default only `concurrency`, of each */
  readonly slots?: LimitFunction;
}

interface Ended {
  readonly chunk: Chunk;
  /** Of its first row: tells the call from others. */
  readonly name: string;
  readonly verdicts: readonly Verdict[];
  readonly reserved: Reserved;
  readonly startedAt: number;
}

/** Consecutive responses that could not be split into rows, after which each row is called alone. */
const MIXED_UP = 3;
/** Times that all rows fail alike while a plain call succeeds, after which a run without any answer stops. */
const ALL_ALIKE = 2;

/** After "no room" one more call is tried after so many call durations, within these bounds in ms. */
const ROUNDS = 4;
const SHORTEST_FIRST_MS = 1_000;
const LONGEST_FIRST_MS = 60_000;

/** Why fewer calls are made at once. */
type TooMany = 'starved' | 'late' | 'no_room';

/**
 * Calls one deployment. Learns from each call when the next may be made, how many at once, and how many tokens
 * an answer takes.
 */
export class Lane {
  readonly deployment: string;
  readonly caller: Caller;
  readonly gate: Gate;
  /** One limit over all its calls in the process; runs take turns. */
  readonly limit: FairLimit;
  readonly outage = new Outage();
  readonly pacer: Pacer;
  readonly estimate: TokenEstimator;
  readonly #log: Logger;
  /** Whether any row was answered. */
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
    { queue, deployment, limits, answered }: QueueDemand,
    onPause: PacerParts['onPause'],
  ) {
    const { store, concurrency, untilAnswered = concurrency, log, slots } = context;
    this.deployment = deployment;
    this.#log = log;
    this.#answered = answered;
    this.caller = new Caller(context, answered);
    this.estimate = new TokenEstimator(limits.token_estimate);
    this.limit = new FairLimit(concurrency);
    this.pacer = new Pacer({
      values: store.keyValue,
      queue,
      limits: { requestsPerMinute: limits.requests_per_minute, tokensPerMinute: limits.tokens_per_minute },
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
    this.gate = new Gate(this.pacer, this.outage, slots ?? ((call) => call()));
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

/**
 * The lanes of a worker: its own deployment's first, then those asked last for rows whose answers did not fit.
 */
export class Lanes {
  readonly all: [own: Lane, ...others: Lane[]];

  /** @param onPause when the own lane pauses */
  constructor(
    private readonly context: CallContext,
    private readonly wanted: QueueDemand,
    onPause: PacerParts['onPause'],
  ) {
    this.all = [new Lane(context, wanted, onPause)];
  }

  get own(): Lane {
    return this.all[0];
  }

  to(deployment: string): Lane {
    const known = this.all.find((lane) => lane.deployment === deployment);
    if (known !== undefined) return known;
    const queue = this.context.queueOf(deployment);
    // The quota in the job is that of its own deployment.
    const limits = { ...this.wanted.limits, requests_per_minute: null, tokens_per_minute: null };
    // The entries of its rows are delayed one by one.
    const lane = new Lane(this.context, { queue, deployment, limits, answered: true }, async () => {});
    this.all.push(lane);
    return lane;
  }
}

const isRetry = (verdict: Verdict): verdict is Unsettled => verdict.kind === 'retry';

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
