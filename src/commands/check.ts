import { Command } from 'commander';
import type { RunFlags } from '../config/settings.js';
import { Halt } from '../core/halt.js';
import { show } from '../render/terminal.js';
import { terminalText, wrapped } from '../render/terminal-text.js';
import { hasPlaceholder } from '../resume/output-files.js';
import { checkDocument } from '../run/check/check-document.js';
import { checkJob } from '../run/check/check-job.js';
import { type CheckReport, checkExitCode } from '../run/check/check-report.js';
import { assertProgram } from '../run/on-finish.js';
import { BY, CONCURRENCY, DONE, FORMAT, INPUT, LIMIT, openJob, SAMPLE, SEED, SET } from './job.js';
import { EXIT_OF_SIGNAL, type Exit, haltOnSignals } from './signals.js';

interface Options
  extends Pick<
    RunFlags,
    'input' | 'done' | 'format' | 'limit' | 'sample' | 'seed' | 'by' | 'concurrency' | 'set'
  > {
  readonly json?: boolean;
  readonly quiet?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill check jobs/sentiment.yaml
      what would it take, and which rows are bad?
  $ promptmill check jobs/sentiment.yaml --input new.csv &&
      promptmill run jobs/sentiment.yaml --input new.csv
  $ promptmill check jobs/sentiment.yaml --json | jq .cost.most

Reads the whole input as a run would. It needs no key and no address, and sends
nothing. The exit code is the best that the run can reach, so that a script can
stop before it pays: 0 every row can be completed; 1 some rows would end failed
whatever the service answers; 2 the run would not start; 3 it would stop early,
because the prompts alone are over the budget or the quota is too small for the
deadline; 130, 143 interrupted.
`;

export function checkCommand(exit: Exit): Command {
  return new Command('check')
    .description('say what a run would take, and which rows are bad; sends nothing')
    .argument('<job>', 'the job file, for example jobs/sentiment.yaml')
    .option(...INPUT)
    .option(...FORMAT)
    .option(...CONCURRENCY)
    .option(...SET)
    .option(...DONE)
    .option(...LIMIT)
    .option(...SAMPLE)
    .option(...SEED)
    .option(...BY)
    .option('--json', 'print the report as JSON on standard output')
    .option('--quiet', 'print no progress, and only the report of --json')
    .addHelpText('after', EXAMPLES)
    .action(async (jobPath: string, options: Options) => {
      exit(await check(jobPath, options, exit));
    });
}

/** @returns the exit code */
export async function check(jobPath: string, options: Options, exit: Exit): Promise<number> {
  const { job, settings, environment } = openJob(jobPath, options);
  assertProgram(job, environment.variable);
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  try {
    const report = await checkJob(settings, {
      halt,
      stdin: process.stdin,
      stderr: process.stderr,
      quiet: options.quiet ?? false,
    });
    print(report, options);
    const { path } = settings.output;
    if (job.schedule !== undefined && !hasPlaceholder(path) && !options.quiet)
      process.stderr.write(`\n${wrapped(terminalText(sameOutput(path)), process.stderr)}\n`);
    return checkExitCode(report);
  } catch (error) {
    if (halt.reason?.kind !== 'signal') throw error;
    return EXIT_OF_SIGNAL[halt.reason.signal];
  } finally {
    release();
  }
}

const sameOutput = (path: string): string =>
  `warning: each run of the schedule replaces ${path}. With {{date}} or {{run}} in output.path each has a file of its own.`;

function print(report: CheckReport, { json, quiet }: Options): void {
  if (json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  if (quiet) return;
  show(checkDocument(report), process.stderr, '\n');
}
