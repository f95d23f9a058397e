import { setTimeout as sleep } from 'node:timers/promises';
import { steadyNow } from '../clock.js';
import { StopError, UsageError } from '../errors.js';
import type { Fault } from '../model.js';
import { type StoreError, storeErrorOf } from './error.js';

/** A store that refuses may do so for this time, in milliseconds: a failover takes less (fault 33). */
const PATIENCE_MS = 30_000;
/** Refusals farther apart than this have nothing to do with each other: in between, something was taken. In ms. */
const APART_MS = 10_000;
/** Pause between two attempts of a command that was refused, in milliseconds. */
const AGAIN_MS = 500;

/** A store that refuses now. */
interface Refusal {
  /** When it began, in milliseconds of the clock. */
  readonly since: number;
  /** In words, with the address. */
  readonly message: string;
}

/**
 * Knows whether a store can still be used. Its drivers report every error that it answers with. While processes are at
 * work something is written every second or two, so a refusal that lasts is met again and again.
 */
export class StoreHealth {
  #opened = false;
  #refusal: (Refusal & { readonly last: number }) | null = null;
  #fault: Fault | null = null;
  #onFault: (fault: Fault) => void = () => {};

  /** @param shown the address without its password, or the directory */
  constructor(
    private readonly shown: string,
    private readonly now: () => number = steadyNow,
  ) {}

  /** From now on a refusal is given time. Before, it is told to whoever opens the store. */
  opened(): void {
    this.#opened = true;
  }

  /** The store answered with an error. */
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

  /** From now on it cannot be used. */
  fail(fault: Fault): void {
    if (this.#fault !== null) return;
    this.#fault = fault;
    this.#onFault(fault);
  }

  /** True when what failed with this error is worth another try. */
  mayPass(error: unknown): boolean {
    const kind = storeErrorOf(error)?.kind;
    if (kind === 'away') return true;
    if (!this.#opened) return false;
    return kind === 'full' || (kind === 'refusing' && this.#fault === null);
  }

  /**
   * Does for refusals what drivers do for lost connections: what may pass is tried again. A command that was refused was
   * not done, so nothing is done twice.
   */
  lasting = async <T>(attempt: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        // A connection is the driver's to mend; when it gives up it is being closed.
        if (storeErrorOf(error)?.kind === 'away' || !this.mayPass(error)) throw error;
        await sleep(AGAIN_MS);
      }
    }
  };

  /** The refusal that goes on; null while the store takes what it is given, as far as is known. */
  get refusal(): Refusal | null {
    if (this.#refusal === null || this.now() - this.#refusal.last >= APART_MS) return null;
    return this.#refusal;
  }

  /** Why nothing can be kept here any more. */
  get fault(): Fault | null {
    return this.#fault;
  }

  /** Calls back once when the store cannot be used any more, at once when that is so already. */
  onFault(callback: (fault: Fault) => void): void {
    this.#onFault = callback;
    if (this.#fault !== null) callback(this.#fault);
  }

  /** An error in the middle of a run, as what stops it; what is no error of the store comes back as it is. */
  stopFor(error: unknown): unknown {
    const met = storeErrorOf(error);
    return met === null ? error : new StopError(met.code, `${this.#textOf(met, error)}.`, met.remedy);
  }

  /** An error before anything was sent, as what is told to the user. */
  usageErrorFor(error: unknown): unknown {
    const met = storeErrorOf(error);
    return met === null ? error : new UsageError(met.code, this.#textOf(met, error), met.remedy);
  }

  #textOf({ code, words }: StoreError, error: unknown): string {
    const keys = code === 'queue_damaged' ? keysOf(error) : null;
    return `${this.shown} ${words}${keys === null ? '' : `: ${keys}`}`;
  }
}

/** The names that a refused command of Redis was about, from what ioredis hangs on its error; its values stay out. */
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
