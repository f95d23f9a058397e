import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { CalledOutcome } from '../../model.js';
import { answerOf, byRun, type RowReply, type RunBatch } from '../batch.js';
import { COUNTERS, type Counters, eachOf, inOrder, NO_CALLS } from '../counters.js';
import type { Answer, Batch, Bounds, ChunkKey, Ledger, Progress, Reservation } from '../ledger.js';
import { LEDGER_TIMES, type LedgerTimes } from '../times.js';
import { CLOSE, FORGET, OPEN, STOP, WAITING, WRITE } from './scripts.js';

type Argument = string | number;
/** Tries again what the store refused and may yet take. */
type Lasting = <T>(attempt: () => Promise<T>) => Promise<T>;

/** The ledger on Redis and Valkey. {@link file://./scripts.ts} says what it keeps there. */
export class RedisLedger implements Ledger {
  constructor(
    private readonly client: Redis,
    private readonly times: LedgerTimes = LEDGER_TIMES,
    private readonly lasting: Lasting = (attempt) => attempt(),
  ) {}

  async open(
    run: string,
    execution: number,
    committed: number,
    calls: Counters | null,
    isLostRepeated = true,
  ): Promise<boolean> {
    const keys = ['head', 'calls', 'chunks', 'stop', 'flight'].map((name) => key(run, name));
    const { leaseMs, outcomeTtlMs } = this.times;
    const times = [leaseMs, outcomeTtlMs, calls === null ? 0 : 1, isLostRepeated ? 1 : 0];
    const seed = inOrder(calls ?? NO_CALLS);
    return (await this.#eval(OPEN, keys, [rows(run), execution, committed, ...times, ...seed])) === 1;
  }

  async write(batch: Batch): Promise<readonly Answer[]> {
    const answers = new Map<Reservation, Answer>();
    await Promise.all(byRun(batch).map((part) => this.#writeRun(part, answers)));
    return batch.reservations.map((each) => answers.get(each) ?? NO_ANSWER);
  }

  async #writeRun(
    { run, settled, counts, reservations, atLeast, changes }: RunBatch,
    answers: Map<Reservation, Answer>,
  ): Promise<void> {
    const keys = ['head', 'calls', 'chunks', 'written', 'flight'].map((name) => key(run, name));
    // ioredis sends a command again whose reply was lost; by its id the script knows that it has done it.
    const id = changes ? randomBytes(9).toString('base64') : '';
    const reply = await this.#eval(WRITE, keys, [
      ...[rows(run), this.times.outcomeTtlMs, id, settled.length],
      ...[atLeast.prompt_tokens, atLeast.completion_tokens],
      ...inOrder(counts),
      ...settled.flatMap(({ first, row, call, outcome }) => [
        ...[first, row, call ?? ''],
        outcome === null ? '' : JSON.stringify(outcome),
      ]),
      ...reservations.flatMap(reservationArguments),
    ]);
    const [totals, states] = reply as [readonly number[], readonly (readonly RowReply[])[]];
    const [prompt_tokens = 0, completion_tokens = 0, inFlight = 0] = totals;
    reservations.forEach((each, i) => {
      answers.set(each, answerOf(states[i] ?? [], { prompt_tokens, completion_tokens }, inFlight));
    });
  }

  async waiting(run: string): Promise<number> {
    return Number(await this.#eval(WAITING, [key(run, 'chunks')], [rows(run)]));
  }

  async stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void> {
    const keys = [key(run, 'head'), key(run, 'stop')];
    await this.#eval(STOP, keys, [execution, JSON.stringify(reason), this.times.outcomeTtlMs]);
  }

  progress(run: string, firsts: readonly number[]): Promise<Progress> {
    return this.lasting(() => this.#progress(run, firsts));
  }

  async #progress(run: string, firsts: readonly number[]): Promise<Progress> {
    const pipeline = this.client.pipeline().hgetall(key(run, 'calls')).get(key(run, 'stop'));
    pipeline.hlen(key(run, 'flight'));
    for (const first of firsts) pipeline.hlen(rows(run, first));
    const replies = (await pipeline.exec()) ?? [];
    const [calls, stop, inFlight, ...lengths] = replies.map(([error, reply]): unknown => {
      if (error) throw withoutArguments(error);
      return reply;
    });
    return {
      counts: lengths.map(Number),
      calls: parseCounts(calls, Number(inFlight)),
      opened: 'seeded' in Object(calls),
      stop: typeof stop === 'string' ? JSON.parse(stop) : null,
    };
  }

  async outcomes(chunk: ChunkKey): Promise<ReadonlyMap<number, CalledOutcome>> {
    const found = await this.lasting(() => this.client.hgetall(rows(chunk.run, chunk.first)));
    return new Map(Object.entries(found).map(([row, outcome]) => [Number(row), JSON.parse(outcome)]));
  }

  async forget(run: string, committed: number, firsts: readonly number[]): Promise<void> {
    const { leaseMs, outcomeTtlMs } = this.times;
    const keys = [key(run, 'head'), key(run, 'chunks')];
    await this.#eval(FORGET, keys, [rows(run), committed, leaseMs, outcomeTtlMs, ...firsts]);
  }

  async close(run: string): Promise<void> {
    const keys = ['head', 'calls', 'chunks', 'written', 'stop', 'flight'].map((name) => key(run, name));
    await this.#eval(CLOSE, keys, [rows(run)]);
  }

  async #eval(script: string, keys: readonly string[], args: readonly Argument[]): Promise<unknown> {
    try {
      return await this.lasting(() => this.client.eval(script, keys.length, ...keys, ...args));
    } catch (error) {
      throw withoutArguments(error);
    }
  }
}

const NO_ANSWER: Answer = answerOf([], { prompt_tokens: 0, completion_tokens: 0 }, 0);

const flag = (is: boolean): number => (is ? 1 : 0);

function reservationArguments(reservation: Reservation): Argument[] {
  const { first, execution, call, hold, looks, bounds, rows } = reservation;
  const { tokens, cost, promptPrice, completionPrice } = bounds ?? NO_BOUNDS;
  return [
    ...[first, execution, call, flag(hold), flag(looks), flag(bounds !== null)],
    ...[tokens, cost, promptPrice, completionPrice, rows.length],
    ...rows.flatMap(({ row, most }) => [row, most.prompt_tokens, most.completion_tokens]),
  ];
}

const NO_BOUNDS: Bounds = { tokens: 0, cost: 0, promptPrice: 0, completionPrice: 0 };

/** The braces put all keys of a run into one slot of a cluster. */
const key = (run: string, name: string): string => `promptmill:{${run}}:${name}`;
const rows = (run: string, first: number | '' = ''): string => key(run, `rows:${first}`);

/** @param named rows in flight that are known by name; others were counted by what came before */
function parseCounts(reply: unknown, named: number): Counters {
  const found = new Map(Object.entries(reply ?? {}));
  const counts = eachOf(COUNTERS, (name) => Number(found.get(name) ?? 0));
  return { ...counts, in_flight: named + counts.in_flight };
}

/** ioredis hangs the refused command with its arguments on the error; texts of rows have no place in a log. */
function withoutArguments(error: unknown): Error {
  return new Error(error instanceof Error ? error.message : String(error));
}
