import { hash } from 'node:crypto';
import { PlaceIndex } from '../reuse/place-index.js';
import { added, NO_TOKENS, type TokenSums } from './quote.js';

/** Rows whose request, prompt and parameters, repeats an earlier row's. */
export interface DuplicateRows extends TokenSums {
  readonly rows: number;
  /** Too many distinct requests to remember: the figures are lower bounds. */
  readonly at_least: boolean;
  readonly examples: readonly { readonly line: number; readonly same_as_line: number }[];
}

const MOST_EXAMPLES = 20;

/** Distinct requests remembered: the index takes up to 48 MB. */
const MOST_DISTINCT = 3_000_000;

/** 64 bits: among 3,000,000 requests the chance of any collision is one in four million. */
const HASH_BYTES = 8;

export class Duplicates {
  readonly #index: PlaceIndex;
  readonly #examples: { line: number; same_as_line: number }[] = [];
  #rows = 0;
  #tokens = NO_TOKENS;

  /** @param most distinct requests to remember. @default 3,000,000 */
  constructor(most: number = MOST_DISTINCT) {
    this.#index = new PlaceIndex(most, { keyBytes: HASH_BYTES, places: false });
  }

  /** @param request its full content as text. @returns whether an earlier row asked the same */
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
