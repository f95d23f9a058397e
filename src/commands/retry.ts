import { Command } from 'commander';
import type { SelectionFlags } from '../amend/selection.js';
import type { RunFlags } from '../config/settings.js';
import { either } from '../core/errors.js';
import { STATUSES } from '../core/model.js';
import { retryOf } from '../library/output-job.js';
import { INPUT_FORMAT_NAMES } from '../source/format.js';
import { QUEUE_FORMS } from '../store/open.js';
import type { UnderWay } from './exit-message.js';
import { CONCURRENCY, openJob } from './job.js';
import { runHere } from './run.js';
import type { Exit } from './signals.js';

type Options = SelectionFlags &
  Pick<
    RunFlags,
    'input' | 'format' | 'queue' | 'concurrency' | 'emulate' | 'work' | 'restart' | 'logLevel'
  > & { readonly job?: string; readonly json?: boolean; readonly quiet?: boolean };

const EXAMPLES = `
Examples:
  $ promptmill retry out/reviews.csv
      call the rows again that failed
  $ promptmill retry out/reviews.csv --status failed,filtered --invalid
      also those that a filter blocked, and those whose answer is invalid
  $ promptmill retry out/reviews.csv --row 17,20-30

Only these rows are called, with the job as it is now, and take their places in
the output; the bytes of all other records stay. The output is replaced in one
step when the last row has its answer, and the same command continues a retry
that was stopped. Costs are added up in the summary. Exit codes: those of run,
for the whole output; 0 also when there is no such row.
`;

export function retryCommand(exit: Exit, underWay: UnderWay): Command {
  return new Command('retry')
    .description('call failed rows of a finished output again, in their places')
    .argument('<output>', 'the output of a run, for example out/reviews.csv')
    .option('--status <statuses>', `rows with these: ${either(STATUSES)}, with commas (default: failed)`)
    .option('--invalid', 'rows whose answer is invalid')
    .option('--abstained', 'rows that abstained')
    .option('--row <numbers>', 'rows by their numbers, from 1: 17,20-30')
    .option('--job <file>', 'the job file (default: the one that the summary names)')
    .option('--input <file>', 'where the input is now (default: where the summary says)')
    .option('--format <format>', `its format: ${either(INPUT_FORMAT_NAMES)} (default: from its name)`)
    .option('--queue <url>', `${QUEUE_FORMS} (default: embedded)`)
    .option(...CONCURRENCY)
    .option('--emulate', 'call an emulator of the service on this machine instead of the service')
    .option('--no-work', 'leave the calls to `promptmill work` processes')
    .option('--restart', 'discard an unfinished retry and begin another')
    .option('--json', 'print the summary of the output as JSON on standard output')
    .option('--quiet', 'print no progress and no summary')
    .option('--log-level <level>', 'fatal, error, warn, info, debug, trace or silent (default: warn)')
    .addHelpText('after', EXAMPLES)
    .action(async (output: string, options: Options) => {
      exit(await retry(output, options, exit, underWay));
    });
}

async function retry(output: string, options: Options, exit: Exit, underWay: UnderWay): Promise<number> {
  const { job, input, flags, work } = retryOf(output, options, options);
  return await runHere(openJob(job, { ...options, input, ...flags }), options, exit, underWay, work);
}
