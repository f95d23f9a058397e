import type { Logger } from 'pino';
import { NO_TOKENS, plus } from '../budget/budget.js';
import { steadyNow } from '../clock.js';
import type { Fault, Tokens } from '../model.js';
import { LateCalls } from '../pace/late-calls.js';
import type { Pacer } from '../pace/pacer.js';
import type { Outage } from '../pace/pauses.js';
import { StarvedCalls } from '../pace/starved-calls.js';
import type { Reserved, TokenEstimate } from '../pace/usage.js';
import type { Chunk } from '../queue/chunk.js';
import type { NoRoom, Notice, Unsettled, Verdict, Wait } from '../service/verdict.js';
import type { Caller } from './caller.js';
import { completionOf } from './row-usage.js';

/** Those who say when calls may be made, and what they are told with. */
export interface FeedbackParts {
  readonly caller: Caller;
  readonly outage: Outage;
  readonly pacer: Pacer;
  readonly estimate: TokenEstimate;
  readonly log: Logger;
}

/** One call that has ended. */
interface Ended {
  readonly chunk: Chunk;
  /** Of its first row, to tell it from others. */
  readonly name: string;
  readonly verdicts: readonly Verdict[];
  readonly reserved: Reserved;
  readonly startedAt: number;
}

/** Answers to several prompts in a row that nobody could take apart, after which every row is called alone. */
const MIXED_UP = 3;
/** Times that all rows fail alike while a plain call is answered, before any row was, after which the run stops. */
const ALL_ALIKE = 2;

const NOTICES: { readonly [notice in Notice]: string } = {
  short_usage:
    'the service counts far fewer tokens than the prompts or the choices of a request have, as if it counted the first alone: ' +
    'such requests are counted here, and marked estimated (limits.prompts_per_request: 1 avoids it, without answer.votes)',
  prompt_cut:
    'the service has read far fewer tokens than a prompt has: it cuts prompts that are too long for it, and answers all the same; ' +
    'those rows are marked prompt_cut. Give it a larger context (llama.cpp: --ctx-size, which its slots share)',
};

/** One more than the server had room for is tried after the time of so many calls, and within these bounds in milliseconds. */
const ROUNDS = 4;
const SHORTEST_FIRST_MS = 1_000;
const LONGEST_FIRST_MS = 60_000;

/** Why fewer calls are made at once, and what helps. */
const TOO_MANY = {
  starved:
    'Set limits.concurrency to what the server takes at once, or have it take more (llama.cpp: --threads-http, --parallel)',
  late: 'Set limits.concurrency to what the server takes at once, have it take more (llama.cpp: --parallel), or raise limits.timeout_seconds',
  no_room:
    'No attempt is used up by it. Give the server a larger context (llama.cpp: --ctx-size, which its slots share), or lower limits.concurrency',
};

/** What calls teach of the service: that it is down, that it has no quota left, how much of it an answer takes. */
export class Feedback {
  /** Answers to several prompts that could not be taken apart, with none between that could. */
  #mixedUp = 0;
  /** Notices that the log has. */
  readonly #noticed = new Set<Notice>();
  readonly #starved = new StarvedCalls();
  readonly #late = new LateCalls();
  /** Why fewer calls are made at once, as far as it was said. */
  readonly #told = new Set<keyof typeof TOO_MANY>();
  /** Most prompts that the server has room for in a request, as far as this process knows. */
  #mostInPack = Number.POSITIVE_INFINITY;
  /** The run whose rows all failed alike last while a plain call was answered, and how often they did. */
  #alike = { run: '', times: 0 };

  constructor(
    private readonly parts: FeedbackParts,
    /** Whether a row was answered before. */
    private answered: boolean,
  ) {}

