import {
  isBlank,
  lineReader,
  type Output,
  type OutputRecord,
  type RecordedJob,
  recordsWithEnds,
} from './reader.js';
import type { OutputFormat } from './record.js';

/* Unchanged records are copied byte for byte. Only the records of one piece of the file are in memory. */

/**
 * `null` leaves the record unchanged. A map has new texts by value name, in the form of the format; names
 * that the record does not have are ignored. A string replaces the whole record.
 */
export type Change = null | ReadonlyMap<string, string> | string;

/** Calls `change` once for each record, in order. @param job as for `readOutput` */
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
 * Replaces some records of an output.
 * @param numbers rows to replace, ascending
 * @param others an output with their new records, in the same order
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

async function* recordsOf(bytes: AsyncIterable<Buffer>, format: OutputFormat): AsyncGenerator<Buffer[]> {
  const isRecord = recordTest(format);
  for await (const lines of recordsWithEnds(bytes, format)) yield lines.filter(isRecord);
}

/** Must see every line in order: the first nonblank line may be the header. */
function recordTest({ hasHeader }: OutputFormat): (line: Buffer) => boolean {
  let isHeader = hasHeader;
  return (line) => {
    if (isBlank(line)) return false;
    const isRecord = !isHeader;
    isHeader = false;
    return isRecord;
  };
}
