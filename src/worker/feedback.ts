import type { Logger } from 'pino';
import { steadyNow } from '../clock.js';
import type { CalledOutcome, Fault } from '../model.js';
import type { Pacer } from '../pace/pacer.js';
import type { Outage, QuotaWait } from '../pace/pauses.js';
import type { Reserved, TokenEstimate } from '../pace/usage.js';
import type { Caller } from './caller.js';
import type { RowResult } from './row-result.js';

/** Those who say when calls may be made, and what they are told with. */
interface FeedbackParts {
  readonly caller: Caller;
  readonly quota: QuotaWait;
  readonly outage: Outage;
  readonly pacer: Pacer;
  readonly estimate: TokenEstimate;
  readonly log: Logger;
}

/** One call that has ended. */
interface Ended {
  /** Of its first row, to tell it from others. */
  readonly name: string;
  readonly results: readonly RowResult[];
  readonly reserved: Reserved;
  readonly startedAt: number;
}

/** Answers to several prompts in a row that nobody could take apart, after which every row is called alone. */
const MIXED_UP = 3;

/** What calls teach of the service: that it is down, that it has no quota left, how much of it an answer takes. */
export class Feedback {
  /** Answers to several prompts that could not be taken apart, with none between that could. */
  #mixedUp = 0;

  constructor(private readonly parts: FeedbackParts) {}

  /**
   * Rows that may share a request.
   * @param asked by the job
   */
  packSize(asked: number, attempt: number): number {
    // A row that the service cannot take would have its neighbours fail with it: at each attempt it has fewer.
    return this.#mixedUp >= MIXED_UP ? 1 : Math.ceil(asked / 4 ** (attempt - 1));
  }

  /**
   * Learns from a call.
   * @returns whether it failed in an outage, and what is to be told to the other workers: it resolves to the reason for
   *   which the run must stop, or null
   */
  learn(call: Ended): { readonly down: boolean; readonly tell: () => Promise<Fault | null> } {
    const { results, startedAt, reserved } = call;
    const pause = this.#ofOutage(call);
    const paced = this.#ofPace(results, reserved);
    this.#ofPack(results);
    const refusal = results.find((result) => result.kind === 'wait');
    // At once: later it would undo what calls that were made after this one have learned.
    if (!refusal && results.some((result) => result.kind !== 'retry' || result.connected))
      this.parts.quota.admitted();
    const tell = async (): Promise<Fault | null> => {
      if (pause !== null) await this.#pause(pause);
      await paced;
      return refusal?.kind === 'wait' ? await this.#ofRefusal(refusal, startedAt, reserved.tokens) : null;
    };
    return { down: pause !== null, tell };
  }

  /** A server that mixes all its answers up has each paid for twice: from the third on, rows are called alone. */
  #ofPack(results: readonly RowResult[]): void {
    if (results.length === 1) return;
    if (results.some(({ kind }) => kind === 'settled')) this.#mixedUp = 0;
    if (!results.some((result) => result.kind === 'retry' && result.alone)) return;
    this.#mixedUp++;
    if (this.#mixedUp !== MIXED_UP) return;
    this.parts.log.warn(
      'answers to several prompts in one request have choices with wrong indexes; rows are called one by one from now on',
    );
  }

  /**
   * @returns what the outage asks for: a pause in milliseconds that is longer than the one that lasts, or 0; null without one
   */
  #ofOutage({ name, results, startedAt }: Ended): number | null {
    const { outage } = this.parts;
    const first = results.find((result) => result.kind === 'retry');
    // Neither says that the service is there: a call that was given up, and a gateway that refuses for lack of quota.
    if (first?.kind === 'retry' ? first.fault.code === 'aborted' : results[0]?.kind === 'wait') return null;
    // An answer that nobody can take apart is an answer.
    if (first?.kind !== 'retry' || first.alone || results.some((result) => result.kind !== 'retry')) {
      outage.answered();
      return null;
    }
    const now = steadyNow();
    const before = outage.remaining(now);
    const { fault, connected } = first;
    const ms = outage.failed({ rows: [name], fault, connected, startedAt }, now, Math.random());
    if (ms === null) return null;
    return ms > before ? ms : 0;
  }

  /** Tells the pacer what came of a request; a refusal it hears of with its pause. */
  async #ofPace(results: readonly RowResult[], reserved: Reserved): Promise<void> {
    const { caller, pacer, estimate } = this.parts;
    if (results.some((result) => result.kind === 'wait')) return;
    if (results.every((result) => result.kind === 'retry' && !result.alone)) return pacer.failed();
    const usage = sumOfUsage(results);
    // Larger than the whole quota: it was not admitted, and the others need not wait for its tokens.
    const never = results.every(
      (result) => result.kind === 'settled' && codeOf(result.outcome) === 'request_exceeds_quota',
    );
    const beyond = usage === null ? 0 : estimate.settle(reserved, usage);
    pacer.answered(never ? -reserved.tokens : beyond, caller.advertised);
  }

  /** Nothing succeeds: every worker of the queue pauses, and no attempt is used up. */
  async #pause(ms: number): Promise<void> {
    if (ms === 0) return;
    this.parts.log.info({ ms, ...this.parts.outage.view?.fault }, 'the service is down; pausing');
    await this.parts.pacer.pause(ms);
  }

  /**
   * The service refused for lack of quota: every worker of the queue pauses, and no attempt is used up.
   * @returns why the run must stop, when it was refused too often
   */
  async #ofRefusal(
    { ms, fault }: RowResult & { kind: 'wait' },
    startedAt: number,
    tokens: number,
  ): Promise<Fault | null> {
    const { quota, pacer, log } = this.parts;
    const before = quota.remaining(steadyNow());
    const verdict = quota.refused(ms, startedAt, steadyNow());
    if (verdict.kind === 'give-up') return fault;
    if (verdict.ms > before) log.info({ ms: verdict.ms, ...fault }, 'the service asked to wait');
    await pacer.refused(startedAt, verdict.ms, tokens);
    return null;
  }
}

const codeOf = (outcome: CalledOutcome): string | null =>
  outcome.status === 'failed' ? outcome.error.code : null;

/** What the rows of a request took together; null when the service did not say of any. */
function sumOfUsage(
  results: readonly RowResult[],
): { prompt_tokens: number; completion_tokens: number } | null {
  const usages = results.flatMap((result) => {
    const outcome = result.kind === 'settled' ? result.outcome : null;
    return (outcome !== null && 'completion' in outcome && outcome.completion?.usage) || [];
  });
  if (usages.length === 0) return null;
  return {
    prompt_tokens: usages.reduce((sum, usage) => sum + usage.prompt_tokens, 0),
    completion_tokens: usages.reduce((sum, usage) => sum + usage.completion_tokens, 0),
  };
}
