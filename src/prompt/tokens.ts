/** The tokenizers of the service's models: cl100k_base for the instruct model, p50k_base for the davinci model. */
export type Encoding = 'cl100k_base' | 'p50k_base';

/** Exact token counts, as the service bills them. Text like `<|endoftext|>` is plain text and never throws. */
export interface Tokenizer {
  /** Number of tokens of a text. */
  count(text: string): number;
  encode(text: string): number[];
  /** Tokens back to text; bytes that are no complete character become U+FFFD. */
  decode(tokens: readonly number[]): string;
}

/**
 * The library's merge takes time with the square of a run of one character class (100 KB of `a`: 7 s), so such
 * runs are cut after this many characters. A cut costs at most a token or two; no ordinary text has such runs.
 */
const LONGEST_RUN = 512;
const LONG_RUN = new RegExp(
  [String.raw`\p{L}`, String.raw`\p{N}`, String.raw`\s`, String.raw`[^\s\p{L}\p{N}]`]
    .map((characters) => `${characters}{${LONGEST_RUN}}`)
    .join('|'),
  'gu',
);

/**
 * The library remembers 100,000 merges by default, each of which may keep its whole text alive; memory must not
 * grow with the input.
 */
const MERGES_REMEMBERED = 5_000;

/** Texts above this length (characters) are not left behind in the library's memory at all. */
const LARGE_TEXT = 65_536;

/**
 * The token of the byte 0xFF in both encodings (their first 256 tokens are the bytes). The library decodes with
 * one streaming decoder for the whole process, so a character that is cut at the end of one call would come out
 * in the next call. 0xFF is never part of a character, so it ends what is pending, as one U+FFFD of its own.
 */
const END_OF_CHARACTERS = 187;

const PLAIN_TEXT = { disallowedSpecial: new Set<string>() };

const loaded = new Map<Encoding, Promise<Tokenizer>>();

/** Loads one encoding (some 50 to 100 ms, once per process) and keeps it. */
export function loadTokenizer(encoding: Encoding): Promise<Tokenizer> {
  const known = loaded.get(encoding);
  if (known) return known;
  const loading = load(encoding);
  loaded.set(encoding, loading);
  return loading;
}

async function load(encoding: Encoding): Promise<Tokenizer> {
  const library =
    encoding === 'cl100k_base'
      ? await import('gpt-tokenizer/encoding/cl100k_base')
      : await import('gpt-tokenizer/encoding/p50k_base');
  library.setMergeCacheSize(MERGES_REMEMBERED);

  const eachSegment = (text: string, visit: (segment: string) => void): void => {
    for (const segment of segments(text)) visit(segment);
    if (text.length > LARGE_TEXT) library.clearMergeCache();
  };

  return {
    count(text) {
      let count = 0;
      eachSegment(text, (segment) => {
        count += library.countTokens(segment, PLAIN_TEXT);
      });
      return count;
    },
    encode(text) {
      const tokens: number[] = [];
      eachSegment(text, (segment) => {
        for (const token of library.encode(segment, PLAIN_TEXT)) tokens.push(token);
      });
      return tokens;
    },
    decode(tokens) {
      return library.decode([...tokens, END_OF_CHARACTERS]).slice(0, -1);
    },
  };
}

/** The text itself, or its parts when it contains runs that are too long for the library. */
function segments(text: string): string[] {
  if (text.length < LONGEST_RUN) return [text];
  const parts: string[] = [];
  let start = 0;
  for (const run of text.matchAll(LONG_RUN)) {
    const end = run.index + run[0].length;
    parts.push(text.slice(start, end));
    start = end;
  }
  parts.push(text.slice(start));
  return parts;
}
