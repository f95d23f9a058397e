import { Command } from 'commander';
import { type Merged, mergeReview } from '../amend/merge-review.js';
import { errorText, StopError, UsageError } from '../core/errors.js';
import { counted } from '../core/figures.js';
import { Halt } from '../core/halt.js';
import { WriteError } from '../output/writer.js';
import { terminalText } from '../render/terminal-text.js';
import { findFinished } from '../resume/finished-output.js';
import { OutputLock } from '../resume/output-lock.js';
import { renewReport } from '../resume/report-file.js';
import { openAnswered } from './job.js';
import { EXIT_OF_SIGNAL, type Exit, haltOnSignals } from './signals.js';

const EXAMPLES = `
Examples:
  $ promptmill merge-review out/reviews.csv out/reviews.review.csv
      put the answers that people gave back into the output
  $ promptmill score out/reviews.csv
      and say how good it is now

Fill in the column "answer" of the file for review, in a spreadsheet or an
editor; rows that are left empty stay as they are. A job that does not abstain
writes no such file: make one with the columns "row" (from 1) and "answer", or
for a CSV of JSON answers with all columns of the answer. Nothing is called.
Nothing is written unless every answer fits the job. Exit codes: 0 merged; 2 it
could not be; 3 it was stopped by the disk; 130, 143 interrupted.
`;

export function mergeReviewCommand(exit: Exit): Command {
  return new Command('merge-review')
    .description('put answers that people gave into a finished output; sends nothing')
    .argument('<output>', 'the output of a run, for example out/reviews.csv')
    .argument('<review>', 'the file for review with the answers, for example out/reviews.review.csv')
    .option('--job <file>', 'the job file (default: the one that the summary names)')
    .addHelpText('after', EXAMPLES)
    .action(async (output: string, review: string, { job }: { readonly job?: string }) => {
      exit(await merge(output, review, job, exit));
    });
}

async function merge(output: string, review: string, job: string | undefined, exit: Exit): Promise<number> {
  const found = findFinished(output);
  const { settings } = openAnswered(found, job);
  const say = (line: string): void => {
    process.stderr.write(`${terminalText(line)}\n`);
  };
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  const lock = new OutputLock({ say, halt });
  const mayGoOn = (): void => {
    halt.signal.throwIfAborted();
    if (!lock.isHeld()) throw lockLost(output);
  };
  try {
    await lock.take(output);
    say(mergedText(output, await mergeReview(output, review, settings, mayGoOn)));
    await renewReport(found.files, settings).catch((error: unknown) =>
      say(`warning: the answers are merged, but the report could not be made anew: ${errorText(error)}`),
    );
    return 0;
  } catch (error) {
    if (halt.reason?.kind === 'signal') {
      say(`stopped; ${output} is as it was.`);
      return EXIT_OF_SIGNAL[halt.reason.signal];
    }
    throw error instanceof WriteError ? notWritten(error) : error;
  } finally {
    lock.release();
    release();
  }
}

/** `merged 12 answers into reviews.csv; 3 rows of the review are still empty` */
function mergedText(output: string, { merged, already, empty }: Merged): string {
  const there = already === 0 ? '' : ` (${already} ${already === 1 ? 'was' : 'were'} there already)`;
  const rest =
    empty === 0
      ? 'no row of the review is empty'
      : `${counted(empty, 'row')} of the review ${empty === 1 ? 'is' : 'are'} still empty`;
  return `merged ${counted(merged, 'answer')} into ${output}${there}; ${rest}`;
}

const notWritten = (error: WriteError): StopError =>
  new StopError(
    'output_not_written',
    `${error.message}.`,
    `${error.full ? 'Free some space' : 'Mend that'} and run the same command: what is merged already stays.`,
    { cause: error.cause },
  );

const lockLost = (output: string): UsageError =>
  new UsageError(
    'lock_lost',
    `another process writes to ${output} now; nothing was written`,
    'Run the same command again when it has ended.',
  );
