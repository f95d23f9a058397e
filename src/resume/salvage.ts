import { createReadStream } from 'node:fs';
import { emptyTally, fold } from '../account/tally.js';
import { recordOptions, type Settings } from '../config/settings.js';
import { isWhole, type Output, readOutput, recordsWithEnds } from '../output/reader.js';
import type { Manifest } from './manifest.js';

/**
 * A manifest for the rest of a part file that is shorter than its manifest says (fault 50): whole records
 * stay, the rows after them are called again and count as repeated, and the tally is recomputed from the
 * records.
 *
 * The run continues under a new name, because the ledger rejects outcomes for rows it has seen committed,
 * which the rows to call again are; what it still holds of the old run is given up.
 * @param size bytes of the part file
 * @param run name of the new run
 * @returns null when the records lack columns that the tally needs
 */
export async function salvagePartFile(
  part: string,
  size: number,
  manifest: Manifest,
  settings: Settings,
  run: string,
): Promise<Manifest | null> {
  const { output, gold: column } = settings;
  const job = recordOptions(settings);
  // Records do not contain what the confidence was read from.
  if (job.answer.confidenceOf !== undefined) return null;
  const { format } = output;
  const firstOf = (length: number): Output => ({ name: part, format, bytes: () => contentOf(part, length) });
  const bytes = await wholeRecords(firstOf(Math.min(size, manifest.bytes)));
  let tally = emptyTally();
  let retried = manifest.retry?.rest;
  for await (const records of readOutput(firstOf(bytes), job)) {
    if (records.some((record) => record.lacksForTally(column).length > 0)) return null;
    const ended = records.flatMap((record) => record.countedRow(column) ?? []);
    if (ended.length < records.length) return null;
    tally = fold(tally, ended);
    // Numbers of the whole output are not known here.
    const unnumbered = ended.map((row) => ({ ...row, row: null }));
    retried = retried && fold(retried, unnumbered);
  }
  const paidAgain = answeredRows(manifest) - answeredRows({ tally });
  // The lost rows are called again, and the finishing steps start over.
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
    ...(retry && retried && { retry: { ...retry, tally: retried } }),
  };
}

export function answeredRows({ tally: { rows, reused } }: Pick<Manifest, 'tally'>): number {
  const taken = reused === undefined ? 0 : reused.copied + reused.carried - reused.failed;
  return rows.completed + rows.filtered - taken;
}

async function* contentOf(path: string, bytes: number): AsyncGenerator<Buffer> {
  if (bytes > 0) yield* createReadStream(path, { end: bytes - 1 });
}

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