  /**
   * Rows that may share a request.
   * @param asked by the job
   */
  packSize(asked: number, attempt: number): number {
    // A row that the service cannot take would have its neighbours fail with it: at each attempt it has fewer.
    if (this.#mixedUp >= MIXED_UP) return 1;
    return Math.min(this.#mostInPack, Math.ceil(asked / 4 ** (attempt - 1)));
  }

  /**
   * Learns from a call. This process knows at once: later it would undo what calls that were made after this one have
   * taught.
   * @returns why the run must stop, or null; a promise of it where other workers have to be told of a pause, or a plain call
   *   tells whether the service is down
   */
  learn(call: Ended): Fault | null | Promise<Fault | null> {
    const { caller, outage, pacer, estimate } = this.parts;
    const { verdicts, reserved } = call;
    this.#ofPack(verdicts);
    this.#notice(verdicts);
    const failure = verdicts.find(isRetry);
    // An answer that nobody can take apart is an answer.
    if (failure && verdicts.every((verdict) => isRetry(verdict) && !verdict.alone))
      return this.#failed(call, failure);
    const refusal = verdicts.find(isWait);
    // Neither says that the service is there: a call that was given up, and a gateway that refuses for lack of quota.
    if (failure?.fault.code !== 'aborted' && refusal !== verdicts[0]) outage.answered();
    if (refusal) return this.#refused(call, refusal);
    const full = verdicts.find(isNoRoom);
    if (full) {
      this.#noRoom(call, full);
      return null;
    }
    this.#answeredIn(call);
    this.answered ||= verdicts.some(({ kind }) => kind === 'final');
    const usage = usageOf(verdicts);
    // Larger than the whole quota: it was not admitted, and the others need not wait for its tokens.
    const beyond = verdicts.every(exceedsQuota)
      ? -reserved.tokens
      : usage && estimate.settle(reserved, usage);
    pacer.answered(beyond ?? 0, caller.advertised);
    return null;
  }

  #notice(verdicts: readonly Verdict[]): void {
    for (const verdict of verdicts) {
      if (verdict.kind !== 'final' || verdict.notice === undefined || this.#noticed.has(verdict.notice))
        continue;
      this.#noticed.add(verdict.notice);
      this.parts.log.warn(NOTICES[verdict.notice]);
    }
  }

  /** A server that mixes all its answers up has each paid for twice: from the third on, rows are called alone. */
  #ofPack(verdicts: readonly Verdict[]): void {
    if (verdicts.length === 1) return;
    if (verdicts.some(({ kind }) => kind === 'final')) this.#mixedUp = 0;
    if (!verdicts.some((verdict) => isRetry(verdict) && verdict.alone)) return;
    this.#mixedUp++;
    if (this.#mixedUp !== MIXED_UP) return;
    this.parts.log.warn(
      'answers to several prompts in one request have choices with wrong indexes; rows are called one by one from now on',
    );
  }

  #answeredIn({ startedAt, chunk }: Ended): void {
    const { timeoutMs } = chunk.endpoint;
    const now = steadyNow();
    this.#starved.answered(startedAt, now - startedAt, timeoutMs);
    if (this.#late.answered(startedAt, timeoutMs, now)) this.parts.pacer.late();
  }

  /**
   * Calls that time out while others are answered are too many at once.
   * @returns whether this one is such a call
   */
  #isTooMany(call: Ended, { fault, unheard }: Unsettled): boolean {
    if (fault.code !== 'timeout') return false;
    return (unheard === true && this.#isStarved(call)) || this.#isLate(call);
  }

  /** A server that answers some calls fast and leaves others alone. */
  #isStarved({ startedAt }: Ended): boolean {
    if (!this.#starved.isStarved(startedAt)) return false;
    const ms = this.#starved.starved(startedAt, steadyNow());
    if (ms !== null) {
      const half = Math.max(1, Math.floor(this.parts.pacer.concurrency / 2));
      this.#lower('starved', half, startedAt, `calls time out while others are answered in ${inTime(ms)}`);
    }
    return true;
  }

  /** A server that calls wait in a line for, until their time is over. */
  #isLate({ startedAt, chunk }: Ended): boolean {
    const { pacer, log } = this.parts;
    const { timeoutMs } = chunk.endpoint;
    const late = this.#late.timedOut(startedAt, timeoutMs, pacer.atOnce, pacer.pausedUntil, steadyNow());
    if (late === 'odd') return false;
    if (late === 'known') return true;
    if (late.kind === 'too many') {
      const why = `calls time out while others are answered only after ${inTime(late.answeredMs)}`;
      this.#lower('late', late.most, startedAt, why);
    } else {
      pacer.raise(late.back);
      log.warn(
        { concurrency: late.back },
        'calls time out, and making fewer at once did not help: they take so long by themselves. Raise limits.timeout_seconds',
      );
    }
    return true;
  }

  /** The calls at once outgrow what the server has room for. */
  #noRoom({ startedAt, verdicts }: Ended, { fault }: NoRoom): void {
    const { pacer } = this.parts;
    if (verdicts.length > 1) this.#mostInPack = Math.min(this.#mostInPack, Math.ceil(verdicts.length / 2));
    const half = Math.max(1, Math.floor(pacer.atOnce / 2));
    const why = `the server has no room for the calls at once: ${fault.message}`;
    // One long prompt may be the cause, and to be refused costs no attempt: more may be tried soon.
    const rounds = ROUNDS * (steadyNow() - startedAt);
    const firstMs = Math.min(LONGEST_FIRST_MS, Math.max(SHORTEST_FIRST_MS, rounds));
    this.#lower('no_room', half, startedAt, why, firstMs);
  }

