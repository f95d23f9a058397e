import { UsageError } from '../errors.js';

/**
 * The API keys of this process. The second one takes over, for every caller, when the service refuses the
 * first. Private fields keep the keys out of logs: neither `JSON.stringify` nor `util.inspect` sees them.
 */
export class KeyRing {
  readonly #keys: string[];

  /**
   * @param values keys in the order to try them, as the environment has them
   * @throws UsageError, which does not show the key, for one that a header cannot carry (fault 57), and when
   * there is none
   * @param needed false for a process that makes no calls. @default true
   */
  constructor(values: readonly string[], needed = true) {
    this.#keys = values.map((value) => value.trim()).filter((key) => key !== '');
    if (needed && this.#keys.length === 0) {
      throw new UsageError('key_missing', 'PROMPTMILL_API_KEY is not set', 'Set it to a key of the service.');
    }
    if (!this.#keys.every((key) => /^[\x21-\x7e]+$/.test(key))) {
      throw new UsageError(
        'bad_key',
        'PROMPTMILL_API_KEY or PROMPTMILL_API_KEY_2 holds a character that a header cannot carry (not shown)',
        'Copy the key again: it is one line of ASCII letters, digits and signs, without spaces.',
      );
    }
  }

  /** The key to call with, or `null` when the service refused every one. */
  current(): string | null {
    return this.#keys[0] ?? null;
  }

  /**
   * Reports a key that the service refused. Of many calls in flight only the first moves on: the others
   * report a key that is no longer the current one.
   */
  refuse(key: string): void {
    // The same key may be set twice; trying it again would tell nothing.
    while (this.#keys[0] === key) this.#keys.shift();
  }
}
