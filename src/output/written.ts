import { createHash } from 'node:crypto';
// By its default, because an older Node.js has no such name, and could not load the library to say what is wrong.
import zlib from 'node:zlib';
import * as z from 'zod';
import { count, counted } from '../core/figures.js';
import { outputFormatOf } from './format.js';
import { outputBytes, packingOf } from './output-bytes.js';
import type { Packing } from './packing.js';
import { isBlank, recordsWithEnds } from './reader.js';

/*
 * Rows of a finished output are identified only by position. So before the file is changed, it must be byte
 * for byte what was written: the digest decides. The sums only say what differs (faults 91 and 92).
 */

const sum = z.int().nonnegative();

export const writtenSchema = z.object({
  /** Of the file's bytes, as `sha256sum` prints it. */
  sha256: z.string(),
  rows: sum,
  /** Hash of the first line; 0 where the format has no header. */
  header: sum,
  /** Sum of the hashes of all records, independent of their order. */
  records: sum,
  block: z.int().positive(),
  /** Per block of rows: the sum of record hash times place. 128 blocks at most. */
  places: z.array(sum).readonly(),
});
export type Written = z.output<typeof writtenSchema>;

/** Left by a spreadsheet or an editor, never by a run. */
interface Traces {
  readonly mark: boolean;
  readonly crlf: number;
  readonly unended: boolean;
  readonly blank: number;
}

const MOST_BLOCKS = 128;
const CR = 0x0d;
const LF = 0x0a;
const MARK = Buffer.from('\ufeff');

/**
 * @param name final name, which decides format and packing.
 * @throws UsageError `output_damaged` for corrupt gzip
 */
export async function writtenOf(path: string, name = path, packing = packingOf(name)): Promise<Written> {
  return (await scan(path, name, packing)).written;
}

/** In words: `its rows are in another order`. @throws UsageError `output_damaged` */
export async function differenceOf(path: string, then: Written): Promise<string> {
  const { written: now, traces } = await scan(path, path, packingOf(path), then.block);
  const facts = [
    ...(now.rows > then.rows
      ? [`it has ${counted(now.rows - then.rows, 'row')} more than were written`]
      : []),
    ...(now.rows < then.rows
      ? [`it has ${counted(then.rows - now.rows, 'row')} fewer than were written`]
      : []),
    ...(now.header === then.header ? [] : ['its first line, with the names of the columns, is another']),
    ...changedRows(now, then),
    ...(traces.mark ? ['a byte-order mark was put in front'] : []),
    ...(traces.crlf > 0 ? ['its lines end in CR LF, as a spreadsheet saves them'] : []),
    ...(traces.unended ? ['the end of its last line is missing'] : []),
    ...(traces.blank > 0 ? [`it has ${counted(traces.blank, 'blank line')}`] : []),
  ];
  if (facts.length > 0) return facts.join('; ');
  return packingOf(path) === null
    ? 'its bytes are others'
    : 'its records are the same, and were packed again by another program';
}

function changedRows(now: Written, then: Written): string[] {
  const changed = Array.from({ length: Math.max(now.places.length, then.places.length) }, (_, i) => i).filter(
    (i) => now.places[i] !== then.places[i],
  );
  const [first, last] = [changed[0], changed.at(-1)];
  if (first === undefined || last === undefined) return [];
  const from = first * then.block + 1;
  if (now.rows !== then.rows) return [`it differs from row ${count(from)} on`];
  const to = Math.min((last + 1) * then.block, then.rows);
  const rows = from === to ? `row ${count(from)}` : `rows ${count(from)} to ${count(to)}`;
  if (now.records === then.records) return [`the same rows are in another order (${rows})`];
  return [from === to ? `${rows} was changed` : `there are changed records among ${rows}`];
}

async function scan(
  path: string,
  name: string,
  packing: Packing | null,
  blockThen?: number,
): Promise<{ readonly written: Written; readonly traces: Traces }> {
  const format = outputFormatOf(name);
  const sha256 = createHash('sha256');
  let header: number | null = format.hasHeader ? null : 0;
  let [rows, records, crlf, blank] = [0, 0, 0, 0];
  let [mark, unended] = [false, false];
  let block = blockThen ?? 1;
  let places: number[] = [];
  let isFirst = true;
  const bytes = outputBytes(path, packing, (piece) => sha256.update(piece));
  for await (const lines of recordsWithEnds(bytes, format)) {
    for (const line of lines) {
      if (isBlank(line)) {
        blank++;
        continue;
      }
      mark = isFirst ? line.subarray(0, MARK.length).equals(MARK) : mark;
      const start = isFirst && mark ? MARK.length : 0;
      isFirst = false;
      unended = line.at(-1) !== LF;
      const hasCr = !unended && line.at(-2) === CR;
      // CRC-32 is enough to locate a difference that the digest has found.
      const hash = zlib.crc32(line.subarray(start, line.length - (unended ? 0 : hasCr ? 2 : 1)));
      if (hasCr) crlf++;
      if (header === null) {
        header = hash;
        continue;
      }
      records = (records + hash) >>> 0;
      const place = Math.floor(rows / block);
      rows++;
      places[place] = ((places[place] ?? 0) + Math.imul(hash, 2 * rows + 1)) >>> 0;
      if (blockThen !== undefined || places.length <= MOST_BLOCKS) continue;
      block *= 2;
      places = halved(places);
    }
  }
  return {
    written: { sha256: sha256.digest('hex'), rows, header: header ?? 0, records, block, places },
    traces: { mark, crlf, unended, blank },
  };
}

const halved = (places: readonly number[]): number[] =>
  Array.from(
    { length: Math.ceil(places.length / 2) },
    (_, i) => ((places[2 * i] ?? 0) + (places[2 * i + 1] ?? 0)) >>> 0,
  );
