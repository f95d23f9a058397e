const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const QUOTES = Buffer.from('"');
const NOTHING = Buffer.alloc(0);
/** From this length on, going around csv-parse is cheaper than going through it. */
const LONG_BYTES = 24;

interface LongCell {
  readonly text: string;
  /** Bytes that csv-parse would have read, quotes included. */
  readonly bytes: number;
}

/**
 * Finds the cells, and gives csv-parse a text that it reads correctly and fast.
 *
 * _Correct:_ cells read as in Python's csv, pandas and spreadsheets (fault 71). A quote inside a cell that
 * does not begin with one is data for them and, with `relax_quotes`, for csv-parse. Text after a closing
 * quote belongs to the cell for them: `"abc"def` is `abcdef`. So the closing quote moves to the end of the
 * cell, and quotes before it are doubled: `"abcdef"`.
 *
 * One exception: a quoted cell over several lines with text after its quote is most likely a quote that was
 * never closed and met the opening quote of a later record; Python would swallow the rows between (fault 4).
 * The text ends there, so that csv-parse finds the cell unclosed.
 *
 * _Fast:_ csv-parse takes 35 ns per byte. So long cells go around it: csv-parse reads a mark, one character
 * that no other cell begins with, and {@link restore} replaces it in the record.
 */
export class CellScanner {
  readonly #delimiter: Buffer;
  readonly #mark: Buffer;
  /** Bytes whose meaning depends on the next chunk. */
  #held: Buffer = NOTHING;
  #state: 'start' | 'bare' | 'quoted' | 'behind' = 'start';
  /** Content so far, without quotes, of a cell that a chunk cut or that has text after its quote. */
  #pieces: Buffer[] = [];
  #overLines = false;
  #long: LongCell[] = [];
  #restored = 0;
  /** Bytes of restored records that csv-parse has not read. */
  bytesAround = 0;
  /** Line ends outside quotes so far: each ends a record or a blank line, which csv-parse reports later. */
  lineEnds = 0;
  /** A quote is never closed: nothing after it is passed on. */
  isCut = false;

  constructor(delimiter: string) {
    this.#delimiter = Buffer.from(delimiter);
    this.#mark = Buffer.of(delimiter.startsWith('\0') ? 1 : 0);
  }

  write(chunk: Buffer): Buffer {
    return this.#pass(chunk, false);
  }

  end(): Buffer {
    return this.#pass(NOTHING, true);
  }

