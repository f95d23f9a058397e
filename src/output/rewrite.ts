import {
  isBlank,
  lineReader,
  type Output,
  type OutputRecord,
  type RecordedJob,
  recordsWithEnds,
} from './reader.js';
import type { OutputFormat } from './record.js';

/*
 * An output written anew with some of its records changed. What is not changed is copied as it is, byte for byte, and nothing
 * but the records of one piece of the file is in memory.
 */

/**
 * What becomes of a record: `null` leaves it as it is, a map has the new text of some of its values by their names, as the
 * format writes them (a name that the record does not have is left out), and a text takes the place of the whole record.
 */
export type Change = null | ReadonlyMap<string, string> | string;

/**
 * The bytes of an output, with the records changed for which `change` says so. It is asked once for each, in their order.
 * @param job that wrote the output, as for `readOutput`
 */
export async function* rewritten(
  output: Output,
  change: (record: OutputRecord) => Change,
  job?: RecordedJob,
): AsyncGenerator<Buffer> {
  const recordOf = lineReader(output, job);
  for await (const lines of recordsWithEnds(output.bytes(), output.format)) {
    const pieces = lines.map((line) => {
      const record = recordOf(line);
      const changed = record && change(record);
      if (record === null || changed === null) return line;
      return typeof changed === 'string' ? Buffer.from(changed) : record.with(changed);
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
