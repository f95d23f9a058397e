import type { Logger } from 'pino';
import { NO_TOKENS, plus } from '../budget/budget.js';
import { steadyNow } from '../clock.js';
import type { Fault, Tokens } from '../model.js';
import type { Pacer } from '../pace/pacer.js';
import type { Outage } from '../pace/pauses.js';
import { StarvedCalls } from '../pace/starved-calls.js';
import type { Reserved, TokenEstimate } from '../pace/usage.js';
import type { Chunk } from '../queue/chunk.js';
import type { Notice, Unsettled, Verdict, Wait } from '../service/verdict.js';
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

/** What calls teach of the service: that it is down, that it has no quota left, how much of it an answer takes. */
export class Feedback {
  /** Answers to several prompts that could not be taken apart, with none between that could. */
  #mixedUp = 0;
  /** Notices that the log has. */
  readonly #noticed = new Set<Notice>();
  readonly #starved = new StarvedCalls();
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
    return this.#mixedUp >= MIXED_UP ? 1 : Math.ceil(asked / 4 ** (attempt - 1));
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
    const { startedAt, chunk } = call;
    this.#starved.answered(startedAt, steadyNow() - startedAt, chunk.endpoint.timeoutMs);
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

  /**
   * A server that answers some calls fast and leaves others alone gets fewer at once.
   * @returns whether it left this one alone
   */
  #isStarved({ startedAt }: Ended, { fault, unheard }: Unsettled): boolean {
    if (fault.code !== 'timeout' || !unheard || !this.#starved.isStarved(startedAt)) return false;
    const { pacer, log } = this.parts;
    const ms = this.#starved.starved(startedAt, steadyNow());
    if (ms === null || !pacer.starved()) return true;
    const { concurrency } = pacer;
    const answered = ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
    log.warn(
      { concurrency },
      `calls time out while others are answered in ${answered}: at most ${concurrency} at once from now on. ` +
        'Set limits.concurrency to what the server takes at once, or have it take more (llama.cpp: --threads-http, --parallel)',
    );
    return true;
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
    if (fault.code !== 'aborted' && !this.#isStarved(call, failure)) {
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
