import { createReadStream } from 'node:fs';
import { emptyTally, fold } from '../account/tally.js';
import { recordOptions } from '../config/record-options.js';
import type { Settings } from '../config/settings.js';
import { isWhole, type Output, readOutput, recordsWithEnds } from '../output/reader.js';
import type { Manifest } from './manifest.js';

/**
 * A manifest for what is left of a part file that is shorter than its manifest says (fault 50): the whole records
 * stay, the rows behind them are called again and count as repeated, and the tally is made of the records.
 *
 * The run goes on under a new name. The ledger never takes an outcome for a row that it has seen committed, which
 * the rows to be called again are; what it still holds of the old run is given up with it.
 * @param size bytes that the part file has
 * @param run name of the new run
 * @returns null when the records do not have all columns that the tally is made of
 */
export async function repair(
  part: string,
  size: number,
  manifest: Manifest,
  settings: Settings,
  run: string,
): Promise<Manifest | null> {
  const { output, gold: column } = settings;
  const job = recordOptions(settings);
  // What the confidence was read from is in no record.
  if (job.answer.confidenceOf !== undefined) return null;
  const { format } = output;
  const firstOf = (length: number): Output => ({ name: part, format, bytes: () => contentOf(part, length) });
  const bytes = await wholeRecords(firstOf(Math.min(size, manifest.bytes)));
  let tally = emptyTally();
  let mended = manifest.retry?.rest;
  for await (const records of readOutput(firstOf(bytes), job)) {
    if (records.some((record) => record.lacksForTally(column).length > 0)) return null;
    const ended = records.flatMap((record) => record.ended(column) ?? []);
    if (ended.length < records.length) return null;
    tally = fold(tally, ended);
    mended = mended && fold(mended, ended);
  }
  const paidAgain = answered(manifest) - answered({ tally });
  // Its rows are called again, and judged again when they are answered.
  const { calls, retry, ...rest } = manifest;
  return {
    ...rest,
    run,
    rows: tally.rows.total,
    // What the ledger holds of the old run counts as repeated when that is given up.
    unwritten: 0,
    bytes,
    tally,
    steps: {},
    calls: { ...calls, repeated: calls.repeated + paidAgain },
    ...(retry && mended && { retry: { ...retry, tally: mended } }),
  };
}

/** Rows that were called and answered. */
export function answered({ tally: { rows, reused } }: Pick<Manifest, 'tally'>): number {
  const taken = reused === undefined ? 0 : reused.copied + reused.carried - reused.failed;
  return rows.completed + rows.filtered - taken;
}

/** The first bytes of a file. */
async function* contentOf(path: string, bytes: number): AsyncGenerator<Buffer> {
  if (bytes > 0) yield* createReadStream(path, { end: bytes - 1 });
}

/** Length of the beginning of an output that holds only whole records, in bytes. */
async function wholeRecords({ bytes, format }: Output): Promise<number> {
  let whole = 0;
  let last: Buffer | null = null;
  for await (const records of recordsWithEnds(bytes(), format)) {
    for (const record of records) {
      whole += last?.length ?? 0;
      last = record;
    }
  }
  return whole + (last !== null && isWhole(last, format) ? last.length : 0);
}
