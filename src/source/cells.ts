const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const TAB = 0x09;
const QUOTES = Buffer.from('"');
const NOTHING = Buffer.alloc(0);
/** From so many bytes on a cell is long: going around csv-parse costs less than going through it. */
const LONG_BYTES = 24;

/** A cell that goes around csv-parse. */
interface LongCell {
  readonly text: string;
  /** Bytes that csv-parse would have read of it, its quotes included. */
  readonly bytes: number;
}

/**
 * Finds where cells begin and end, and gives csv-parse a text that it reads right and fast.
 *
 * _Right:_ cells come out as Python's csv, pandas and spreadsheets read them (fault 71). A quote inside a cell that does
 * not begin with one is data for them and, with `relax_quotes`, for csv-parse. Text behind the quote that closes a cell
 * belongs to the cell for them: `"abc"def` is `abcdef`. So the closing quote moves to the end of the cell, and a quote on
 * its way is doubled: `"abcdef"`.
 *
 * With one exception. A quoted cell over several lines that has text behind its quote is, far more likely, a quote
 * that was never closed and has met the opening quote of a later record; Python would swallow the rows between
 * (fault 4). There the text ends, so that csv-parse finds the cell unclosed.
 *
 * _Fast:_ csv-parse takes 35 ns for a byte. So the text of a long cell goes around it: csv-parse reads a mark instead, one
 * character that no other cell begins with, and {@link restore} replaces it in the record.
 */
export class CellScanner {
  readonly #delimiter: Buffer;
  readonly #mark: Buffer;
  /** Bytes whose meaning the next chunk decides. */
  #held: Buffer = NOTHING;
  #state: 'start' | 'bare' | 'quoted' | 'behind' = 'start';
  /** What came so far of a cell that a chunk's end cut or that has text behind its quote, without its quotes. */
  #pieces: Buffer[] = [];
  /** The cell with text behind its quote has a line's end in it. */
  #overLines = false;
  #long: LongCell[] = [];
  #restored = 0;
  /** Bytes of the restored records that csv-parse has not read. */
  bytesAround = 0;
  /** Ends of lines outside of quotes so far: each ends a record or a blank line, which csv-parse tells later. */
  lineEnds = 0;
  /** A quote is never closed: nothing after it is passed on. */
  isCut = false;

  constructor(delimiter: string) {
    this.#delimiter = Buffer.from(delimiter);
    this.#mark = Buffer.of(delimiter.startsWith('\0') ? 1 : 0);
  }

  /** @returns what csv-parse is to read */
  write(chunk: Buffer): Buffer {
    return this.#pass(chunk, false);
  }

  end(): Buffer {
    return this.#pass(NOTHING, true);
  }

  /** Puts the long cells into a record of csv-parse. For every record, in order. */
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
    // A quote and a delimiter behind it are looked at together.
    const end = last ? text.length : text.length - this.#delimiter.length;
    const out: Buffer[] = [];
    // Pieces of earlier chunks.
    let joined = this.#pieces.length;
    let at = 0;
    // Up to here the text is in `out`, in the pieces or in a long cell.
    let passed = 0;
    // Where the cell begins, and where its content that is in no piece yet.
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
    // Each quote behind the one that closes a cell makes a piece, and a cell may have millions of them.
    if (this.#pieces.length > joined) this.#pieces.push(Buffer.concat(this.#pieces.splice(joined)));
    out.push(text.subarray(passed, at));
    if (this.isCut || (last && this.#state === 'quoted')) out.push(QUOTES);
    this.#held = text.subarray(at);
    return Buffer.concat(out);
  }

  /** What csv-parse reads for a whole cell. */
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

  /** Where the next delimiter or line's end stands; `end` where none stands before. */
  #nextSeparator(text: Buffer, from: number, end: number): number {
    const first = this.#delimiter[0];
    for (let at = from; at < end; at++) {
      const byte = text[at];
      if (byte !== LF && byte !== CR && byte !== first) continue;
      if (this.#separatorAt(text, at) > 0) return at;
    }
    return end;
  }

  /** Bytes of the delimiter or the line's end that stands here; 0 where there is none. */
  #separatorAt(text: Buffer, at: number): number {
    const byte = text[at];
    if (byte === LF || byte === CR) return 1;
    const { length } = this.#delimiter;
    if (byte !== this.#delimiter[0]) return 0;
    return length === 1 || text.subarray(at, at + length).equals(this.#delimiter) ? length : 0;
  }
}

/** The content of a quoted cell, each of whose quotes is doubled. */
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
