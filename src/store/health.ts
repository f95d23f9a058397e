import { setTimeout as sleep } from 'node:timers/promises';
import { steadyNow } from '../core/clock.js';
import { StopError, UsageError } from '../core/errors.js';
import type { Problem } from '../core/model.js';
import { type StoreError, storeErrorOf } from './error.js';

/** A store may refuse for this long: a failover takes less (fault 33). */
const PATIENCE_MS = 30_000;
/** Refusals farther apart than this are unrelated: the store accepted something in between. */
const APART_MS = 10_000;
const AGAIN_MS = 500;

interface Refusal {
  /** In ms of the clock. */
  readonly since: number;
  readonly message: string;
}

/** Judges a store by its errors: processes at work write every second or two, so a lasting refusal shows. */
export class StoreHealth {
  #opened = false;
  #refusal: (Refusal & { readonly last: number }) | null = null;
  #problem: Problem | null = null;
  #onProblem: (problem: Problem) => void = () => {};

  /** @param shown the address without its password, or the directory */
  constructor(
    private readonly shown: string,
    private readonly now: () => number = steadyNow,
  ) {}

  /** From now on refusals are given time. Before, they go to whoever opens the store. */
  opened(): void {
    this.#opened = true;
  }

  met(error: unknown): void {
    const met = storeErrorOf(error);
    if (!this.#opened || met === null || met.kind === 'away' || met.kind === 'full') return;
    const now = this.now();
    const message = this.#textOf(met, error);
    const goesOn = this.#refusal !== null && now - this.#refusal.last < APART_MS;
    const since = goesOn && this.#refusal !== null ? this.#refusal.since : now;
    this.#refusal = { since, message, last: now };
    if (met.kind === 'refusing' && now - since < PATIENCE_MS) return;
    this.fail({ code: met.code, message: `${message}. ${met.remedy}` });
  }

  /** The first fault counts. */
  fail(problem: Problem): void {
    if (this.#problem !== null) return;
    this.#problem = problem;
    this.#onProblem(problem);
  }

  mayPass(error: unknown): boolean {
    const kind = storeErrorOf(error)?.kind;
    if (kind === 'away') return true;
    if (!this.#opened) return false;
    return kind === 'full' || (kind === 'refusing' && this.#problem === null);
  }

  /** Retries refused commands, which were not executed, as drivers retry those of lost connections. */
  lasting = async <T>(attempt: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        // The driver repairs its connection itself; when it gives up, it is being closed.
        if (storeErrorOf(error)?.kind === 'away' || !this.mayPass(error)) throw error;
        await sleep(AGAIN_MS);
      }
    }
  };

  /** The current refusal; null while the store accepts writes, as far as is known. */
  get refusal(): Refusal | null {
    if (this.#refusal === null || this.now() - this.#refusal.last >= APART_MS) return null;
    return this.#refusal;
  }

  get problem(): Problem | null {
    return this.#problem;
  }

  /** Calls back once when the store becomes unusable, at once if it already is. */
  onProblem(callback: (problem: Problem) => void): void {
    this.#onProblem = callback;
    if (this.#problem !== null) callback(this.#problem);
  }

  /** Returns an error that is not the store's unchanged. */
  stopFor(error: unknown): unknown {
    const met = storeErrorOf(error);
    return met === null ? error : new StopError(met.code, `${this.#textOf(met, error)}.`, met.remedy);
  }

  usageErrorFor(error: unknown): unknown {
    const met = storeErrorOf(error);
    return met === null ? error : new UsageError(met.code, this.#textOf(met, error), met.remedy);
  }

  #textOf({ code, words }: StoreError, error: unknown): string {
    const keys = code === 'queue_damaged' ? keysOf(error) : null;
    return `${this.shown} ${words}${keys === null ? '' : `: ${keys}`}`;
  }
}

/** Key names of a refused Redis command, which ioredis attaches to the error; never its values. */
function keysOf(error: unknown): string | null {
  const { name, args } = Object(Object(error).command);
  if (typeof name !== 'string' || !Array.isArray(args)) return null;
  const isScript = /^eval(sha)?$/i.test(name);
  const keys = (isScript ? args.slice(2, 2 + Number(args[1])) : args.slice(0, 1)).map(String);
  const [first] = keys;
  if (first === undefined) return null;
  if (keys.length === 1) return `the key ${first}`;
  let length = first.length;
  for (const key of keys) while (!key.startsWith(first.slice(0, length))) length--;
  return `one of the keys ${first.slice(0, length)}…`;
}
