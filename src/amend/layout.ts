import { UsageError } from '../core/errors.js';
import { batch, isResultLine } from '../output/batch.js';
import { jsonl } from '../output/jsonl.js';
import { isBlank, outputAt, readOutput, recordsWithEnds } from '../output/reader.js';
import type { OutputFormat, RecordFormat } from '../output/record.js';
import { PARTS } from '../output/result-columns.js';

/** @throws UsageError when the job writes other columns than the records that stay */
export async function assertSameLayout(
  output: string,
  records: RecordFormat,
  format: OutputFormat,
): Promise<void> {
  const [there, now] = outputAt(output).format.hasHeader
    ? [await headerOf(output), records.header]
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

async function headerOf(path: string): Promise<string> {
  const { bytes, format } = outputAt(path);
  for await (const lines of recordsWithEnds(bytes(), format)) {
    const header = lines.find((line) => !isBlank(line));
    if (header !== undefined) return header.toString();
  }
  return '';
}

/** Null for an output without records. @throws UsageError `output_edited` */
async function membersIn(path: string, format: OutputFormat): Promise<string | null> {
  for await (const [record] of readOutput(outputAt(path))) {
    if (record === undefined) continue;
    const [was, is] = [isResultLine(record.bytes) ? batch.name : jsonl.name, format.name];
    if (was === is) return membersText(record.names());
    throw new UsageError(
      'output_layout',
      `${path} was written with output.format: ${was}, and the job has ${is} now`,
      `Set output.format: ${was} in the job, or run it again with --overwrite.`,
    );
  }
  return null;
}

/** A row may request log probabilities that its job does not request. */
const membersText = (names: readonly string[]): string => names.filter((name) => name !== 'logprobs').join();
