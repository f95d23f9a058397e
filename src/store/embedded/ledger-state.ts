import { added, type Counts, NO_COUNTS } from '../../core/counters.js';
import type { CalledOutcome } from '../../core/model.js';
import {
  type Answer,
  type Batch,
  type Bounds,
  byRun,
  type ChunkKey,
  NO_ANSWER,
  OWN_CALL,
  type Progress,
  type Reservation,
  type RowState,
  type RunBatch,
  type Settlement,
} from '../ledger.js';

export interface OutcomeLocation {
  /** The outcome itself, if this process gave it and need not read it; else null. */
  own: CalledOutcome | null;
  /** Changes when the file is rewritten. */
  offset: number;
  readonly bytes: number;
  /** The outcome is an `outcome_unknown`. */
  readonly isUnknown: boolean;
}

interface Head {
  readonly execution: number;
  readonly committed: number;
  /** End of the lease, in ms since 1970. */
  readonly until: number;
}

/** Times in ms since 1970; calls in the order they were reserved. */
interface Flight {
  readonly since: number;
  readonly calls: readonly string[];
}

export interface RunFacts {
  readonly head: Head | null;
  readonly stop: { readonly code: string; readonly message: string } | null;
  /** The collector has seeded the counters. */
  readonly opened: boolean;
  readonly calls: Counts;
  readonly flight: readonly (readonly [row: number, Flight])[];
  /** Rows without an outcome, and how many processes of the run died while calling them. */
  readonly deaths: readonly (readonly [row: number, number])[];
  /** The process of the run has left the store, so it did not die. */
  readonly left: boolean;
  /** The last change, in ms since 1970. */
  readonly seenAt: number;
}

/** A change of the ledger, as its file keeps it. `at` is in ms since 1970. */
export type Change =
  | ({ readonly do: 'open' } & Opening)
  /** Settlements with an outcome have `true`; the outcomes are the lines before the change. */
  | {
      readonly do: 'write';
      readonly at: number;
      readonly settled: readonly Settlement<true>[];
      readonly counts: readonly (readonly [run: string, Partial<Counts>])[];
      readonly reservations: readonly Reservation[];
      readonly atLeast: readonly (readonly [run: string, Answer['spent']])[];
    }
  | ({ readonly do: 'stop' } & Stopping)
  | ({ readonly do: 'forget' } & Forgetting)
  | { readonly do: 'close'; readonly run: string }
  /** What a rewrite of the file keeps of a run: its outcomes, its interim outcomes, and then the rest. */
  | ({ readonly do: 'keep'; readonly rows: readonly number[] } & ChunkKey)
  | {
      readonly do: 'keep interim';
      readonly run: string;
      readonly rows: readonly number[];
      readonly asks: readonly number[];
    }
  | { readonly do: 'restore'; readonly run: string; readonly facts: RunFacts };

interface Opening {
  readonly at: number;
  readonly run: string;
  readonly execution: number;
  readonly committed: number;
  readonly calls: Counts | null;
  readonly isLostRepeated: boolean;
  readonly leaseMs: number;
}

interface Stopping {
  readonly at: number;
  readonly run: string;
  readonly execution: number;
  readonly reason: { readonly code: string; readonly message: string };
}

interface Forgetting {
  readonly at: number;
  readonly run: string;
  readonly committed: number;
  readonly firsts: readonly number[];
  readonly leaseMs: number;
}

interface Interim {
  readonly asks: number;
  readonly place: OutcomeLocation;
}

interface Run {
  head: Head | null;
  stop: RunFacts['stop'];
  opened: boolean;
  calls: Counts;
  readonly flight: Map<number, Flight>;
  readonly deaths: Map<number, number>;
  left: boolean;
  /** First row → row → outcome. */
  readonly chunks: Map<number, Map<number, OutcomeLocation>>;
  readonly interim: Map<number, Interim>;
  seenAt: number;
}

const NO_RUN: Readonly<Run> = {
  ...{ head: null, stop: null, opened: false, calls: NO_COUNTS, seenAt: 0 },
  ...{ left: false, flight: new Map(), deaths: new Map(), chunks: new Map(), interim: new Map() },
};

