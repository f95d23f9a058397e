import { hash } from 'node:crypto';
import { PlaceIndex } from '../reuse/place-index.js';
import { added, NO_TOKENS, type TokenSums } from './quote.js';

/** Rows whose whole request, prompt and parameters, is that of an earlier row. */
export interface DuplicateRows extends TokenSums {
  readonly rows: number;
  /** There were too many distinct requests to remember: the figures are the least there are. */
  readonly at_least: boolean;
  /** The first of them, by their lines. */
  readonly examples: readonly { readonly line: number; readonly same_as_line: number }[];
}

/** Rows that are named; of the others only their number is kept. */
const MOST_EXAMPLES = 20;

/** Distinct requests that are remembered: with them the index takes 48 MB, and no more however long the input is. */
const MOST_DISTINCT = 3_000_000;

/** 64 bits of a hash: among 3,000,000 the chance that two different requests are taken for the same is one in four million. */
const HASH_BYTES = 8;

/** Adds up the rows that ask what was asked before. */
export class Duplicates {
  readonly #index: PlaceIndex;
  readonly #examples: { line: number; same_as_line: number }[] = [];
  #rows = 0;
  #tokens = NO_TOKENS;

  /** @param most distinct requests to remember. @default 3,000,000 */
  constructor(most: number = MOST_DISTINCT) {
    this.#index = new PlaceIndex(most, { keyBytes: HASH_BYTES, places: false });
  }

  /**
   * @param request all that makes it what it is, as text
   * @returns whether an earlier row asked the same
   */
  add(request: string, line: number, tokens: TokenSums): boolean {
    const key = hash('sha1', request, 'buffer').toString('base64url', 0, HASH_BYTES);
    const first = this.#index.find(key)?.row;
    if (first === undefined) {
      this.#index.add(key, line, null);
      return false;
    }
    this.#rows++;
    this.#tokens = added(this.#tokens, tokens);
    if (this.#examples.length < MOST_EXAMPLES) this.#examples.push({ line, same_as_line: first });
    return true;
  }

  result(): DuplicateRows {
    return { rows: this.#rows, at_least: this.#index.isFull, ...this.#tokens, examples: this.#examples };
  }
}