  #lower(cause: keyof typeof TOO_MANY, most: number, startedAt: number, why: string, firstMs?: number): void {
    const { pacer, log } = this.parts;
    if (!pacer.lower(most, startedAt, firstMs)) return;
    const { concurrency } = pacer;
    const level = this.#told.has(cause) ? 'info' : 'warn';
    this.#told.add(cause);
    log[level](
      { concurrency },
      `${why}; at most ${concurrency} at once for now; more are tried later, one by one. ${TOO_MANY[cause]}`,
    );
  }

  /** When nothing succeeds, every worker of the queue pauses, and no attempt is used up. */
  async #failed(call: Ended, failure: Unsettled): Promise<Fault | null> {
    const { outage, pacer, log } = this.parts;
    const { fault, notReady, mayBeRequest = false } = failure;
    // A server that loads its model is as good as not there: that is never the fault of a row.
    const connected = failure.connected && !notReady;
    const held = pacer.failed(connected);
    let stop: Fault | null = null;
    // A server that answers others is not down.
    if (fault.code !== 'aborted' && !this.#isTooMany(call, failure)) {
      const now = steadyNow();
      const before = outage.remaining(now);
      const { name, startedAt } = call;
      const failed = { rows: [name], fault, connected, mayBeRequest, startedAt };
      let ms = outage.failed(failed, now, Math.random());
      if (ms === 'doubt') {
        let passed = false;
        try {
          passed = await this.#passes(call);
        } finally {
          ms = outage.decided(passed, steadyNow(), Math.random());
        }
        if (passed) stop = this.#ofTheRows(call, fault);
      }
      if (ms !== null && ms > before) {
        log.info({ ms, ...fault }, 'the service is down; pausing');
        await pacer.pause(ms);
      }
    }
    await held;
    await outage.certain;
    return stop;
  }

  /** Whether the service answers a plain call. */
  async #passes({ chunk }: Ended): Promise<boolean> {
    const { caller, pacer } = this.parts;
    const admission = await pacer.admit(1);
    return typeof admission === 'object' && (await caller.answersPlain(chunk));
  }

  /**
   * All rows fail alike, and a plain call is answered: what they ask for is the cause. Where no row was ever answered, all
   * the others would fail as well.
   */
  #ofTheRows({ chunk: { run } }: Ended, { message }: Fault): Fault | null {
    const times = this.#alike.run === run ? this.#alike.times + 1 : 1;
    this.#alike = { run, times };
    const said =
      'the service fails every row alike and answers a plain request: the requests of the rows are the cause';
    this.parts.log[times === 1 ? 'warn' : 'info']({ run, message }, said);
    if (this.answered || times < ALL_ALIKE) return null;
    return {
      code: 'not_supported',
      message:
        `the service says of every row's request: ${message}, and answers a plain one. ` +
        'Look for what it does not support in parameters, row_parameters and prompt.',
    };
  }

  /** For lack of quota: every worker of the queue pauses, and no attempt is used up; too often, and the run stops. */
  async #refused({ startedAt, reserved }: Ended, { ms: hint, fault }: Wait): Promise<Fault | null> {
    const { pacer, log } = this.parts;
    const before = pacer.waitingMs;
    const goesOn = pacer.refused(hint, startedAt, reserved.tokens);
    const ms = pacer.waitingMs;
    if (ms > before) log.info({ ms, ...fault }, 'the service asked to wait');
    return (await goesOn) ? null : fault;
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

/** What the rows of a request took together; null when the service did not say of any. */
function usageOf(verdicts: readonly Verdict[]): Tokens | null {
  let sum: Tokens | null = null;
  for (const verdict of verdicts) {
    const usage = completionOf(verdict)?.usage ?? null;
    if (usage !== null) sum = plus(sum ?? NO_TOKENS, usage);
  }
  return sum;
}
