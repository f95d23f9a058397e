import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { CalledOutcome, Counters } from '../model.js';
import { byRun, type RunBatch } from './batch.js';
import { inOrder } from './counters.js';
import type { ChunkKey, Entry, Ledger, Progress, Standing } from './ledger.js';
import { CLOSE, FORGET, OPEN, RECORD, STANDING, STOP } from './redis-scripts.js';
import { LEDGER_TIMES, type LedgerTimes } from './times.js';

type Argument = string | number;

/** The ledger on Redis and Valkey. {@link file://./redis-scripts.ts} says what it keeps there. */
export class RedisLedger implements Ledger {
  constructor(
    private readonly client: Redis,
    private readonly times: LedgerTimes = LEDGER_TIMES,
  ) {}

  async open(run: string, execution: number, committed: number, calls: Counters): Promise<void> {
    const keys = [key(run, 'head'), key(run, 'calls'), key(run, 'chunks'), key(run, 'stop')];
    const { leaseMs, outcomeTtlMs } = this.times;
    await this.#eval(OPEN, keys, [rows(run), execution, committed, leaseMs, outcomeTtlMs, ...inOrder(calls)]);
  }

  async standing(chunk: ChunkKey, execution: number): Promise<Standing> {
    const keys = [key(chunk.run, 'head'), rows(chunk.run, chunk.first)];
    const reply = await this.#eval(STANDING, keys, [execution, chunk.first]);
    const [wanted, known] = Array.isArray(reply) ? reply : [];
    return { wanted: wanted === 1, known: new Set(Array.isArray(known) ? known.map(Number) : []) };
  }

  async record(entries: readonly Entry[], calls: ReadonlyMap<string, Partial<Counters>>): Promise<void> {
    await Promise.all(byRun(entries, calls).map((batch) => this.#recordRun(batch)));
  }

  async #recordRun({ run, entries, calls }: RunBatch): Promise<void> {
    const keys = [key(run, 'head'), key(run, 'calls'), key(run, 'chunks'), key(run, 'written')];
    // ioredis sends a command again whose reply was lost; by its id the script knows that it has done it.
    const id = randomBytes(9).toString('base64');
    const outcomes = entries.flatMap(({ first, row, outcome }) => [first, row, JSON.stringify(outcome)]);
    await this.#eval(RECORD, keys, [rows(run), this.times.outcomeTtlMs, id, ...inOrder(calls), ...outcomes]);
  }

  async stop(run: string, execution: number, reason: { code: string; message: string }): Promise<void> {
    const keys = [key(run, 'head'), key(run, 'stop')];
    await this.#eval(STOP, keys, [execution, JSON.stringify(reason), this.times.outcomeTtlMs]);
  }

  async progress(run: string, firsts: readonly number[]): Promise<Progress> {
    const pipeline = this.client.pipeline().hgetall(key(run, 'calls')).get(key(run, 'stop'));
    for (const first of firsts) pipeline.hlen(rows(run, first));
    const replies = (await pipeline.exec()) ?? [];
    const [calls, stop, ...lengths] = replies.map(([error, reply]): unknown => {
      if (error) throw withoutArguments(error);
      return reply;
    });
    return {
      counts: lengths.map(Number),
      calls: parseCounts(calls),
      opened: 'seeded' in Object(calls),
      stop: typeof stop === 'string' ? JSON.parse(stop) : null,
    };
  }

  async outcomes(chunk: ChunkKey): Promise<ReadonlyMap<number, CalledOutcome>> {
    const found = await this.client.hgetall(rows(chunk.run, chunk.first));
    return new Map(Object.entries(found).map(([row, outcome]) => [Number(row), JSON.parse(outcome)]));
  }

  async forget(run: string, committed: number, firsts: readonly number[]): Promise<void> {
    const { leaseMs, outcomeTtlMs } = this.times;
    const keys = [key(run, 'head'), key(run, 'chunks')];
    await this.#eval(FORGET, keys, [rows(run), committed, leaseMs, outcomeTtlMs, ...firsts]);
  }

  async close(run: string): Promise<void> {
    const keys = ['head', 'calls', 'chunks', 'written', 'stop'].map((name) => key(run, name));
    await this.#eval(CLOSE, keys, [rows(run)]);
  }

  async #eval(script: string, keys: readonly string[], args: readonly Argument[]): Promise<unknown> {
    try {
      return await this.client.eval(script, keys.length, ...keys, ...args);
    } catch (error) {
      throw withoutArguments(error);
    }
  }
}

/** The braces put all keys of a run into one slot of a cluster. */
const key = (run: string, name: string): string => `promptmill:{${run}}:${name}`;
const rows = (run: string, first: number | '' = ''): string => key(run, `rows:${first}`);

function parseCounts(reply: unknown): Counters {
  const found = new Map(Object.entries(reply ?? {}));
  const count = (name: keyof Counters): number => Number(found.get(name) ?? 0);
  return {
    sent: count('sent'),
    retried: count('retried'),
    rate_limited: count('rate_limited'),
    repeated: count('repeated'),
    in_flight: count('in_flight'),
    prompt_tokens: count('prompt_tokens'),
    completion_tokens: count('completion_tokens'),
  };
}

/** ioredis hangs the refused command with its arguments on the error; texts of rows have no place in a log. */
function withoutArguments(error: unknown): Error {
  return new Error(error instanceof Error ? error.message : String(error));
}