/** A pure function of its changes, so that replaying the file restores it. Bounded by the window. */
export class LedgerState {
  readonly #runs = new Map<string, Run>();
  #keptBytes = 0;

  /** Bytes of the kept outcomes in the file. */
  get keptBytes(): number {
    return this.#keptBytes;
  }

  /** @param places of the outcomes that the change brings */
  apply(change: Change, places: readonly OutcomeLocation[]): void {
    switch (change.do) {
      case 'open':
        this.open(change);
        break;
      case 'write': {
        const { settled, counts, reservations, atLeast } = change;
        const batch = { counts: new Map(counts), reservations, atLeast: new Map(atLeast) };
        this.write({ ...batch, settled: settledAt(settled, places) }, change.at);
        break;
      }
      case 'stop':
        this.stop(change);
        break;
      case 'forget':
        this.forget(change);
        break;
      case 'close':
        this.close(change.run);
        break;
      case 'keep': {
        const run = this.#runFor(change.run);
        places.forEach((place, i) => {
          this.#keep(run, change.first, change.rows[i] ?? 0, place);
        });
        break;
      }
      case 'keep interim': {
        const run = this.#runFor(change.run);
        places.forEach((place, i) => {
          this.#keepInterim(run, change.rows[i] ?? 0, { asks: change.asks[i] ?? 0, place });
        });
        break;
      }
      case 'restore': {
        const { flight, deaths, ...facts } = change.facts;
        const run = this.#runFor(change.run);
        Object.assign(run, facts);
        for (const [row, each] of flight) run.flight.set(row, each);
        for (const [row, each] of deaths) run.deaths.set(row, each);
      }
    }
  }

  open({ at, run: name, execution, committed, calls, isLostRepeated, leaseMs }: Opening): boolean {
    const known = this.#runs.get(name);
    const before = known?.head ?? null;
    if (before !== null && before.execution > execution) return false;
    if (calls === null && known?.opened !== true) return false;
    const run = this.#runFor(name);
    if (before !== null && before.execution < execution) {
      run.stop = null;
      if (isLostRepeated) countLost(run);
    }
    const mark = Math.max(before?.committed ?? 0, committed);
    for (const [first, chunk] of run.chunks) {
      for (const row of chunk.keys()) if (row <= mark) this.#drop(run, first, row);
    }
    this.#dropInterim(run, mark);
    run.left = false;
    run.head = { execution, committed: mark, until: at + leaseMs };
    if (!run.opened) run.calls = added(run.calls, calls ?? NO_COUNTS);
    run.opened = true;
    run.seenAt = at;
    return true;
  }

  write(batch: Batch<OutcomeLocation>, at: number): readonly Answer[] {
    const answers = new Map<Reservation, Answer>();
    for (const part of byRun(batch)) {
      const run = part.changes ? this.#runFor(part.run) : this.#runs.get(part.run);
      if (run === undefined) continue;
      if (part.changes) {
        run.seenAt = at;
        this.#settle(run, part);
      }
      reserve(run, part, at, answers);
    }
    return batch.reservations.map((each) => answers.get(each) ?? unwanted(each));
  }

  stop({ at, run: name, execution, reason }: Stopping): void {
    const run = this.#runFor(name);
    run.seenAt = at;
    if (run.head === null || run.head.execution <= execution) run.stop ??= reason;
  }

  forget({ at, run: name, committed, firsts, leaseMs }: Forgetting): void {
    const run = this.#runs.get(name);
    if (run === undefined) return;
    run.seenAt = at;
    for (const first of firsts) {
      for (const row of run.chunks.get(first)?.keys() ?? []) this.#drop(run, first, row);
    }
    if (run.head === null) return;
    const mark = Math.max(run.head.committed, committed);
    this.#dropInterim(run, mark);
    run.head = { ...run.head, committed: mark, until: at + leaseMs };
  }

  close(name: string): void {
    const run = this.#runs.get(name);
    if (run === undefined) return;
    for (const [first, chunk] of run.chunks) {
      for (const row of chunk.keys()) this.#drop(run, first, row);
    }
    this.#dropInterim(run, Number.POSITIVE_INFINITY);
    this.#runs.delete(name);
  }