  /** Puts the long cells into a record of csv-parse. Call for every record, in order. */
  restore(cells: string[]): void {
    for (let i = 0; i < cells.length && this.#restored < this.#long.length; i++) {
      const long = this.#long[this.#restored];
      if (long === undefined || cells[i]?.charCodeAt(0) !== this.#mark[0]) continue;
      cells[i] = long.text;
      this.bytesAround += long.bytes - this.#mark.length;
      this.#restored++;
    }
  }

  #pass(chunk: Buffer, last: boolean): Buffer {
    if (this.isCut) return NOTHING;
    this.#long = this.#long.slice(this.#restored);
    this.#restored = 0;
    const text = Buffer.concat([this.#held, chunk]);
    // A quote and the delimiter after it must be seen together.
    const end = last ? text.length : text.length - this.#delimiter.length;
    const out: Buffer[] = [];
    let joined = this.#pieces.length;
    let at = 0;
    // The text up to here is in `out`, in the pieces or in a long cell.
    let passed = 0;
    // Start of the cell, and of its content that is in no piece yet.
    let cell = 0;
    let content = 0;
    const addPiece = (to: number): void => {
      out.push(text.subarray(passed, cell));
      this.#pieces.push(text.subarray(content, to));
      [passed, cell, content] = [to, to, to];
    };
    const endCell = (to: number, next: number): void => {
      if (this.#pieces.length > 0 || this.#isLong(text, content, to)) {
        addPiece(to);
        out.push(this.#passedFor(Buffer.concat(this.#pieces)));
        this.#pieces = [];
        joined = 0;
        passed = next;
      }
      this.#state = 'start';
      if (text[next] === LF || text[next] === CR) this.lineEnds++;
      at = next + this.#separatorAt(text, next);
    };

    while (at < end) {
      if (this.#state === 'start') {
        cell = at;
        this.#state = text[at] === QUOTE ? 'quoted' : 'bare';
        if (this.#state === 'quoted') at++;
        content = at;
      } else if (this.#state === 'bare') {
        at = this.#nextSeparator(text, at, end);
        if (at < end) endCell(at, at);
      } else if (this.#state === 'quoted') {
        const quote = text.indexOf(QUOTE, at);
        if (quote < 0 || quote >= end) at = end;
        else if (text[quote + 1] === QUOTE) at = quote + 2;
        else if (quote + 1 === text.length || this.#separatorAt(text, quote + 1) > 0) {
          endCell(quote, quote + 1);
        } else {
          addPiece(quote);
          this.#overLines = this.#pieces.some((piece) => piece.includes(LF) || piece.includes(CR));
          this.#state = 'behind';
          at = quote + 1;
          content = at;
        }
      } else if (this.#separatorAt(text, at) > 0) {
        endCell(at, at);
      } else if (this.#overLines && text[at] !== SPACE && text[at] !== TAB) {
        this.isCut = true;
        break;
      } else {
        if (text[at] === QUOTE) {
          addPiece(at + 1);
          content = at;
        }
        at++;
      }
    }
    if (last && (this.#state === 'bare' || this.#state === 'behind') && !this.isCut) endCell(at, at);
    if (this.#state !== 'start') addPiece(at);
    // Each quote after the closing one makes a piece, and a cell may have millions of them.
    if (this.#pieces.length > joined) this.#pieces.push(Buffer.concat(this.#pieces.splice(joined)));
    out.push(text.subarray(passed, at));
    if (this.isCut || (last && this.#state === 'quoted')) out.push(QUOTES);
    this.#held = text.subarray(at);
    return Buffer.concat(out);
  }

  /** Text for csv-parse in place of a whole cell. */
  #passedFor(content: Buffer): Buffer {
    const isQuoted = this.#state !== 'bare';
    if (!this.#isLong(content, 0, content.length)) {
      return isQuoted ? Buffer.concat([QUOTES, content, QUOTES]) : content;
    }
    this.#long.push({
      text: (isQuoted ? withoutDoubles(content) : content).toString(),
      bytes: content.length + (isQuoted ? 2 : 0),
    });
    return this.#mark;
  }

  /** A cell that begins like the mark counts as long. */
  #isLong(text: Buffer, from: number, to: number): boolean {
    return to - from >= LONG_BYTES || (to > from && text[from] === this.#mark[0]);
  }

  #nextSeparator(text: Buffer, from: number, end: number): number {
    const first = this.#delimiter[0];
    for (let at = from; at < end; at++) {
      const byte = text[at];
      if (byte !== LF && byte !== CR && byte !== first) continue;
      if (this.#separatorAt(text, at) > 0) return at;
    }
    return end;
  }

  /** Length of the delimiter or line end here; 0 if there is none. */
  #separatorAt(text: Buffer, at: number): number {
    const byte = text[at];
    if (byte === LF || byte === CR) return 1;
    const { length } = this.#delimiter;
    if (byte !== this.#delimiter[0]) return 0;
    return length === 1 || text.subarray(at, at + length).equals(this.#delimiter) ? length : 0;
  }
}

/** Undoes the doubling of quotes. */
function withoutDoubles(content: Buffer): Buffer {
  const first = content.indexOf(QUOTE);
  if (first < 0) return content;
  const single = Buffer.allocUnsafe(content.length);
  content.copy(single, 0, 0, first);
  let length = first;
  for (let at = first; at < content.length; at++) {
    const byte = content[at] ?? 0;
    single[length++] = byte;
    if (byte === QUOTE) at++;
  }
  return single.subarray(0, length);
}
