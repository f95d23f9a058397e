import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { UsageError } from '../../core/errors.js';

export interface Login {
  readonly user: string;
  /** At least 8 characters. */
  readonly password: string;
}

const SHORTEST = 8;
/** Wrong passwords from one client: this many at once, then as many per minute. */
const MOST_WRONG = 10;
/** The same for all strangers together, so that many addresses are no better than one. */
const MOST_WRONG_OF_STRANGERS = 60;
const MINUTE_MS = 60_000;
/** An address that sent the right password is no stranger for this long: a day. */
const KNOWN_MS = 24 * 3_600_000;
const MOST_KNOWN = 1_000;

/** @throws UsageError when there is no password or one that is easily guessed; never quotes the password */
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
      `${name} has ${password.length} characters, which is too short`,
      `Use ${SHORTEST} characters or more: openssl rand -base64 18 makes one.`,
    );
  }
  // HTTP puts a colon between the two, and no browser lets you type a control character.
  if (user === '' || user.includes(':') || /\p{Cc}/u.test(user + password)) {
    throw new UsageError(
      'bad_dashboard_login',
      'PROMPTMILL_DASHBOARD_USER has a colon in it or is empty, or one of user and password has a control character',
      'Use plain text for both.',
    );
  }
  return { user, password };
}

export interface LoginAttempt {
  readonly user: string;
  readonly password: string;
  readonly address: string;
  /** On this machine, and not through a proxy that names another client. */
  readonly local: boolean;
  /** Given to the browser when it logged in; undefined when it sends none. */
  readonly device: string | undefined;
}

type Verdict =
  /** `device` is for the browser to keep; null when it has one. */
  | { readonly kind: 'right'; readonly device: string | null }
  | { readonly kind: 'wrong' }
  /** The password was not checked. */
  | { readonly kind: 'too many'; readonly waitMs: number };

/**
 * Compares logins in constant time, and slows down guessing: after too many wrong passwords the next one is
 * not checked at all, or the answer would tell whether it was right. So that a guesser cannot lock out the
 * owner, wrong passwords count against the cookie of a browser that has logged in before, else against the
 * address; and all addresses that have not logged in before share one limit (fault 86). A cookie alone opens
 * nothing.
 * @see https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies
 */
export class LoginLimiter {
  readonly #expected: Buffer;
  /** Cookies are valid for the life of this process; one tells nothing about the password. */
  readonly #key = randomBytes(32);
  readonly #wrong = new Map<string, TokenBucket>();
  readonly #strangers: TokenBucket;
  /** Address → when it last sent the right password; oldest first. */
  readonly #known = new Map<string, number>();

  /** @param clock monotonic, in ms */
  constructor(
    { user, password }: Login,
    private readonly clock: () => number = () => performance.now(),
  ) {
    this.#expected = digest(user, password);
    this.#strangers = new TokenBucket(MOST_WRONG_OF_STRANGERS, clock());
  }

  judge({ user, password, address, local, device }: LoginAttempt): Verdict {
    const now = this.clock();
    const isDevice = device !== undefined && this.#isOurs(device);
    const who = isDevice ? `device ${device}` : `address ${address}`;
    const own = this.#wrong.get(who) ?? new TokenBucket(MOST_WRONG, now);
    const isStranger = !isDevice && !local && now - (this.#known.get(address) ?? -KNOWN_MS) >= KNOWN_MS;
    const waitMs = Math.max(own.waitMs(now), isStranger ? this.#strangers.waitMs(now) : 0);
    if (waitMs > 0) return { kind: 'too many', waitMs };
    // Digests have one length, as the comparison needs, and do not reveal that of the password.
    if (timingSafeEqual(digest(user, password), this.#expected)) {
      this.#remember(address, now);
      return { kind: 'right', device: isDevice ? null : this.#newDevice() };
    }
    own.take(now);
    if (isStranger) this.#strangers.take(now);
    for (const [other, bucket] of this.#wrong) if (bucket.isWhole(now)) this.#wrong.delete(other);
    this.#wrong.set(who, own);
    return { kind: 'wrong' };
  }

  #remember(address: string, now: number): void {
    this.#known.delete(address);
    this.#known.set(address, now);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MOST_KNOWN && oldest !== undefined) this.#known.delete(oldest);
  }

  #newDevice(): string {
    const name = randomBytes(16).toString('hex');
    return `${name}.${this.#seal(name)}`;
  }

  #isOurs(device: string): boolean {
    const [name = '', seal = ''] = device.split('.', 2);
    const expected = Buffer.from(this.#seal(name));
    const given = Buffer.from(seal);
    return given.length === expected.length && timingSafeEqual(given, expected);
  }

  #seal(name: string): string {
    return createHmac('sha256', this.#key).update(name).digest('hex');
  }
}

/** Token bucket: `most` at once, and as many per minute. */
class TokenBucket {
  #left: number;

  constructor(
    private readonly most: number,
    private at: number,
  ) {
    this.#left = most;
  }

  take(now: number): void {
    this.#fill(now);
    this.#left -= 1;
  }

  /** 0 when one is left. */
  waitMs(now: number): number {
    this.#fill(now);
    return this.#left >= 1 ? 0 : Math.ceil(((1 - this.#left) * MINUTE_MS) / this.most);
  }

  isWhole(now: number): boolean {
    this.#fill(now);
    return this.#left >= this.most;
  }

  #fill(now: number): void {
    this.#left = Math.min(this.most, this.#left + ((now - this.at) * this.most) / MINUTE_MS);
    this.at = now;
  }
}

const digest = (user: string, password: string): Buffer =>
  createHash('sha256')
    .update(JSON.stringify([user, password]))
    .digest();