  progress(name: string, firsts: readonly number[]): Progress {
    const run = this.#runs.get(name) ?? NO_RUN;
    return {
      counts: firsts.map((first) => run.chunks.get(first)?.size ?? 0),
      calls: { ...run.calls, in_flight: run.flight.size },
      opened: run.opened,
      stop: run.stop,
    };
  }

  factsOf(name: string): RunFacts {
    const { head, stop, opened, calls, left, seenAt, flight, deaths } = this.#runs.get(name) ?? NO_RUN;
    return { head, stop, opened, calls, left, seenAt, flight: [...flight], deaths: [...deaths] };
  }

  /** The process leaves the store in order; calls that it could not wait for did not kill it. */
  leave(): void {
    for (const run of this.#runs.values()) run.left = true;
  }

  get runs(): readonly string[] {
    return [...this.#runs.keys()];
  }

  chunksOf(name: string): ReadonlyMap<number, ReadonlyMap<number, OutcomeLocation>> {
    return this.#runs.get(name)?.chunks ?? new Map();
  }

  interimOf(name: string): ReadonlyMap<number, Interim> {
    return this.#runs.get(name)?.interim ?? NO_RUN.interim;
  }

  #runFor(name: string): Run {
    let run = this.#runs.get(name);
    if (run === undefined) {
      run = { ...NO_RUN, flight: new Map(), deaths: new Map(), chunks: new Map(), interim: new Map() };
      this.#runs.set(name, run);
    }
    return run;
  }

  #keep(run: Run, first: number, row: number, place: OutcomeLocation): void {
    this.#drop(run, first, row);
    const chunk = run.chunks.get(first) ?? new Map();
    run.chunks.set(first, chunk.set(row, place));
    this.#keptBytes += place.bytes;
  }

  #drop(run: Run, first: number, row: number): void {
    const chunk = run.chunks.get(first);
    this.#keptBytes -= chunk?.get(row)?.bytes ?? 0;
    chunk?.delete(row);
    if (chunk?.size === 0) run.chunks.delete(first);
  }

  #keepInterim(run: Run, row: number, interim: Interim): void {
    this.#keptBytes += interim.place.bytes - (run.interim.get(row)?.place.bytes ?? 0);
    run.interim.set(row, interim);
  }

  /** Drops interim outcomes and deaths of rows up to `to`. */
  #dropInterim(run: Run, to: number): void {
    for (const row of run.interim.keys()) if (row <= to) this.#dropInterimOf(run, row);
    for (const row of run.deaths.keys()) if (row <= to) run.deaths.delete(row);
  }

  #dropInterimOf(run: Run, row: number): void {
    this.#keptBytes -= run.interim.get(row)?.place.bytes ?? 0;
    run.interim.delete(row);
  }

  #settle(run: Run, { settled, counts }: RunBatch<OutcomeLocation>): void {
    const committed = run.head?.committed ?? 0;
    const ended = new Set<string>();
    for (const { row, call } of settled) {
      const flight = run.flight.get(row);
      if (call === null || flight === undefined || !flight.calls.includes(call)) continue;
      ended.add(`${row} ${call}`);
      const calls = flight.calls.filter((other) => other !== call);
      if (calls.length === 0) run.flight.delete(row);
      else run.flight.set(row, { ...flight, calls });
    }
    let repeated = 0;
    for (const { first, row, call, outcome, interim: asks = 0 } of settled) {
      if (outcome === null) continue;
      const before = run.chunks.get(first)?.get(row);
      const hasEnded =
        row <= committed || (before !== undefined && !(before.isUnknown && !outcome.isUnknown));
      const isInterim = asks > 0 && before === undefined;
      if (hasEnded || (isInterim && asks <= (run.interim.get(row)?.asks ?? 0))) {
        if (call === null || ended.has(`${row} ${call}`)) repeated++;
      } else if (isInterim) {
        this.#keepInterim(run, row, { asks, place: outcome });
      } else {
        this.#keep(run, first, row, outcome);
        if (!outcome.isUnknown) repeated += run.flight.get(row)?.calls.length ?? 0;
        run.flight.delete(row);
        run.deaths.delete(row);
        this.#dropInterimOf(run, row);
      }
    }
    run.calls = added(run.calls, { ...counts, repeated: counts.repeated + repeated });
  }
}

