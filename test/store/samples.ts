import type { Counts } from '../../src/core/counters.js';
import type { Completed, Tokens } from '../../src/core/model.js';
import {
  type Answer,
  type Ledger,
  NOTHING,
  type Reservation,
  type RowState,
  type Settlement,
} from '../../src/store/ledger.js';

export { NO_CALLS } from '../../src/core/counters.js';

/** A completed row with this text. */
export function outcome(text: string): Completed {
  return {
    status: 'completed',
    completion: {
      text,
      finish_reason: 'stop',
      usage: null,
      model: 'm',
      id: 'cmpl-1',
      created: 1_700_000_000,
    },
    filters: { prompt: { hate: { filtered: false, severity: 'safe' } }, completion: null },
    attempts: 1,
    latency_ms: 12.5,
  };
}

/** An outcome of a row that comes of no call in flight. */
export const entry = (run: string, first: number, row: number, text = `text of ${row}`): Settlement => ({
  run,
  first,
  row,
  call: null,
  outcome: outcome(text),
});

export async function record(
  ledger: Ledger,
  settled: readonly Settlement[],
  counts: ReadonlyMap<string, Partial<Counts>> = new Map(),
): Promise<void> {
  await ledger.write({ ...NOTHING, settled, counts });
}

export const reserve = (
  ledger: Ledger,
  ...reservations: readonly Reservation[]
): Promise<readonly Answer[]> => ledger.write({ ...NOTHING, reservations });

export const tokens = (prompt_tokens: number, completion_tokens = 0): Tokens => ({
  prompt_tokens,
  completion_tokens,
});

/** What a worker learns of rows before it calls any. */
export async function look(
  ledger: Ledger,
  run: string,
  first: number,
  execution: number,
  rows: readonly number[] = [first],
): Promise<readonly RowState[]> {
  const [answer] = await reserve(ledger, {
    ...{ run, first, execution, call: 'of one who looks', hold: true, bounds: null, looks: true },
    rows: rows.map((row) => ({ row, most: tokens(0) })),
  });
  return answer?.rows ?? [];
}

/** Whether anybody would take the outcome of a row. */
export async function isWanted(
  ledger: Ledger,
  run: string,
  first: number,
  execution: number,
): Promise<boolean> {
  const [state] = await look(ledger, run, first, execution);
  return state !== 'unwanted';
}
