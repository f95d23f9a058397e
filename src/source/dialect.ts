import { parse } from 'csv-parse/sync';
import { UsageError } from '../core/errors.js';
import { CellScanner } from './cells.js';

export interface Dialect {
  readonly delimiter: string;
  /** Bytes before the header that are no record. */
  readonly skippedBytes: number;
  /** How the delimiter was found, for people; null for the usual or the given one. */
  readonly note: string | null;
}

const KNOWN: readonly (readonly [delimiter: string, name: string])[] = [
  [',', 'commas'],
  [';', 'semicolons'],
  ['\t', 'tabs'],
  ['|', 'vertical bars'],
];

/** Records examined, the header included. */
const SAMPLE = 50;

/** Share of the records that must have the header's number of cells: a few ragged ones do not matter. */
const MOST = 0.8;

/**
 * The delimiter: the job's; else the first line's (`sep=;`, as Excel writes it); else the usual one, unless
 * the header lacks it and another one divides header and records into equal numbers of cells.
 * @param head the beginning of the text
 * @param isAll nothing follows
 * @param usual the delimiter of the format
 * @param given `input.delimiter`
 * @throws UsageError `ambiguous_delimiter`
 */
export function dialectOf(
  head: Buffer,
  isAll: boolean,
  {
    usual,
    given,
    name,
  }: { readonly usual: string; readonly given: string | undefined; readonly name: string },
): Dialect {
  const said = /^"?sep=([^"\r\n])"?(?:\r\n|\n|\r)/iu.exec(head.toString('utf8', 0, 20));
  const skippedBytes = said === null ? 0 : Buffer.byteLength(said[0]);
  if (given !== undefined) return { delimiter: given, skippedBytes, note: null };
  if (said?.[1] !== undefined) {
    return {
      delimiter: said[1],
      skippedBytes,
      note: `cells are separated as its first line says, ${said[0].trim()}`,
    };
  }
  const delimiter = detected(head, isAll, usual, name);
  if (delimiter === usual) return { delimiter, skippedBytes: 0, note: null };
  return {
    delimiter,
    skippedBytes: 0,
    note: `cells are separated by ${nameOf(delimiter)}, not by ${nameOf(usual)}`,
  };
}

function detected(head: Buffer, isAll: boolean, usual: string, name: string): string {
  const usually = cellCounts(head, isAll, usual);
  if ((usually[0] ?? 1) > 1) return usual;
  const others = KNOWN.map(([delimiter]) => delimiter).filter((delimiter) => delimiter !== usual);
  const dividing = others
    .filter((delimiter) => head.includes(delimiter))
    .map((delimiter) => ({ delimiter, counts: cellCounts(head, isAll, delimiter) }))
    .filter(({ counts }) => (counts[0] ?? 0) > 1);
  const fitting = dividing.filter(({ counts }) => fits(counts));
  const only = fitting[0];
  if (only !== undefined && fitting.length === 1) return only.delimiter;
  if (dividing.length === 0 || (fitting.length === 0 && fits(usually))) return usual;
  const names = dividing.map(({ delimiter }) => nameOf(delimiter)).join(' and ');
  throw new UsageError(
    'ambiguous_delimiter',
    `${name}: the header has no ${nameOf(usual)} and some ${names}, and the records do not tell what separates the cells.`,
    `Set it in the job file: input.delimiter: ${JSON.stringify(dividing[0]?.delimiter)}, or ${JSON.stringify(usual)} for one column.`,
  );
}

function fits([header, ...records]: readonly number[]): boolean {
  return records.filter((count) => count === header).length >= records.length * MOST;
}

export const parserOptions = (delimiter: string) => ({
  delimiter,
  // All by name: csv-parse would settle on the first it sees, and mixed ends would not parse (fault 3).
  record_delimiter: ['\r\n', '\n', '\r'],
  relax_column_count: true,
  relax_quotes: true,
  skip_empty_lines: true,
});

/** Of the header and the first records, without the record that the head cuts off. */
function cellCounts(head: Buffer, isAll: boolean, delimiter: string): number[] {
  const scanner = new CellScanner(delimiter);
  const text = Buffer.concat([scanner.write(head), scanner.end()]);
  const counts: number[] = [];
  try {
    parse(text, {
      ...parserOptions(delimiter),
      to: SAMPLE,
      on_record: (cells) => {
        counts.push(cells.length);
        return null;
      },
    });
  } catch {
    // A quote is open where the head ends; if it never closes, reading reports it with its line.
  }
  if (!isAll && counts.length < SAMPLE) counts.pop();
  return counts;
}

const nameOf = (delimiter: string): string => KNOWN.find(([known]) => known === delimiter)?.[1] ?? delimiter;
