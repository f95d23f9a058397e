import { type CsvError, Parser } from 'csv-parse';
import { errorCode, UsageError } from '../core/errors.js';
import type { Json, Problem, Row } from '../core/model.js';
import { CellScanner } from './cells.js';
import { dialectOf, parserOptions } from './dialect.js';
import { toUtf8 } from './encoding.js';
import { type InputFormat, nameOf } from './input.js';
import { readBeginning, refuseOtherThanTable } from './kind.js';
import { lineBreaks, RECORD_LIMIT, recordTooLarge } from './lines.js';

export const csv: InputFormat = table('csv', '.csv', ',');
export const tsv: InputFormat = table('tsv', '.tsv', '\t');

/** @param usual delimiter if none is given or detected */
function table(format: string, ending: string, usual: string): InputFormat {
  return {
    name: format,
    endings: [ending],
    hasHeader: true,
    hasJson: false,
    async *read(bytes, spec, listener) {
      const name = nameOf(spec);
      const text = await readBeginning(toUtf8(bytes, name, spec.encoding));
      try {
        refuseOtherThanTable(text, format, name);
        const dialect = dialectOf(text.head, text.isAll, { usual, given: spec.delimiter, name });
        const { delimiter, skippedBytes, note } = dialect;
        if (note !== null) listener.onNote(note);
        const skippedLines = skippedBytes > 0 ? 1 : 0;
        const onColumns = (columns: readonly string[]): void => listener.onColumns(columns);
        yield* readCsv(text.from(skippedBytes), { name, delimiter, skippedLines, onColumns });
      } finally {
        await text.close();
      }
    },
  };
}

interface CsvOptions {
  readonly name: string;
  readonly delimiter: string;
  /** Lines of the file before the first byte. @default 0 */
  readonly skippedLines?: number;
  /** Once, before the first row. */
  readonly onColumns: (columns: readonly string[]) => void;
}

/** Heap bytes of a cell besides its text: its array slot (arrays grow to 1.5 times) and the string header. */
const CELL_BYTES = 36;

/**
 * Rows in batches, cells unchanged to the byte. A blank line is no record, even with a single column: its
 * empty cell is written `""`. Quotes read as in Python's csv, except for the one where a {@link CellScanner}
 * cuts the text.
 * @param bytes valid UTF-8 without a byte-order mark, so that csv-parse does not guess
 * @throws UsageError `bad_quote`, `duplicate_column`, `record_too_large`, `bad_delimiter`
 */
export async function* readCsv(bytes: AsyncIterable<Buffer>, options: CsvOptions): AsyncGenerator<Row[]> {
  checkDelimiter(options);
  const records = new RecordReader(options);
  const scanner = new CellScanner(options.delimiter);
  const parser = new RecordParser(options.delimiter, (cells, { bytes, empty_lines }) => {
    scanner.restore(cells);
    records.add(cells, bytes + scanner.bytesAround, empty_lines);
  });
  // Errors arrive in the callbacks of write and end.
  parser.on('error', () => {});
  try {
    let lineEnds = 0;
    let bytesSince = 0;
    for await (const chunk of bytes) {
      await settled((done) => parser.write(scanner.write(chunk), done));
      bytesSince = scanner.lineEnds === lineEnds ? bytesSince + chunk.length : 0;
      lineEnds = scanner.lineEnds;
      if (bytesSince > RECORD_LIMIT) {
        // csv-parse reports the previous record only after some bytes of this one.
        await settled((done) => parser.write('x'.repeat(16), done));
        throw recordTooLarge(options.name, records.nextLine(parser.info.empty_lines));
      }
      yield records.take();
      if (scanner.isCut) break;
    }
    await settled((done) => parser.end(scanner.end(), done));
    yield records.take();
  } catch (error) {
    throw isCsvError(error) ? badQuote(error, parser, records, options) : error;
  } finally {
    parser.destroy();
  }
}

/** Reports each record at once: its line must be known when the next record has a fault. */
class RecordParser extends Parser {
  constructor(
    delimiter: string,
    private readonly onRecord: (cells: string[], info: Parser['info']) => void,
  ) {
    super(parserOptions(delimiter));
  }

  /** Replaces the option `on_record`, for which csv-parse builds an object each time: half of its time. */
  override push(cells: string[] | null): boolean {
    if (cells === null) return super.push(null);
    this.onRecord(cells, this.info);
    return true;
  }
}

class RecordReader {
  #columns: readonly string[] | null = null;
  #index: ColumnIndex = new Map();
  #rows: Row[] = [];
  #number = 0;
  #lastLine: number;
  #blankLines = 0;
  #bytes = 0;

  constructor(private readonly options: CsvOptions) {
    this.#lastLine = options.skippedLines ?? 0;
  }

