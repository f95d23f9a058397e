import { lstatSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { UsageError } from '../errors.js';
import type { OutputFiles } from '../output/files.js';
import { isTaken, readOwn } from '../output/own-file.js';

/**
 * What stands at the names that a run writes to must be its to write: no link, which would lead elsewhere (fault 65), and
 * no pipe or device (fault 67).
 * @throws UsageError
 */
export function assertPlainFiles(files: OutputFiles): void {
  const { output, part, manifest, summary } = files;
  const own = [part, manifest, summary, ...[part, manifest, summary].map((path) => `${path}.tmp`)];
  for (const path of own) {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || found.isFile()) continue;
    throw refused(
      output,
      found.isSymbolicLink()
        ? `${path} is a symbolic link, and what it leads to is not this run's to write`
        : `${path} is ${found.isDirectory() ? 'a folder' : 'not a file'}`,
      'Remove it, or name another file with --output.',
    );
  }
  // The output itself may be a link: its name is given to the finished file, and what it leads to stays.
  const found = statSync(output, { throwIfNoEntry: false });
  if (found?.isDirectory())
    throw refused(
      output,
      `${output} is a folder`,
      'Name another file with --output, or move the folder away.',
    );
  if (found === undefined || found.isFile()) return;
  throw refused(
    output,
    `${output} is a pipe or a device, and an output gets its name when it is whole`,
    `Write to standard output instead: --output - > ${output}`,
  );
}

const refused = (output: string, reason: string, hint: string): UsageError =>
  new UsageError('output_not_writable', `cannot write ${output}: ${reason}`, hint);

/**
 * `reviews.csv` and `reviews.jsonl` beside each other would write one summary: the second is refused (fault 66). A summary
 * whose output is gone may be replaced.
 * @throws UsageError `summary_in_use`
 */
export function assertOwnStem({ output, summary }: OutputFiles): void {
  const folder = dirname(output);
  const own = basename(output);
  const stem = own.slice(0, own.length - extname(own).length);
  const unfinished = readdirSync(folder).find(
    (name) =>
      name !== `${own}.run.json` && name.startsWith(`${stem}.`) && UNFINISHED.test(name.slice(stem.length)),
  );
  const other = unfinished?.slice(0, -'.run.json'.length) ?? outputOf(summary);
  if (other === null || other === own) return;
  if (unfinished === undefined && !isTaken(join(folder, other))) return;
  throw new UsageError(
    'summary_in_use',
    unfinished === undefined
      ? `${summary} is the summary of ${other}, and ${own} would have the same one`
      : `${unfinished} is an unfinished run of ${other}, and ${own} would have the same summary ${summary}`,
    `Give this output a name of its own, for example --output ${join(folder, `${stem}-2${extname(own)}`)}`,
  );
}

const UNFINISHED = /^\.(csv|jsonl|ndjson)\.run\.json$/i;

/** The name of the output that a summary is about; null when there is none, or it is no summary. */
function outputOf(summary: string): string | null {
  try {
    const { output } = JSON.parse(readOwn(summary));
    return typeof output === 'string' ? basename(output) : null;
  } catch {
    return null;
  }
}
