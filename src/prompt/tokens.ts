import { loadPackage } from '../core/load-package.js';
import type { Parameters, Problem, Prompt } from '../core/model.js';
import { candidatesOf, DEFAULT_MAX_TOKENS } from '../service/parameters.js';
import { promptText, textsOf } from './prompt-text.js';

/** cl100k_base for most models of the catalogue, p50k_base for the davinci model, o200k_base for newer ones. */
export type Encoding = 'cl100k_base' | 'p50k_base' | 'o200k_base';

/** Exact counts, as billed. Text like `<|endoftext|>` is plain text and never throws. */
export interface Tokenizer {
  count(text: string): number;
  encode(text: string): number[];
  /** Incomplete characters become U+FFFD. */
  decode(tokens: readonly number[]): string;
}

/**
 * The library's merge is quadratic in runs of one character class (100 KB of `a`: 7 s), so runs are cut here.
 * A cut costs a token or two; ordinary text has no such runs.
 */
const LONGEST_RUN = 512;
const LONG_RUN = new RegExp(
  [String.raw`\p{L}`, String.raw`\p{N}`, String.raw`\s`, String.raw`[^\s\p{L}\p{N}]`]
    .map((characters) => `${characters}{${LONGEST_RUN}}`)
    .join('|'),
  'gu',
);

/** The library's default of 100,000 may keep as many whole texts alive. */
const MERGES_REMEMBERED = 5_000;

/** Characters of a text after which the library's cache is cleared. */
const LARGE_TEXT = 65_536;

/**
 * The token of byte 0xFF in both encodings (their first 256 tokens are the bytes). The library has one
 * streaming decoder per process: a character cut at the end of one call would come out of the next. 0xFF is
 * never part of a character, so it flushes what is pending, as one U+FFFD of its own.
 */
const END_OF_CHARACTERS = 187;

const PLAIN_TEXT = { disallowedSpecial: new Set<string>() };

const loaded = new Map<Encoding, Tokenizer>();

/** Loaded on first use and kept: 100 ms and 40 MB for each encoding. */
export function loadTokenizer(encoding: Encoding): Tokenizer {
  const known = loaded.get(encoding);
  if (known) return known;
  const tokenizer = load(encoding);
  loaded.set(encoding, tokenizer);
  return tokenizer;
}

function load(encoding: Encoding): Tokenizer {
  const library: typeof import('gpt-tokenizer/encoding/cl100k_base') = loadPackage(
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

/** Splits a text at runs too long for the library. */
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

/** Exact. @param overhead tokens beside those of the texts */
export function promptCounter(
  tokenizer: Pick<Tokenizer, 'count'>,
  overhead: (prompt: Prompt) => number,
): (prompt: Prompt) => number {
  const counts: ((text: string) => number)[] = [];
  return (prompt) => {
    let tokens = overhead(prompt);
    for (const [i, text] of textsOf(prompt).entries()) {
      counts[i] ??= headCounter(tokenizer);
      tokens += counts[i](text);
    }
    return tokens;
  };
}

/**
 * Counts texts exactly, and the head they share only once: with examples in the template, that is most of
 * them.
 *
 * The head ends before a space that follows a non-space. Both tokenizers start a new token there, because
 * their patterns take a space only as a token's first character. So the two counts add up.
 */
function headCounter(tokenizer: Pick<Tokenizer, 'count'>): (text: string) => number {
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

export function commonLength(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++;
  return length;
}

/** The last place to cut within `length` characters; 0 for none. */
function cutWithin(text: string, length: number): number {
  for (let cut = text.lastIndexOf(' ', length - 1); cut > 0; cut = text.lastIndexOf(' ', cut - 1)) {
    if (/\S/.test(text.charAt(cut - 1))) return cut;
  }
  return 0;
}

/** Bytes of the longest token of cl100k_base (128 spaces) and of p50k_base. */
const LONGEST_TOKEN = 128;
/** Characters per token of room in the prefix that is counted first; English has some 4 per token. */
const PREFIX = 8;
/** Tokens that a cut through a token or a character may add. */
const CUT = 4;

/**
 * Rough token count, for pacing only; the actual usage corrects it. Four English characters are about a
 * token. Each byte of a character beyond the first adds a third, which fits accents, Cyrillic and CJK alike.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(text.length / 4 + (Buffer.byteLength(text) - text.length) / 3);
}

/** Most tokens that the service may generate for a prompt. */
export const mostGenerated = (parameters: Parameters): number =>
  (parameters.max_tokens ?? DEFAULT_MAX_TOKENS) * candidatesOf(parameters);

/**
 * Refuses only prompts that certainly do not fit the window; the service refuses others at no cost.
 *
 * Size in bytes decides most prompts: a token has between 1 and {@link LONGEST_TOKEN} bytes. Only between
 * these bounds are tokens counted, and of a long text a prefix first, so that a cell of 10 MB costs no more
 * than a short one (fault 7).
 * @param contextWindow tokens of prompt and completion together
 * @param tokenizer loaded only when needed
 * @returns `context_length_exceeded`, or null when the prompt may fit
 */
export function contextCheck(
  contextWindow: number,
  tokenizer: () => Pick<Tokenizer, 'count'>,
): (prompt: Prompt, maxTokens: number | null | undefined) => Problem | null {
  return (prompt, maxTokens) => {
    const generated = maxTokens ?? DEFAULT_MAX_TOKENS;
    const room = contextWindow - generated;
    const tokens = tokensAbove(promptText(prompt), room, tokenizer);
    if (tokens === null) return null;
    return {
      code: 'context_length_exceeded',
      message:
        `the prompt has at least ${tokens} tokens, and with max_tokens ${generated} does not fit the context ` +
        `window of ${contextWindow} tokens`,
    };
  };
}

/** A lower bound of the text's tokens, if certainly above `room`; else null. */
function tokensAbove(text: string, room: number, tokenizer: () => Pick<Tokenizer, 'count'>): number | null {
  const bytes = Buffer.byteLength(text);
  if (bytes <= room) return null;
  const least = Math.ceil(bytes / LONGEST_TOKEN);
  if (least > room) return least;
  const { count } = tokenizer();
  if (text.length > PREFIX * room) {
    // Both tokenizers start a new token at a space.
    const space = text.lastIndexOf(' ', PREFIX * room);
    const counted = count(text.slice(0, space > 0 ? space : PREFIX * room)) - CUT;
    if (counted > room) return counted;
  }
  const counted = count(text);
  return counted > room ? counted : null;
}