  /**
   * @param bytes input position after the record
   * @param blankLines so far
   */
  add(cells: readonly string[], bytes: number, blankLines: number): void {
    // Counted here: csv-parse counts a CR LF inside a cell as two lines.
    const line = this.nextLine(blankLines);
    this.#lastLine = line + cells.reduce((sum, cell) => sum + lineBreaks(cell), 0);
    this.#blankLines = blankLines;
    const size = bytes - this.#bytes;
    this.#bytes = bytes;
    if (this.#columns === null) {
      this.#columns = columnNames(cells, this.options.name);
      this.#index = new Map(this.#columns.map((column, position) => [column, position]));
      this.options.onColumns(this.#columns);
      return;
    }
    this.#number++;
    const columns = this.#columns;
    const fields = new CellFields(this.#index, cells);
    const memoryBytes = size + cells.length * CELL_BYTES;
    const row: Row = { number: this.#number, line, fields, bytes: size, memoryBytes };
    this.#rows.push(
      cells.length === columns.length ? row : { ...row, problem: ragged(line, cells, columns) },
    );
  }

  nextLine(blankLines: number): number {
    return this.#lastLine + 1 + blankLines - this.#blankLines;
  }

  columnAt(index: number): string {
    return JSON.stringify(this.#columns?.[index] ?? `column_${index + 1}`);
  }

  take(): Row[] {
    const rows = this.#rows;
    this.#rows = [];
    return rows;
  }
}

/** An empty name becomes `column_1`. Duplicates are refused (fault 6). */
function columnNames(cells: readonly string[], name: string): readonly string[] {
  const columns = cells.map((cell, index) => (cell === '' ? `column_${index + 1}` : cell));
  const positions = new Map<string, number>();
  for (const [index, column] of columns.entries()) {
    const first = positions.get(column);
    if (first !== undefined) {
      throw new UsageError(
        'duplicate_column',
        `${name}, header: columns ${first} and ${index + 1} are both called ${JSON.stringify(column)}.`,
        'Give every column a name of its own.',
      );
    }
    positions.set(column, index + 1);
  }
  return columns;
}

function ragged(line: number, cells: readonly string[], columns: readonly string[]): Problem {
  return {
    code: 'ragged_record',
    message: `the record on line ${line} has ${cells.length} cells, and the header has ${columns.length}`,
  };
}

function checkDelimiter({ name, delimiter }: CsvOptions): void {
  if (delimiter !== '' && !/["\r\n]/.test(delimiter)) return;
  throw new UsageError(
    'bad_delimiter',
    `${name}: ${JSON.stringify(delimiter)} cannot separate cells.`,
    'Use a character such as , or ; or a tab in input.delimiter.',
  );
}

/** The only error left to csv-parse: a quote that opens a cell and never closes (fault 4). */
function badQuote(error: CsvError, parser: Parser, records: RecordReader, { name }: CsvOptions): UsageError {
  const line = records.nextLine(parser.info.empty_lines);
  const column = records.columnAt(Number(error['column']));
  return new UsageError(
    'bad_quote',
    `${name}: the record that begins on line ${line} has, in column ${column}, a quote that is never closed.`,
    'Close it. A cell that begins with a quote of its own is put in quotes, with every quote inside doubled: """Yes"", she said".',
    { cause: error },
  );
}

const isCsvError = (error: unknown): error is CsvError => errorCode(error).startsWith('CSV_');

function settled(start: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    start((error) => (error ? reject(error) : resolve()));
  });
}

type ColumnIndex = ReadonlyMap<string, number>;

/**
 * The fields of a record. All records share the names, so a row holds only its cells: a map per row with
 * 6,000 columns would take ten times the memory (fault 70).
 */
class CellFields implements ReadonlyMap<string, Json> {
  readonly size: number;

  /** @param cells in column order; a ragged record may have fewer or more */
  constructor(
    private readonly index: ColumnIndex,
    private readonly cells: readonly string[],
  ) {
    this.size = Math.min(index.size, cells.length);
  }

  get(name: string): string | undefined {
    const position = this.index.get(name);
    return position === undefined ? undefined : this.cells[position];
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  *entries(): MapIterator<[string, Json]> {
    for (const [name, position] of this.index) {
      const cell = this.cells[position];
      if (cell === undefined) return;
      yield [name, cell];
    }
  }

  *keys(): MapIterator<string> {
    for (const [name] of this.entries()) yield name;
  }

  *values(): MapIterator<Json> {
    for (const [, cell] of this.entries()) yield cell;
  }

  [Symbol.iterator](): MapIterator<[string, Json]> {
    return this.entries();
  }

  forEach(each: (value: Json, key: string, map: ReadonlyMap<string, Json>) => void): void {
    for (const [name, cell] of this.entries()) each(cell, name, this);
  }
}
