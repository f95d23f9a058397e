import { estimateTokens } from '../prompt/context.js';

/** Samples of a script that are remembered; their median is known to a few per cent. */
const REMEMBERED = 99;
/** Samples from which on the ratio of a script is known. */
const ENOUGH = 3;
/** Samples between two looks at the median. */
const LOOK_EVERY = 8;
/** A text may take more tokens than all those that were seen, by this factor. */
const MARGIN = 1.25;
/** Tokens by estimate below which a text says too little. */
const SHORTEST = 16;
/** Tokens that some servers put around a text themselves. */
export const AROUND = 2;

interface Samples {
  readonly seen: number[];
  next: number;
  count: number;
  median: number;
  most: number;
}

/**
 * How many tokens the texts of a run take with a tokenizer that nobody knows, learned from the counts that the server sends: the ratio
 * to our estimate, for each kind of script by itself, because tokenizers differ most in scripts.
 */
export class TokenRatio {
  readonly #scripts = new Map<number, Samples>();

  /** The server has counted so many tokens for a text. */
  saw(text: string, tokens: number): void {
    const estimate = estimateTokens(text);
    if (estimate < SHORTEST || tokens <= 0) return;
    const script = scriptOf(text);
    const samples = this.#scripts.get(script) ?? { seen: [], next: 0, count: 0, median: 0, most: 0 };
    this.#scripts.set(script, samples);
    samples.seen[samples.next] = tokens / estimate;
    samples.next = (samples.next + 1) % REMEMBERED;
    samples.most = Math.max(samples.most, tokens / estimate);
    samples.count++;
    if (samples.count === ENOUGH || samples.count % LOOK_EVERY === 0) {
      const sorted = [...samples.seen].sort((a, b) => a - b);
      samples.median = sorted[sorted.length >> 1] ?? 0;
    }
  }

  /** The tokens that a text is likely to take; null while too little was seen of its script. No token has less than a byte. */
  likely(text: string): number | null {
    const samples = this.#known(text);
    if (samples === null) return null;
    return Math.min(Buffer.byteLength(text) + AROUND, Math.round(samples.median * estimateTokens(text)));
  }

  /**
   * The most that a text takes, as far as the others tell; no token has less than a byte. Each digit, sign and line end may be a token
   * of its own, and a table has many more of them than the prose before it.
   */
  most(text: string): number {
    const bytes = Buffer.byteLength(text) + AROUND;
    const samples = this.#known(text);
    return samples === null
      ? bytes
      : Math.min(bytes, Math.ceil(MARGIN * samples.most * estimateTokens(text)) + signsIn(text) + AROUND);
  }

  #known(text: string): Samples | null {
    const samples = this.#scripts.get(scriptOf(text));
    return samples !== undefined && samples.count >= ENOUGH ? samples : null;
  }
}

const signsIn = (text: string): number => text.match(/[^\p{L}\p{M} ]/gu)?.length ?? 0;

/** Texts with about as many bytes a character are of one kind: English, other European languages, all others. */
function scriptOf(text: string): number {
  const bytes = Buffer.byteLength(text) / Math.max(1, text.length);
  return bytes < 1.02 ? 0 : bytes < 1.4 ? 1 : bytes < 2.2 ? 2 : 3;
}
