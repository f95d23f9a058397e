import { UsageError } from '../errors.js';
import { outputBytes } from '../output/output-bytes.js';
import type { OutputFormat, RecordFormat } from '../output/record.js';
import { PARTS } from '../output/result-columns.js';
import { standingRecords } from '../output/rewrite.js';

/**
 * New records stand between those that stay, so they must have the same columns in the same order.
 * @throws UsageError where the job writes others now
 */
export async function assertSameLayout(
  output: string,
  format: OutputFormat,
  records: RecordFormat,
): Promise<void> {
  const [there, now] = format.hasHeader
    ? [await beginningOf(output, Buffer.byteLength(records.header)), records.header]
    : [await membersIn(output, format), membersText(PARTS.filter((part) => records.parts.has(part)))];
  if (there === null || there === now) return;
  const [was, is] = [there, now].map((text) => (text.split('\n')[0] ?? '').trimEnd().split(','));
  const only = (names: readonly string[] = [], others: readonly string[] = []): string =>
    names.filter((name) => !others.includes(name)).join(', ');
  const [gone, added] = [only(was, is), only(is, was)];
  const what = [gone && `without ${gone}`, added && `with ${added}`].filter(Boolean).join(' and ');
  throw new UsageError(
    'output_layout',
    what === ''
      ? `the columns of ${output} are not written or ordered as the job writes them now`
      : `${output} has other columns than the job writes now: it writes records ${what}`,
    'Give the job the input, the output.columns and the answer that the output was made with, or run it again with --overwrite.',
  );
}

/** The beginning of an output up to its first line end behind so many bytes. */
async function beginningOf(output: string, bytes: number): Promise<string> {
  let found = Buffer.alloc(0);
  for await (const piece of outputBytes(output)) {
    found = Buffer.concat([found, piece]);
    const end = found.indexOf(0x0a, Math.max(0, bytes - 1));
    if (end !== -1) return found.toString('utf8', 0, end + 1);
  }
  return found.toString('utf8');
}

/** The names of the first record's members; null where there is none. @throws UsageError `output_edited` */
async function membersIn(output: string, format: OutputFormat): Promise<string | null> {
  for await (const [record] of standingRecords(outputBytes(output), format, output))
    if (record !== undefined) return membersText(record.names());
  return null;
}

/** A row may ask for log probabilities that its job does not ask for. */
const membersText = (names: readonly string[]): string => names.filter((name) => name !== 'logprobs').join();
