import { together } from './found-rate.js';
import { known, msPerToken, NOTHING, type PaceLimits, type SharedPace } from './shared-pace.js';

/** Admissions older than this, in milliseconds, count by their average over the half of it. */
const MEMORY_MS = 60_000;

const MINUTE = 60_000;

/** What a worker tells of its calls with the next change. */
export interface News {
  /** Calls made since the last change, less those that were refused: below 0 when older ones were. */
  readonly admitted: number;
  /** When the first of them was made. */
  readonly since: number;
  /** Tokens that calls took beyond what was reserved for them; negative when they took less. */
  readonly tokens: number;
  /** What the service says of its quota now, where that has changed. */
  readonly told: PaceLimits;
}

/** Takes what a worker tells into account. */
export function heard(before: SharedPace, news: News, configured: PaceLimits, now: number): SharedPace {
  const told = news.told.requestsPerMinute !== null || news.told.tokensPerMinute !== null;
  // Calls from before a rate was found, of a worker that had no reason to tell of them.
  const early = news.since < before.since;
  const found = before.found !== null && early ? together(before.found, news.admitted) : before.found;
  const pace = {
    ...before,
    waves: early ? withCallsBefore(before, news) : before.waves,
    // What was found out before the service told another quota means nothing any more.
    found: told ? null : found,
    told: {
      requestsPerMinute: news.told.requestsPerMinute ?? before.told.requestsPerMinute,
      tokensPerMinute: news.told.tokensPerMinute ?? before.told.tokensPerMinute,
    },
  };
  const { tokensPerMinute } = known(pace, configured);
  // A time without calls before the first one tells nothing; calls from before the pause belong to what is done with.
  const began = pace.since === 0 ? news.since : pace.since;
  const part = news.since < began ? (now - began) / Math.max(1, now - news.since) : 1;
  const { admitted, since } = remembered(pace.admitted + news.admitted * Math.max(0, part), began, now);
  if (tokensPerMinute === null || news.tokens === 0) return { ...pace, admitted, since };
  const owed = Math.min(MINUTE, news.tokens * msPerToken(tokensPerMinute));
  return { ...pace, admitted, since, tokens: Math.max(pace.tokens, now) + owed };
}

/** Most calls that a worker tells of only after a wave began were made before it. */
function withCallsBefore({ waves, since }: SharedPace, news: News): SharedPace['waves'] {
  const last = waves.at(-1);
  if (last === undefined || since - news.since > MEMORY_MS) return waves;
  return [...waves.slice(0, -1), { ...last, admitted: Math.max(0, last.admitted + news.admitted) }];
}

/** Lets what was long ago count less. */
function remembered(admitted: number, since: number, now: number): { admitted: number; since: number } {
  const elapsed = now - since;
  if (elapsed <= MEMORY_MS) return { admitted, since };
  return { admitted: (admitted * MEMORY_MS) / 2 / elapsed, since: now - MEMORY_MS / 2 };
}

/** What one worker has to tell, collected until it tells it. Times are those of its own clock. */
export class OwnNews {
  #admitted = 0;
  #since = 0;
  #tokens = 0;
  /** What the service said last, and what of it the others do not know. */
  #told = NOTHING;
  #toldNews = NOTHING;

  /** Whether there are calls to tell of. */
  get ofCalls(): boolean {
    return this.#admitted !== 0;
  }

  /**
   * A call is made. It counts as admitted until it is refused: most of what is under way when the first refusal comes
   * was admitted.
   */
  made(now: number): void {
    if (this.#admitted === 0) this.#since = now;
    this.#admitted++;
  }

  /** A call that counts as made was not, or was refused. */
  notMade(): void {
    this.#admitted--;
  }

  /** Tokens that were taken beyond what was reserved; negative when it were less. */
  took(tokens: number): void {
    this.#tokens += tokens;
  }

  /** @returns whether the service said something new of its quota; an answer that says nothing takes nothing back */
  said(told: PaceLimits): boolean {
    const requestsPerMinute = told.requestsPerMinute ?? this.#told.requestsPerMinute;
    const tokensPerMinute = told.tokensPerMinute ?? this.#told.tokensPerMinute;
    const before = this.#told;
    if (requestsPerMinute === before.requestsPerMinute && tokensPerMinute === before.tokensPerMinute)
      return false;
    this.#told = { requestsPerMinute, tokensPerMinute };
    this.#toldNews = this.#told;
    return true;
  }

  /** Lets what was long ago count less. */
  fade(now: number): void {
    const { admitted, since } = remembered(this.#admitted, this.#since, now);
    if (since === this.#since) return;
    this.#tokens *= admitted / Math.max(1, this.#admitted);
    this.#admitted = admitted;
    this.#since = since;
  }

  /**
   * Hands it out, and begins anew.
   * @param offset the clock of the store less that of the worker, in milliseconds
   */
  take(offset: number, now: number): News {
    const since = (this.#admitted === 0 ? now : this.#since) + offset;
    const news = { admitted: this.#admitted, since, tokens: this.#tokens, told: this.#toldNews };
    this.#toldNews = NOTHING;
    this.#admitted = 0;
    this.#since = now;
    this.#tokens = 0;
    return news;
  }
}
