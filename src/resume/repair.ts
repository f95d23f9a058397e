import { createReadStream } from 'node:fs';
import { type Ended, emptyTally, fold } from '../account/tally.js';
import { type Gold, goldReader } from '../answer/gold.js';
import { recordOptions } from '../config/record-options.js';
import type { Settings } from '../config/settings.js';
import { inputColumn, isUnreadable, outcomeOf } from '../output/read-back.js';
import type { OutputFormat } from '../output/record.js';
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
  const bytes = await wholeRecords(part, Math.min(size, manifest.bytes), output.format);
  const options = recordOptions(settings);
  const { answer: reader } = options;
  // What the confidence was read from is in no record.
  if (reader.confidenceOf !== undefined) return null;
  const goldOf = goldReader(settings, part);
  const rightOf = column === null ? null : inputColumn(column, options);
  const asked = [...options.origins, ...(options.answerSource ? (['answer_source'] as const) : [])];
  let tally = emptyTally();
  for await (const rows of output.format.readBack(contentOf(part, bytes), part)) {
    const ended: Ended[] = [];
    for (const row of rows) {
      const outcome = outcomeOf(row, asked, output.formulas);
      if (outcome === null) return null;
      const completion = 'completion' in outcome ? outcome.completion : null;
      const read = completion === null ? null : reader.read(completion);
      let gold: Gold | null = null;
      if (
        column !== null &&
        rightOf !== null &&
        !(outcome.status === 'failed' && isUnreadable(outcome.error.code))
      ) {
        const value = rightOf(row);
        if (value === undefined) return null;
        gold = goldOf?.({ ...row, fields: new Map([[column, value]]) }) ?? null;
      }
      ended.push({ outcome, answer: read, gold });
    }
    tally = fold(tally, ended);
  }
  const paidAgain = answered(manifest) - answered({ tally });
  // Its rows are called again, and judged again when they are answered.
  const { calls, rejected: _, ...rest } = manifest;
  return {
    ...rest,
    run,
    rows: tally.rows.total,
    // What the ledger holds of the old run counts as repeated when that is given up.
    unwritten: 0,
    bytes,
    tally,
    calls: { ...calls, repeated: calls.repeated + paidAgain },
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

const QUOTE = 0x22;
const LF = 0x0a;

/**
 * Length of the beginning of an output that holds only whole records, in bytes. A record ends at a line feed that
 * is not inside quotes, where the format has them; neither byte is ever part of another character in UTF-8.
 * @param bytes where to stop at the latest
 */
async function wholeRecords(path: string, bytes: number, { hasQuotes }: OutputFormat): Promise<number> {
  let whole = 0;
  let at = 0;
  let quoted = false;
  for await (const chunk of contentOf(path, bytes)) {
    for (const byte of chunk) {
      at++;
      if (byte === QUOTE && hasQuotes) quoted = !quoted;
      else if (byte === LF && !quoted) whole = at;
    }
  }
  return whole;
}
