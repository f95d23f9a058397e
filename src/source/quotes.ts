const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const CLOSING = Buffer.from('"');
const NOTHING = Buffer.alloc(0);

/**
 * Puts quotes where csv-parse expects them, so that cells come out as Python's csv, pandas and spreadsheets read
 * them (fault 71). A quote inside a cell that does not begin with one is data for them and, with `relax_quotes`, for
 * csv-parse. Text behind the quote that closes a cell belongs to the cell for them: `"abc"def` is `abcdef`. So the
 * closing quote moves to the end of the cell, and a quote on its way is doubled: `"abcdef"`.
 *
 * With one exception. A quoted cell over several lines that has text behind its quote is, far more likely, a quote
 * that was never closed and has met the opening quote of a later record; Python would swallow the rows between
 * (fault 4). There the text ends, so that the parser finds the cell unclosed.
 */
export class QuoteMender {
  readonly #delimiter: Buffer;
  /** The end of what was passed on: long enough to tell a delimiter before a quote. */
  #before: Buffer = NOTHING;
  /** Bytes whose meaning the next chunk decides. */
  #held: Buffer = NOTHING;
  #state: 'outside' | 'quoted' | 'behind' = 'outside';
  /** The quoted cell has a line's end in it. */
  #overLines = false;
  /** A quote is never closed: nothing after it is passed on. */
  isCut = false;

  constructor(delimiter: string) {
    this.#delimiter = Buffer.from(delimiter);
  }

  write(chunk: Buffer): Buffer {
    return this.#pass(chunk, false);
  }

  end(): Buffer {
    return this.#pass(NOTHING, true);
  }

  #pass(chunk: Buffer, last: boolean): Buffer {
    if (this.isCut) return NOTHING;
    const start = this.#before.length;
    const text = Buffer.concat([this.#before, this.#held, chunk]);
    const out: Buffer[] = [];
    let at = start;
    let passed = start;
    // Where the search for a line's end inside the quoted cell goes on.
    let content = start;
    /** Whether a meaning needs more bytes than there are. */
    const cutOff = (position: number): boolean => !last && text.length - position < this.#delimiter.length;

    while (at < text.length) {
      if (this.#state === 'behind') {
        if (cutOff(at)) break;
        if (this.#endsCell(text, at)) {
          out.push(text.subarray(passed, at), CLOSING);
          passed = at;
          this.#state = 'outside';
          continue;
        }
        if (this.#overLines && text[at] !== SPACE && text[at] !== TAB) {
          this.isCut = true;
          break;
        }
        if (text[at] === QUOTE) {
          out.push(text.subarray(passed, at), CLOSING);
          passed = at;
        }
        at++;
        continue;
      }
      const quote = text.indexOf(QUOTE, at);
      if (quote < 0) {
        at = text.length;
      } else if (this.#state === 'outside') {
        at = quote + 1;
        if (!this.#beginsCell(text, quote)) continue;
        this.#state = 'quoted';
        this.#overLines = false;
        content = at;
      } else if (text[quote + 1] === QUOTE) {
        at = quote + 2;
      } else if (cutOff(quote + 1)) {
        at = quote;
        break;
      } else if (quote + 1 === text.length || this.#endsCell(text, quote + 1)) {
        at = quote + 1;
        this.#state = 'outside';
      } else {
        this.#overLines ||= hasLineEnd(text.subarray(content, quote));
        out.push(text.subarray(passed, quote));
        at = quote + 1;
        passed = at;
        this.#state = 'behind';
      }
    }
    if (this.#state === 'quoted') this.#overLines ||= hasLineEnd(text.subarray(content, at));
    out.push(text.subarray(passed, at));
    if (last && this.#state === 'behind' && !this.isCut) out.push(CLOSING);
    this.#held = text.subarray(at);
    this.#before = text.subarray(Math.max(0, at - this.#delimiter.length), at);
    return Buffer.concat(out);
  }

  /** The quote is the first byte of its cell. */
  #beginsCell(text: Buffer, quote: number): boolean {
    if (quote === 0) return true;
    const previous = text[quote - 1];
    return previous === LF || previous === CR || this.#isDelimiter(text, quote - this.#delimiter.length);
  }

  /** What stands here ends the cell before it. */
  #endsCell(text: Buffer, at: number): boolean {
    return text[at] === LF || text[at] === CR || this.#isDelimiter(text, at);
  }

  #isDelimiter(text: Buffer, at: number): boolean {
    const { length } = this.#delimiter;
    if (at < 0 || text[at] !== this.#delimiter[0]) return false;
    return length === 1 || text.compare(this.#delimiter, 0, length, at, at + length) === 0;
  }
}

function hasLineEnd(text: Buffer): boolean {
  return text.includes(LF) || text.includes(CR);
}