/** @param places one per settlement with an outcome, in order */
export function settledAt(
  settled: readonly Settlement<unknown>[],
  places: readonly OutcomeLocation[],
): Settlement<OutcomeLocation>[] {
  let next = 0;
  return settled.map((each) => withOutcome(each, each.outcome === null ? null : (places[next++] ?? null)));
}

/** A settlement with another outcome. Copied field by field: a spread takes ten times as long. */
export const withOutcome = <Kept>(
  { run, first, row, call, interim }: Settlement<unknown>,
  outcome: Kept | null,
): Settlement<Kept> =>
  interim === undefined ? { run, first, row, call, outcome } : { run, first, row, call, outcome, interim };

/** Calls of the previous process will not be heard of. One of them may have killed it (fault 44). */
function countLost(run: Run): void {
  let lost = 0;
  for (const [row, { calls }] of run.flight) {
    if (calls.length !== 1 || !calls[0]?.startsWith(OWN_CALL)) continue;
    run.flight.delete(row);
    if (!run.left) run.deaths.set(row, (run.deaths.get(row) ?? 0) + 1);
    lost++;
  }
  run.calls = { ...run.calls, repeated: run.calls.repeated + lost };
}

function reserve(
  run: Run,
  { reservations, atLeast, changes }: RunBatch<OutcomeLocation>,
  at: number,
  answers: Map<Reservation, Answer>,
): void {
  const isOpen = run.head !== null && run.head.until > at;
  const committed = run.head?.committed ?? 0;
  const reserved = { sent: 0, prompt_tokens: 0, completion_tokens: 0 };
  const spent = {
    prompt_tokens: Math.max(run.calls.prompt_tokens, atLeast.prompt_tokens),
    completion_tokens: Math.max(run.calls.completion_tokens, atLeast.completion_tokens),
  };
  const states = new Map<Reservation, RowState[]>();
  for (const reservation of reservations) {
    const { first, execution, call, hold, rows, bounds, looks } = reservation;
    const isWanted = isOpen && run.head?.execution === execution;
    const chunk = run.chunks.get(first);
    const free: number[] = [];
    let prompt = 0;
    let completion = 0;
    const found = rows.map(({ row, most }, i): RowState => {
      if (!isWanted || row <= committed) return 'unwanted';
      if (chunk?.has(row)) return 'known';
      const { calls = [], since = at } = run.flight.get(row) ?? {};
      if (calls.includes(call)) return 'granted';
      const [holder] = calls;
      if (hold && holder !== undefined) return { call: holder, ageMs: at - since };
      free.push(i);
      prompt += most.prompt_tokens;
      completion += most.completion_tokens;
      return 'granted';
    });
    states.set(reservation, found);
    if (looks || free.length === 0) continue;
    const after = {
      prompt_tokens: spent.prompt_tokens + prompt,
      completion_tokens: spent.completion_tokens + completion,
    };
    if (bounds !== null && !fits(after, bounds)) {
      for (const i of free) found[i] = 'no_room';
      continue;
    }
    if (bounds !== null) Object.assign(spent, after);
    reserved.sent++;
    reserved.prompt_tokens += prompt;
    reserved.completion_tokens += completion;
    for (const i of free) {
      const row = rows[i]?.row ?? 0;
      run.flight.set(row, { since: at, calls: [...(run.flight.get(row)?.calls ?? []), call] });
    }
  }
  if (changes) run.calls = added(run.calls, { ...NO_COUNTS, ...reserved });
  const inFlight = run.flight.size;
  for (const [reservation, rows] of states) answers.set(reservation, { ...NO_ANSWER, rows, spent, inFlight });
}

const fits = (
  { prompt_tokens, completion_tokens }: Answer['spent'],
  { tokens, cost, promptPrice, completionPrice }: Bounds,
): boolean =>
  prompt_tokens + completion_tokens <= tokens &&
  prompt_tokens * promptPrice + completion_tokens * completionPrice <= cost;

const unwanted = ({ rows }: Reservation): Answer => ({ ...NO_ANSWER, rows: rows.map(() => 'unwanted') });
