import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

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

const loaded = new Map<Encoding, Tokenizer>();

/**
 * Loads one encoding when it is first asked for, and keeps it. That takes some 100 ms and 40 MB, so whoever can do without
 * does not ask.
 */
export function loadTokenizer(encoding: Encoding): Tokenizer {
  const known = loaded.get(encoding);
  if (known) return known;
  const tokenizer = load(encoding);
  loaded.set(encoding, tokenizer);
  return tokenizer;
}

function load(encoding: Encoding): Tokenizer {
  const library: typeof import('gpt-tokenizer/encoding/cl100k_base') = require(
    `gpt-tokenizer/encoding/${encoding}`,
  );
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

/**
 * Counts prompts one after the other, exactly. Prompts of one template begin alike, and their common head is counted
 * once: a template with a few examples in it is most of its prompts.
 *
 * The head ends before a space that follows anything but white space. There both tokenizers begin a new token, whatever
 * stands around it, because their patterns take a space only as the first character of a token. So the tokens of the
 * two parts add up to those of the whole.
 */
export function promptCounter(tokenizer: Pick<Tokenizer, 'count'>): (prompt: string) => number {
  let head = '';
  let headTokens = 0;
  let previous = '';
  return (prompt) => {
    if (head === '' || !prompt.startsWith(head)) {
      head = prompt.slice(0, cutWithin(prompt, commonLength(previous, prompt)));
      headTokens = tokenizer.count(head);
    }
    previous = prompt;
    return headTokens + tokenizer.count(prompt.slice(head.length));
  };
}

/** How many characters two texts have in common from their beginning. */
function commonLength(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++;
  return length;
}

/** The last place among the first characters of a text where it may be cut; 0 when there is none. */
function cutWithin(text: string, length: number): number {
  for (let cut = text.lastIndexOf(' ', length - 1); cut > 0; cut = text.lastIndexOf(' ', cut - 1)) {
    if (/\S/.test(text.charAt(cut - 1))) return cut;
  }
  return 0;
}
