import { createHash, randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { added, type Counts, NO_COUNTS, namesIn } from '../../core/counters.js';
import { errorText, UsageError } from '../../core/errors.js';
import type { CalledOutcome, Tokens } from '../../core/model.js';
import {
  type Answer,
  type Batch,
  byRun,
  type ChunkKey,
  LEDGER_TIMES,
  type Ledger,
  type LedgerTimes,
  NO_ANSWER,
  NO_DEATHS,
  type Progress,
  type Reservation,
  type RowState,
  type RunBatch,
  SettledRows,
} from '../ledger.js';
import { OutcomeCache } from '../outcome-cache.js';
import { CLOSE, FORGET, OPEN, OTHER_VERSION, PROGRESS, STOP, WAITING, WRITE } from './scripts.js';

type Argument = string | number;
type Lasting = <T>(attempt: () => Promise<T>) => Promise<T>;

/** The name and age of the call that holds the row; when looking, `call` may be an interim outcome's JSON. */
type RowReply = readonly [state: string, call?: unknown, ageMs?: unknown];

type Written = readonly [
  totals: readonly number[],
  states: readonly (readonly RowReply[])[],
  /** 1 when the ledger holds every outcome as given. */
  isKept: number,
];

type Progressed = readonly [
  seeded: number,
  /** Names and values, one after the other. */
  calls: readonly string[],
  stop: string | null,
  inFlight: number,
  counts: readonly number[],
];

/** The ledger on Redis and Valkey. {@link file://./scripts.ts} describes its keys. */
export class RedisLedger implements Ledger {
  readonly isShared = true;
  readonly settled = new SettledRows();
  readonly #cache = new OutcomeCache();

  constructor(
    private readonly client: Redis,
    private readonly times: LedgerTimes = LEDGER_TIMES,
    private readonly lasting: Lasting = (attempt) => attempt(),
  ) {}

  async open(
    run: string,
    execution: number,
    committed: number,
    calls: Counts | null,
    isLostRepeated = true,
  ): Promise<boolean> {
    const keys = ['head', 'calls', 'chunks', 'stop', 'flight', 'interim'].map((name) => key(run, name));
    const { leaseMs, outcomeTtlMs } = this.times;
    const times = [leaseMs, outcomeTtlMs, calls === null ? 0 : 1, isLostRepeated ? 1 : 0];
    const seed = entriesOf(calls ?? NO_COUNTS).flat();
    this.#cache.begin(run);
    const reply = await this.#eval(OPEN, keys, [rows(run), execution, committed, ...times, ...seed]);
    if (reply !== OTHER_VERSION) return reply === 1;
    throw new UsageError(
      'queue_version',
      `what the Redis server has of the run ${run} is of another version of Promptmill`,
      'Go on with the version that began it, or start over with --restart; rows already known are then called again.',
    );
  }

  async write(batch: Batch): Promise<readonly Answer[]> {
    const answers = new Map<Reservation, Answer>();
    await Promise.all(byRun(batch).map((part) => this.#writeRun(part, answers)));
    this.settled.tell(batch.settled);
    return batch.reservations.map((each) => answers.get(each) ?? NO_ANSWER);
  }

  async #writeRun(
    { run, settled, counts, reservations, atLeast, changes }: RunBatch,
    answers: Map<Reservation, Answer>,
  ): Promise<void> {
    const keys = ['head', 'calls', 'chunks', 'written', 'flight', 'interim'].map((name) => key(run, name));
    // ioredis resends a command whose reply was lost; by the id the script knows that it is done already.
    const id = changes ? randomBytes(9).toString('base64') : '';
    const part = { settled, counts, reservations, atLeast };
    const outcomes = settled.map(({ outcome }) => (outcome === null ? '' : JSON.stringify(outcome)));
    const first = [rows(run), this.times.outcomeTtlMs, id, batchText(part)];
    const reply = await this.#eval(WRITE, keys, [...first, ...outcomes]);
    const [totals, states, isKept] = reply as Written;
    settled.forEach((each, i) => {
      this.#cache.settled(each, isKept === 1, outcomes[i]?.length ?? 0);
    });
    const [prompt_tokens = 0, completion_tokens = 0, inFlight = 0] = totals;
    reservations.forEach((each, i) => {
      answers.set(each, answerOf(each, states[i] ?? [], { prompt_tokens, completion_tokens }, inFlight));
    });
  }

  async deaths(): Promise<ReadonlyMap<number, number>> {
    return NO_DEATHS;
  }

  async waiting(run: string): Promise<number> {
    return Number(await this.#eval(WAITING, [key(run, 'chunks')], [rows(run)]));
  }

  async stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void> {
    const keys = [key(run, 'head'), key(run, 'stop')];
    await this.#eval(STOP, keys, [execution, JSON.stringify(reason), this.times.outcomeTtlMs]);
  }

  progress(run: string, firsts: readonly number[]): Promise<Progress> {
    return this.#cache.whileLooking(run, firsts, () => this.#progress(run, firsts));
  }

  async #progress(run: string, firsts: readonly number[]): Promise<Progress> {
    const keys = ['calls', 'stop', 'flight'].map((name) => key(run, name));
    const reply = await this.#eval(PROGRESS, keys, [rows(run), ...firsts]);
    const [seeded, calls, stop, inFlight, counts] = reply as Progressed;
    return {
      counts,
      calls: { ...countsIn(calls), in_flight: inFlight },
      opened: seeded === 1,
      stop: stop === null ? null : JSON.parse(stop),
    };
  }

  async outcomes(chunk: ChunkKey, count?: number): Promise<ReadonlyMap<number, CalledOutcome>> {
    const own = this.#cache.of(chunk);
    if (own !== undefined && own.size === count) return own;
    const found = await this.lasting(() => this.client.hgetall(rows(chunk.run, chunk.first)));
    return new Map(Object.entries(found).map(([row, outcome]) => [Number(row), JSON.parse(outcome)]));
  }

  async interim(run: string, rows: readonly number[]): Promise<ReadonlyMap<number, CalledOutcome>> {
    if (rows.length === 0) return new Map();
    const found = await this.lasting(() => this.client.hmget(key(run, 'interim'), ...rows.map(String)));
    return new Map(
      rows.flatMap((row, i) => {
        const text = found[i];
        return text ? [[row, JSON.parse(text.slice(text.indexOf('\n')))]] : [];
      }),
    );
  }

  async forget(run: string, committed: number, firsts: readonly number[]): Promise<void> {
    const { leaseMs, outcomeTtlMs } = this.times;
    const keys = ['head', 'chunks', 'interim'].map((name) => key(run, name));
    await this.#eval(FORGET, keys, [rows(run), committed, leaseMs, outcomeTtlMs, ...firsts]);
    this.#cache.forget(run, firsts);
  }

  async close(run: string): Promise<void> {
    const names = ['head', 'calls', 'chunks', 'written', 'stop', 'flight', 'interim'];
    const keys = names.map((name) => key(run, name));
    await this.#eval(CLOSE, keys, [rows(run)]);
    this.#cache.end(run);
  }

  async #eval(script: string, keys: readonly string[], args: readonly Argument[]): Promise<unknown> {
    try {
      return await this.lasting(() => this.#run(script, [keys.length, ...keys, ...args]));
    } catch (error) {
      // ioredis attaches the refused command with its arguments to the error; those must not reach a log.
      throw new Error(errorText(error));
    }
  }

  /** Runs a script by its hash, or in full when the server does not know it, for example after a restart. */
  async #run(script: string, [keys, ...rest]: readonly [number, ...Argument[]]): Promise<unknown> {
    try {
      return await this.client.evalsha(hashOf(script), keys, ...rest);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
      return await this.client.eval(script, keys, ...rest);
    }
  }
}

const STATES: ReadonlySet<string> = new Set<RowState & string>(['granted', 'known', 'unwanted', 'no_room']);
const isState = (text: string): text is RowState & string => STATES.has(text);

/** @param replies one per row of the reservation, in order */
function answerOf(
  { rows: asked, looks }: Reservation,
  replies: readonly RowReply[],
  spent: Tokens,
  inFlight: number,
): Answer {
  const rows = replies.map(
    ([state, call, ageMs]): RowState =>
      isState(state) ? state : { call: String(call), ageMs: Number(ageMs) },
  );
  if (!looks) return { ...NO_ANSWER, rows, spent, inFlight };
  const interim = new Map(
    asked.flatMap(({ row }, i) => {
      const [state, json] = replies[i] ?? [];
      return state === 'granted' && typeof json === 'string' ? [[row, JSON.parse(json)]] : [];
    }),
  );
  return { rows, spent, inFlight, interim };
}

const entriesOf = (counts: Counts): (readonly [name: string, value: number])[] =>
  namesIn(counts).map((name) => [name, counts[name] ?? 0]);

function countsIn(calls: readonly string[]): Counts {
  const known = calls.flatMap((name, i) => (i % 2 === 0 ? [[name, Number(calls[i + 1])] as const] : []));
  return added(NO_COUNTS, { ...NO_COUNTS, ...Object.fromEntries(known) });
}

function hashOf(script: string): string {
  let hash = HASHES.get(script);
  if (hash === undefined) {
    hash = createHash('sha1').update(script).digest('hex');
    HASHES.set(script, hash);
  }
  return hash;
}

const HASHES = new Map<string, string>();

function batchText({ settled, counts, reservations, atLeast }: Omit<RunBatch, 'run' | 'changes'>): string {
  return JSON.stringify([
    [atLeast.prompt_tokens, atLeast.completion_tokens],
    entriesOf(counts).filter(([, by]) => by !== 0),
    settled.map(({ first, row, call, interim }) => [first, row, call ?? '', ...(interim ? [interim] : [])]),
    reservations.map(({ first, execution, call, hold, looks, bounds, rows }) => [
      first,
      execution,
      call,
      hold,
      looks,
      bounds !== null && [bounds.tokens, bounds.cost, bounds.promptPrice, bounds.completionPrice],
      rows.map(({ row, most }) => [row, most.prompt_tokens, most.completion_tokens]),
    ]),
  ]);
}

/** The braces put all keys of a run into one slot of a cluster. */
const key = (run: string, name: string): string => `promptmill:{${run}}:${name}`;
const rows = (run: string, first: number | '' = ''): string => key(run, `rows:${first}`);
