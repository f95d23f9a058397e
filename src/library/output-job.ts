import { readSummary } from '../account/read-summary.js';
import { readSelection, type SelectionFlags, selectionText } from '../amend/selection.js';
import type { RunFlags, Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { type FoundOutput, findFinished } from '../resume/finished-output.js';
import type { OfflineContext } from '../run/run-context.js';

/**
 * @param named by the user. @default the job file that the summary names
 * @throws UsageError when it is unknown
 */
export function jobOfOutput<J>({ files, jobFile }: FoundOutput, named: J | undefined): J | string {
  const job = named ?? jobFile;
  if (job !== null) return job;
  throw new UsageError(
    'job_unknown',
    `no summary beside ${files.output} names its job file`,
    'Name it with --job FILE: it says what the answers are.',
  );
}

/** How rows of a finished output are called again: with the job and the input that made it, or those named. */
export function retryOf<J, R>(
  output: string,
  selected: SelectionFlags,
  named: { readonly job?: J | undefined; readonly input?: R | undefined },
) {
  const selection = readSelection(selected);
  const found = findFinished(output);
  const before = readSummary(found.files.summary);
  const set = named.job === undefined ? found.jobSet : [];
  const flags: RunFlags = { output, retry: selectionText(selection), set };
  return {
    job: jobOfOutput(found, named.job),
    input: named.input ?? before.input.path,
    flags,
    work: async (settings: Settings, context: OfflineContext) => {
      const { retryOutput } = await import('../amend/retry.js');
      return await retryOutput(settings, selection, context);
    },
  };
}
