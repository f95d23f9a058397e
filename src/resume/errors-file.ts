import { rm } from 'node:fs/promises';
import { UsageError } from '../core/errors.js';
import { isResultLine } from '../output/batch.js';
import { outputBytes } from '../output/output-bytes.js';
import { beginningOf, isTaken, modeOf } from '../output/plain-file.js';
import { recordsWithEnds } from '../output/reader.js';
import type { OutputFormat } from '../output/record.js';
import { writeDurably } from '../output/writer.js';
import { type OutputFiles, outputFiles } from './output-files.js';

/*
 * A second copy of the records without an answer, as a batch has them in its error file. It never replaces a
 * file that a person put there, nor the output of another run.
 */

/** @throws UsageError `errors_in_use` */
export function assertOwnErrors({ output, errors }: OutputFiles): void {
  if (isFree(errors)) return;
  throw new UsageError(
    'errors_in_use',
    `${errors} exists, and rows of ${output} without an answer would take its place`,
    'Move it away, or give the output another name.',
  );
}

/**
 * For the output as it is now. Without such records there is no file. @param say gets a warning where the name was taken meanwhile
 * @throws WriteError
 */
export async function writeOrRemoveErrors(
  { output, errors }: OutputFiles,
  format: OutputFormat,
  say: (line: string) => void,
): Promise<void> {
  if (!isFree(errors)) {
    if (format.isError)
      say(`warning: ${errors} is another file, so rows without an answer are in ${output} only`);
    return;
  }
  for await (const _ of errorLines(output, format)) {
    await writeDurably(errors, errorLines(output, format), modeOf(output));
    return;
  }
  await rm(errors, { force: true });
}

async function* errorLines(output: string, format: OutputFormat): AsyncGenerator<Buffer> {
  const { isError } = format;
  if (!isError) return;
  for await (const lines of recordsWithEnds(outputBytes(output), format)) {
    const found = lines.filter((line) => isError(line));
    if (found.length > 0) yield Buffer.concat(found);
  }
}

const isFree = (errors: string): boolean =>
  !isTaken(errors) || (isResultLine(beginningOf(errors)) && !isTaken(outputFiles(errors).summary));
