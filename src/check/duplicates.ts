import { RepeatIndex } from './repeats.js';
import { added, NO_TOKENS, type TokenSums } from './token-sums.js';

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

/** Adds up the rows that ask what was asked before. */
export class Duplicates {
  readonly #index: RepeatIndex;
  readonly #examples: { line: number; same_as_line: number }[] = [];
  #rows = 0;
  #tokens = NO_TOKENS;

  /** @param most distinct requests to remember. @default that of {@link RepeatIndex} */
  constructor(most?: number) {
    this.#index = new RepeatIndex(most);
  }

  /**
   * @param request all that makes it what it is, as text
   * @returns whether an earlier row asked the same
   */
  add(request: string, line: number, tokens: TokenSums): boolean {
    const first = this.#index.firstLine(request, line);
    if (first === null) return false;
    this.#rows++;
    this.#tokens = added(this.#tokens, tokens);
    if (this.#examples.length < MOST_EXAMPLES) this.#examples.push({ line, same_as_line: first });
    return true;
  }

  result(): DuplicateRows {
    return { rows: this.#rows, at_least: this.#index.isFull, ...this.#tokens, examples: this.#examples };
  }
}
