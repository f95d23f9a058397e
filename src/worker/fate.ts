import type { CalledOutcome, Failed } from '../core/model.js';
import type { ChunkRow } from '../queue/chunk.js';
import type { Final, NoCapacity, NoRoom, Unsettled, Verdict, Wait } from '../service/verdict.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';
import type { AnswerCheck } from './answer-check.js';

/**
 * What becomes of a row after its call: it has its outcome (`final`; an interim one is asked again), it is called
 * again with the next attempt or alone (`retry`), when calls may be made again (`wait`), beside fewer others
 * (`no_room`), some time later (`no_capacity`), or when somebody takes it from the queue (`left`).
 */
export type Fate = Final | (Unsettled & { readonly kind: 'retry' }) | Wait | NoRoom | NoCapacity | Left;

interface Left {
  readonly kind: 'left';
  readonly possiblyBilled: boolean;
}

export function fateOf(
  verdict: Verdict | undefined,
  row: ChunkRow,
  {
    asking,
    attempt,
    hold,
    elsewhere,
  }: {
    readonly asking: AnswerCheck | null;
    readonly attempt: number;
    readonly hold: boolean;
    /** Whether another endpoint is called for a row that this one refuses. */
    readonly elsewhere: boolean;
  },
): Fate {
  switch (verdict?.kind) {
    case 'final':
      return asking === null ? verdict : asking.judge(row, verdict.outcome);
    case 'wait':
    case 'no_room':
    case 'no_capacity':
      return verdict;
    case 'retry':
      if (verdict.possiblyBilled && hold) return { kind: 'final', outcome: lostRow(verdict, attempt) };
      if (verdict.problem.code !== 'aborted') return { ...verdict, kind: 'retry' };
  }
  if (verdict?.kind === 'stop' && verdict.possiblyBilled && hold && elsewhere)
    return { kind: 'final', outcome: lostRow(verdict, attempt) };
  // The process or the run ends, or the endpoint refuses all calls: no attempt is used, but it may be billed, and is called again.
  return { kind: 'left', possiblyBilled: verdict?.possiblyBilled ?? false };
}

export const failedRow = ({ problem, latency_ms }: Unsettled, attempts: number): Failed => ({
  status: 'failed',
  error: problem,
  attempts,
  latency_ms,
});

/** With `hold`: the answer was lost. */
const lostRow = ({ problem, latency_ms }: Unsettled, attempts: number): CalledOutcome =>
  unknownRow(`${problem.code}: ${problem.message}`, attempts, latency_ms);

/** With `hold`: the call ended with its process, result unknown. */
export const cutOffRow = (): CalledOutcome =>
  unknownRow('its call was cut off when a process ended', 1, null);

const unknownRow = (why: string, attempts: number, latency_ms: number | null): Failed => ({
  status: 'failed',
  error: {
    code: OUTCOME_UNKNOWN,
    message: `${why}; it may have been answered and billed, so it was not called again (limits.unknown_outcome: hold)`,
  },
  attempts,
  latency_ms,
});
