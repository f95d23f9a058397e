import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { hasPlaceholder, outputFiles } from '../resume/output-files.js';
import { type RunResult, runJob } from '../run/pipeline.js';
import type { OfflineContext } from '../run/run-context.js';
import { assertExtended } from './input-of-output.js';
import { assertSameLayout } from './layout.js';
import { isUntouched } from './review-file.js';

/**
 * Calls the rows appended to the input of a finished output, and adds them to it. Without a finished output it
 * runs the job.
 * @throws UsageError when the input was changed, or the output cannot be continued; then nothing was sent
 */
export async function extendOutput(settings: Settings, context: OfflineContext): Promise<RunResult> {
  assertExtendable(settings);
  const { path } = settings.output;
  const job = { ...settings, extend: true };
  return await runJob(job, context, async (target) => {
    const { finished } = target;
    if (finished === undefined) return null;
    return {
      settings: job,
      before: finished,
      checkInput: (input) => assertExtended(input, finished),
      async choose(input, plan) {
        if (input.survey.rows <= finished.rows.total) {
          context.say(
            `no row was appended to ${settings.input.path} since ${path} was made: nothing was changed`,
          );
          return null;
        }
        await assertSameLayout(path, plan.format, settings.output.format);
        const { review } = outputFiles(path);
        if (!(await isUntouched(review, plan, settings))) throw reviewInUse(review);
        return { target, input, plan, settings: job, replacing: null };
      },
    };
  });
}

/** @throws UsageError when the output of the job cannot be extended, whatever its input */
function assertExtendable({ answer, input, output, reuse, overwrite, restart }: Settings): void {
  const refuse = (code: 'bad_options' | 'not_extendable', message: string, hint: string): never => {
    throw new UsageError(code, message, hint);
  };
  if (overwrite || restart) {
    refuse(
      'bad_options',
      `--extend keeps the rows of the output, and ${overwrite ? '--overwrite' : '--restart'} discards rows`,
      'Give one of them.',
    );
  }
  if (hasPlaceholder(output.path)) {
    refuse(
      'bad_options',
      `--extend adds rows to one file, and the output ${output.path} is another each time`,
      'Name the file with --output FILE.',
    );
  }
  if (input.path === '-') {
    refuse(
      'not_extendable',
      '--extend knows the input by its file, and these rows come without one',
      'Name a file with --input.',
    );
  }
  if (answer.kind === 'labels' && answer.abstainFor !== undefined) {
    refuse(
      'not_extendable',
      '--extend adds rows, and answer.abstain finds its threshold with all rows of an input together',
      'Take answer.abstain_below with a threshold of your own, or run the job again with --overwrite.',
    );
  }
  if (reuse.onlyNew) {
    refuse(
      'not_extendable',
      '--extend is not needed with input.only_new: it calls no row again that the last run answered',
      'Run the job again with --overwrite.',
    );
  }
}

const reviewInUse = (review: string): UsageError =>
  new UsageError(
    'review_exists',
    `${review} is not as the run wrote it: somebody may have filled answers in`,
    'Merge it first (promptmill merge-review), or move it away.',
  );
