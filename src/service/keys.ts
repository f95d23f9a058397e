import { UsageError } from '../core/errors.js';

/** Consecutive refusals after which a key that worked before counts as revoked. */
const REFUSALS = 10;

interface Key {
  readonly value: string;
  taken: boolean;
  /** Since the last answered call. */
  refusals: number;
}

/**
 * The API keys of this process. The second takes over, for all callers, when the service refuses the first:
 * at once if it never worked, else after several refusals in a row, because a single odd one proves nothing
 * (fault 80). Private fields hide the keys from `JSON.stringify` and `util.inspect`, and so from logs.
 */
export class KeyRing {
  #keys: readonly Key[];

  /**
   * @param values in the order to try
   * @param needed false for a process that makes no calls. @default true
   * @param variable of the environment that has the key. @default PROMPTMILL_API_KEY
   * @throws UsageError when there is no key, or, without showing it, for one that a header cannot carry
   *   (fault 57)
   */
  constructor(
    values: readonly string[],
    needed = true,
    readonly variable = 'PROMPTMILL_API_KEY',
  ) {
    // The same key may be set twice; trying it again would tell nothing.
    const given = new Set(values.map((value) => value.trim()).filter((key) => key !== ''));
    this.#keys = [...given].map((value) => ({ value, taken: false, refusals: 0 }));
    if (needed && this.#keys.length === 0) {
      throw new UsageError(
        'key_missing',
        `${variable} is not set`,
        'Set it to a key of the service; any word will do for a server that asks for none.',
      );
    }
    if (!this.#keys.every(({ value }) => /^[\x21-\x7e]+$/.test(value))) {
      throw new UsageError(
        'bad_key',
        `${variable === 'PROMPTMILL_API_KEY' ? `${variable} or ${variable}_2` : variable} holds a character that a header cannot carry (not shown)`,
        'Copy the key again: it is one line of ASCII letters, digits and signs, without spaces.',
      );
    }
  }

  /** Null when all keys are revoked. */
  current(): string | null {
    return this.#keys[0]?.value ?? null;
  }

  /** The key to try after this one was refused, or null. */
  after(key: string): string | null {
    const place = this.#keys.findIndex(({ value }) => value === key);
    return this.#keys[place + 1]?.value ?? null;
  }

  took(key: string): void {
    const known = this.#keys.find(({ value }) => value === key);
    if (known === undefined) return;
    known.taken = true;
    known.refusals = 0;
  }

  /** @returns whether this refusal revokes the key: of many calls in flight only one does */
  refuse(key: string): boolean {
    const known = this.#keys.find(({ value }) => value === key);
    if (known === undefined) return false;
    known.refusals++;
    if (known.taken && known.refusals < REFUSALS) return false;
    this.#keys = this.#keys.filter((each) => each !== known);
    return true;
  }
}
