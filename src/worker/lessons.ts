import type { Logger } from 'pino';
import { steadyNow } from '../clock.js';
import type { CalledOutcome, Fault } from '../model.js';
import type { Outage } from '../pace/outage.js';
import type { Pacer } from '../pace/pacer.js';
import type { QuotaWait } from '../pace/quota-wait.js';
import type { Reserved, TokenEstimate } from '../pace/token-estimate.js';
import type { Caller } from './caller.js';
import type { RowResult } from './row-result.js';

/** Those who say when calls may be made, and what they are told with. */
export interface LessonParts {
  readonly caller: Caller;
  readonly quota: QuotaWait;
  readonly outage: Outage;
  readonly pacer: Pacer;
  readonly estimate: TokenEstimate;
  readonly log: Logger;
}

/** What calls teach of the service: that it is down, that it has no quota left, how much of it an answer takes. */
export class Lessons {
  constructor(private readonly parts: LessonParts) {}

  /**
   * @param name of the first row of the call, to tell it from others
   * @returns what the outage asks for: a pause in milliseconds that is longer than the one that lasts, or 0; null without one
   */
  ofOutage(name: string, results: readonly RowResult[], startedAt: number): number | null {
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
  async ofPace(results: readonly RowResult[], reserved: Reserved): Promise<void> {
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
  async pause(ms: number): Promise<void> {
    if (ms === 0) return;
    this.parts.log.info({ ms, ...this.parts.outage.view?.fault }, 'the service is down; pausing');
    await this.parts.pacer.pause(ms);
  }

  /**
   * The service refused for lack of quota: every worker of the queue pauses, and no attempt is used up.
   * @returns why the run must stop, when it was refused too often
   */
  async ofRefusal(
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
