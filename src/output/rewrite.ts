import { UsageError } from '../errors.js';
import type { Fields, OutputFormat, Place } from './record.js';

/*
 * An output written anew with some of its records changed. What is not changed is copied as it is, byte for byte, and nothing
 * but the records of one piece of the file is in memory.
 */

/** A record as it stands in an output. */
export interface StandingRecord {
  /** Of its row, from 1. */
  readonly number: number;
  /** Where it begins, in bytes of the output. */
  readonly at: number;
  /** With its line end. */
  readonly bytes: Buffer;
  /** Its values by their names there: cells of CSV as text, parts of JSONL as JSON. */
  readonly fields: Fields;
  /** These names, in their order. */
  names(): readonly string[];
}

/**
 * What becomes of a record: `null` leaves it as it is, a map has the new text of some of its values by their names, as the
 * format writes them (a name that the record does not have is left out), and a text takes the place of the whole record.
 */
export type Change = null | ReadonlyMap<string, string> | string;

/** Records of a batch: so few that they are gone before a collection of garbage copies them, which took a quarter of the time. */
const TOGETHER = 64;

/** How an output is called in messages whose path is not told. */
const UNNAMED = 'the output';

/**
 * The records of an output in their order, in batches.
 * @param name of the output, for messages
 */
export async function* standingRecords(
  bytes: AsyncIterable<Buffer>,
  format: OutputFormat,
  name = UNNAMED,
): AsyncGenerator<StandingRecord[]> {
  const lineOf = lineReader(format, name);
  for await (const lines of recordsWithEnds(bytes, format)) {
    for (let i = 0; i < lines.length; i += TOGETHER)
      yield lines.slice(i, i + TOGETHER).flatMap((line) => lineOf(line).record ?? []);
  }
}

/** The bytes of an output, with the records changed for which `change` says so. It is asked once for each, in their order. */
export async function* rewritten(
  bytes: AsyncIterable<Buffer>,
  format: OutputFormat,
  change: (record: StandingRecord) => Change,
): AsyncGenerator<Buffer> {
  const lineOf = lineReader(format, UNNAMED);
  for await (const lines of recordsWithEnds(bytes, format)) {
    const pieces = lines.map((line) => {
      const { record, with: changedTo } = lineOf(line);
      const changed = record === null ? null : change(record);
      if (changed === null) return line;
      return typeof changed === 'string' ? Buffer.from(changed) : changedTo(changed);
    });
    if (pieces.length > 0) yield Buffer.concat(pieces);
  }
}

/**
 * The bytes of an output, with some of its records replaced by those of another.
 * @param numbers of the rows whose records are replaced, in order
 * @param others an output with their records, in the same order
 */
export async function* merged(
  bytes: AsyncIterable<Buffer>,
  format: OutputFormat,
  numbers: Iterable<number>,
  others: AsyncIterable<Buffer>,
): AsyncGenerator<Buffer> {
  const places = numbers[Symbol.iterator]();
  const batches = recordsOf(others, format);
  let records: readonly Buffer[] = [];
  let taken = 0;
  let place = places.next();
  let number = 0;
  const isRecord = recordTest(format);
  for await (const lines of recordsWithEnds(bytes, format)) {
    const pieces: Buffer[] = [];
    for (const line of lines) {
      if (place.done || !isRecord(line) || ++number !== place.value) {
        pieces.push(line);
        continue;
      }
      while (taken === records.length) {
        const next = await batches.next();
        if (next.done) throw new Error(`no record for row ${number}`);
        records = next.value;
        taken = 0;
      }
      pieces.push(records[taken++] ?? line);
      place = places.next();
    }
    if (pieces.length > 0) yield Buffer.concat(pieces);
  }
  let left = records.length - taken;
  for await (const more of batches) left += more.length;
  if (!place.done || left > 0) throw new Error('records are left over');
}

/** The bytes of the records alone. */
async function* recordsOf(bytes: AsyncIterable<Buffer>, format: OutputFormat): AsyncGenerator<Buffer[]> {
  const isRecord = recordTest(format);
  for await (const lines of recordsWithEnds(bytes, format)) yield lines.filter(isRecord);
}

/** Tells, asked for every line in order, the records from the header and blank lines. */
function recordTest({ hasHeader }: OutputFormat): (line: Buffer) => boolean {
  let isHeader = hasHeader;
  return (line) => {
    if (isBlank(line)) return false;
    const isRecord = !isHeader;
    isHeader = false;
    return isRecord;
  };
}

