import { UsageError } from '../errors.js';

/** Refusals in a row of a key that was taken before, after which it is taken for revoked. */
const REFUSALS = 10;

interface Key {
  readonly value: string;
  /** The service has answered a call with it. */
  taken: boolean;
  /** Refusals since then. */
  refusals: number;
}

/**
 * The API keys of this process. The second one takes over, for every caller, when the service refuses the first: at once
 * when it never took it, and else when it refuses it again and again, because one odd refusal among many answers says
 * nothing of the key (fault 80). Private fields keep the keys out of logs: neither `JSON.stringify` nor `util.inspect`
 * sees them.
 */
export class KeyRing {
  #keys: readonly Key[];

  /**
   * @param values keys in the order to try them, as the environment has them
   * @throws UsageError, which does not show the key, for one that a header cannot carry (fault 57), and when
   * there is none
   * @param needed false for a process that makes no calls. @default true
   */
  constructor(values: readonly string[], needed = true) {
    // The same key may be set twice; trying it again would tell nothing.
    const given = new Set(values.map((value) => value.trim()).filter((key) => key !== ''));
    this.#keys = [...given].map((value) => ({ value, taken: false, refusals: 0 }));
    if (needed && this.#keys.length === 0) {
      throw new UsageError(
        'key_missing',
        'PROMPTMILL_API_KEY is not set',
        'Set it to a key of the service; any word will do for a server that asks for none.',
      );
    }
    if (!this.#keys.every(({ value }) => /^[\x21-\x7e]+$/.test(value))) {
      throw new UsageError(
        'bad_key',
        'PROMPTMILL_API_KEY or PROMPTMILL_API_KEY_2 holds a character that a header cannot carry (not shown)',
        'Copy the key again: it is one line of ASCII letters, digits and signs, without spaces.',
      );
    }
  }

  /** The key to call with, or `null` when every one is given up. */
  current(): string | null {
    return this.#keys[0]?.value ?? null;
  }

  /** The key to try for a call that was refused with this one; `null` when there is no further one. */
  after(key: string): string | null {
    const place = this.#keys.findIndex(({ value }) => value === key);
    return this.#keys[place + 1]?.value ?? null;
  }

  /** The service answered a call with this key. */
  took(key: string): void {
    const known = this.#keys.find(({ value }) => value === key);
    if (known === undefined) return;
    known.taken = true;
    known.refusals = 0;
  }

  /**
   * Reports a key that the service refused. Of many calls in flight only one gives it up: the others report a key that is
   * gone.
   * @returns whether the key is given up by this
   */
  refuse(key: string): boolean {
    const known = this.#keys.find(({ value }) => value === key);
    if (known === undefined) return false;
    known.refusals++;
    if (known.taken && known.refusals < REFUSALS) return false;
    this.#keys = this.#keys.filter((each) => each !== known);
    return true;
  }
}
