import type { CalledOutcome, Tokens } from '../model.js';
import { type Counts, NO_COUNTS } from './counters.js';
import type { Answer, Batch, Reservation, RowState, Settlement } from './ledger.js';

export interface RunBatch<Kept = CalledOutcome> {
  readonly run: string;
  readonly settled: readonly Settlement<Kept>[];
  readonly counts: Counts;
  readonly reservations: readonly Reservation[];
  readonly atLeast: Tokens;
  /** False when it only looks. */
  readonly changes: boolean;
}

const NO_TOKENS: Tokens = { prompt_tokens: 0, completion_tokens: 0 };

/** Sorted by run, chunk and row: workers that write the same rows at once take their locks in one order. */
export function byRun<Kept>({
  settled,
  counts,
  reservations,
  atLeast,
}: Batch<Kept>): readonly RunBatch<Kept>[] {
  const named = [...settled, ...reservations].map(({ run }) => run);
  const runs = [...new Set([...counts.keys(), ...named])].sort();
  return runs.map((run) => {
    const ofRun = settled.filter((each) => each.run === run);
    const asked = reservations.filter((each) => each.run === run);
    return {
      run,
      settled: ofRun.sort((a, b) => a.first - b.first || a.row - b.row),
      counts: { ...NO_COUNTS, ...counts.get(run) },
      reservations: asked,
      atLeast: atLeast.get(run) ?? NO_TOKENS,
      changes: ofRun.length > 0 || counts.has(run) || asked.some(({ looks }) => !looks),
    };
  });
}

/** The name and age of the call that holds the row; when looking, `call` may be an interim outcome's JSON. */
export type RowReply = readonly [state: string, call?: unknown, ageMs?: unknown];

const STATES: ReadonlySet<string> = new Set<RowState & string>(['granted', 'known', 'unwanted', 'no_room']);
const isState = (text: string): text is RowState & string => STATES.has(text);

const NO_INTERIM: Answer['interim'] = new Map();

/** @param replies one per row of the reservation, in order */
export function answerOf(
  { rows: asked, looks }: Pick<Reservation, 'rows' | 'looks'>,
  replies: readonly RowReply[],
  spent: Tokens,
  inFlight: number,
): Answer {
  const rows = replies.map(
    ([state, call, ageMs]): RowState =>
      isState(state) ? state : { call: String(call), ageMs: Number(ageMs) },
  );
  if (!looks) return { rows, spent, inFlight, interim: NO_INTERIM };
  const interim = new Map(
    asked.flatMap(({ row }, i) => {
      const [state, json] = replies[i] ?? [];
      return state === 'granted' && typeof json === 'string' ? [[row, JSON.parse(json)]] : [];
    }),
  );
  return { rows, spent, inFlight, interim };
}

export const NO_ANSWER: Answer = { rows: [], spent: NO_TOKENS, inFlight: 0, interim: NO_INTERIM };