/** A line of an output, or several where a record has line breaks in it. */
interface Line {
  /** Null for the header and for blank lines. */
  readonly record: StandingRecord | null;
  with(values: ReadonlyMap<string, string>): Buffer;
}

/** What reads the lines of an output, each once, in their order. */
function lineReader(format: OutputFormat, name: string): (line: Buffer) => Line {
  let number = 0;
  let at = 0;
  let read = format.hasHeader ? null : recordReader(format, Buffer.alloc(0), name);
  return (bytes) => {
    const start = at;
    at += bytes.length;
    if (isBlank(bytes)) return { record: null, with: () => bytes };
    if (read === null) {
      read = recordReader(format, bytes, name);
      return { record: null, with: () => bytes };
    }
    const { fields, placeOf, names } = read(bytes, ++number);
    return {
      record: { number, at: start, bytes, fields, names },
      with: (values) => spliced(bytes, values, placeOf),
    };
  };
}

/**
 * Finds the values in the bytes of a record, when they are asked for.
 * @param header the first record, where the format has one
 * @param output its name, for messages
 * @returns what it gives throws UsageError `output_edited` for a record that is no JSON, such as one that is cut off
 */
export function recordReader(format: OutputFormat, header: Buffer, output: string) {
  const places = format.places(header);
  const namesIn = format.names(header);
  return (record: Buffer, number: number) => {
    let found: ReturnType<typeof places> | null = null;
    const placeOf = (name: string): Place | null => {
      found ??= orEdited(number, output, () => places(record));
      return found(name);
    };
    const fields: Fields = {
      has: (name) => placeOf(name) !== null,
      get: (name) => {
        const place = placeOf(name);
        if (place === null) return undefined;
        return orEdited(number, output, () => format.value(record.toString('utf8', place.start, place.end)));
      },
    };
    return { fields, placeOf, names: () => orEdited(number, output, () => namesIn(record)) };
  };
}

function orEdited<T>(number: number, output: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new UsageError(
      'output_edited',
      `row ${number} of ${output} is not as the run wrote it: ${error.message}`,
      'Put the file of the run back.',
    );
  }
}

/** A record with other texts in the places of some values. */
function spliced(
  record: Buffer,
  values: ReadonlyMap<string, string>,
  placeOf: (name: string) => Place | null,
): Buffer {
  const changes = [...values]
    .flatMap(([name, text]) => {
      const place = placeOf(name);
      return place === null ? [] : [{ place, text }];
    })
    .sort((a, b) => a.place.start - b.place.start);
  const pieces: Buffer[] = [];
  let at = 0;
  for (const { place, text } of changes) {
    pieces.push(record.subarray(at, place.start), Buffer.from(text));
    at = place.end;
  }
  return Buffer.concat([...pieces, record.subarray(at)]);
}

const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;

export const isBlank = (line: Buffer): boolean =>
  (line.length === 1 && line[0] === LF) || (line.length === 2 && line[0] === CR && line[1] === LF);

/**
 * Cuts an output into records with their line ends. A record ends at a line feed that is not inside quotes, where the format
 * has them; neither byte is ever part of another character in UTF-8.
 */
export async function* recordsWithEnds(
  bytes: AsyncIterable<Buffer>,
  { hasQuotes }: OutputFormat,
): AsyncGenerator<Buffer[]> {
  let begun: Buffer[] = [];
  let quoted = false;
  for await (const chunk of bytes) {
    const records: Buffer[] = [];
    let start = 0;
    // Where the quotes are counted up to.
    let counted = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, end + 1)) {
      if (hasQuotes) quoted = quoted !== isOdd(chunk, counted, end);
      counted = end;
      if (quoted) continue;
      const rest = chunk.subarray(start, end + 1);
      records.push(begun.length === 0 ? rest : Buffer.concat([...begun, rest]));
      begun = [];
      start = end + 1;
    }
    if (hasQuotes) quoted = quoted !== isOdd(chunk, counted, chunk.length);
    if (start < chunk.length) begun.push(chunk.subarray(start));
    yield records;
  }
  if (begun.length > 0) yield [Buffer.concat(begun)];
}

/** Whether the number of quotes in a part of a chunk is odd. */
function isOdd(chunk: Buffer, from: number, to: number): boolean {
  let odd = false;
  for (let at = from; at < to; at++) if (chunk[at] === QUOTE) odd = !odd;
  return odd;
}
