import { estimateTokens } from '../prompt/tokens.js';

/** Samples kept for each script; their median is accurate to a few percent. */
const REMEMBERED = 99;
/** Samples from which on a ratio is used. */
const ENOUGH = 3;
const LOOK_EVERY = 8;
/** A text may take this many times more tokens than any sample. */
const MARGIN = 1.25;
/** Estimated tokens below which a text is no sample. */
const SHORTEST = 16;
/** Tokens that some servers add around a text. */
export const AROUND = 2;

interface Samples {
  readonly seen: number[];
  next: number;
  count: number;
  median: number;
  most: number;
}

/**
 * Learns from the server's counts how an unknown tokenizer compares to our estimate, for each kind of script
 * by itself, because tokenizers differ most there.
 */
export class TokenRatio {
  readonly #scripts = new Map<number, Samples>();

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

  /** Likely tokens of a text, at most its bytes; null while too few samples of its script were seen. */
  likely(text: string): number | null {
    const samples = this.#known(text);
    if (samples === null) return null;
    return Math.min(Buffer.byteLength(text) + AROUND, Math.round(samples.median * estimateTokens(text)));
  }

  /**
   * Upper bound, judging by the samples; at most the bytes. Each digit, sign and line end may be a token, and
   * a table has many more of them than prose.
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

/** Texts by bytes per character: English, other European languages, two kinds of all others. */
function scriptOf(text: string): number {
  const bytes = Buffer.byteLength(text) / Math.max(1, text.length);
  return bytes < 1.02 ? 0 : bytes < 1.4 ? 1 : bytes < 2.2 ? 2 : 3;
}
