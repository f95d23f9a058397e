import { createHash, timingSafeEqual } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { UsageError } from '../errors.js';

/** Who may see the dashboard. */
export interface Login {
  readonly user: string;
  /** At least 8 characters. */
  readonly password: string;
}

const SHORTEST = 8;
/** How long the answer to a wrong password takes, in milliseconds. */
const WRONG_MS = 1_000;
/** Wrong passwords of one address that may wait at a time; what comes then is not looked at. So ten guesses a second. */
const MOST_WRONG = 10;
/** Addresses that are remembered while their answers wait. */
const MOST_ADDRESSES = 1_000;

/**
 * The login out of the environment.
 * @throws UsageError when there is no password, or one that is soon guessed; never with the password in it
 */
export function loginFrom(user: string, password: string | undefined): Login {
  const name = 'PROMPTMILL_DASHBOARD_PASSWORD';
  if (password === undefined || password === '') {
    throw new UsageError(
      'no_dashboard_password',
      `the dashboard has no password: ${name} is not set`,
      `Set ${name} (the user is PROMPTMILL_DASHBOARD_USER, "promptmill" by default), or serve without a dashboard: --no-dashboard.`,
    );
  }
  if (password.length < SHORTEST) {
    throw new UsageError(
      'short_dashboard_password',
      `${name} has ${password.length} characters, which is soon guessed`,
      `Use ${SHORTEST} characters or more: openssl rand -base64 18 makes one.`,
    );
  }
  // HTTP puts a colon between the two, and no control character can be typed into a browser.
  if (user === '' || user.includes(':') || /\p{Cc}/u.test(user + password)) {
    throw new UsageError(
      'bad_dashboard_login',
      'PROMPTMILL_DASHBOARD_USER has a colon in it or is empty, or one of user and password has a control character',
      'Use plain text for both.',
    );
  }
  return { user, password };
}

export type Verdict = 'right' | 'wrong' | 'too many';

/** Compares logins in constant time and makes guessing slow. */
export class Doorkeeper {
  readonly #expected: Buffer;
  readonly #wrong = new Map<string, number>();

  constructor({ user, password }: Login) {
    this.#expected = digest(user, password);
  }

  /** @param address where the request came from */
  async judge(user: string, password: string, address: string): Promise<Verdict> {
    const waiting = this.#wrong.get(address) ?? 0;
    if (waiting >= MOST_WRONG || (waiting === 0 && this.#wrong.size >= MOST_ADDRESSES)) return 'too many';
    // Digests are of one length, which is what the comparison needs, and tell nothing of that of the password.
    if (timingSafeEqual(digest(user, password), this.#expected)) return 'right';
    this.#wrong.set(address, waiting + 1);
    await sleep(WRONG_MS, undefined, { ref: false });
    const left = (this.#wrong.get(address) ?? 1) - 1;
    if (left > 0) this.#wrong.set(address, left);
    else this.#wrong.delete(address);
    return 'wrong';
  }
}

const digest = (user: string, password: string): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([user, password]))
    .digest();
