import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { failedCodes, retryCommandFor } from '../account/retry-command.js';
import { invalidIn, type StoredSummary, summaryText } from '../account/summary.js';
import { type RunFlags, recordOptions, type Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { counted } from '../core/figures.js';
import { Halt } from '../core/halt.js';
import { asStarted, shellWord } from '../core/started.js';
import { Connection } from '../library/connection.js';
import type { OpenedJob } from '../library/opened-job.js';
import { OUTPUT_ENDINGS, recordFormat } from '../output/format.js';
import { exampleTexts } from '../render/example-texts.js';
import { summaryDocument } from '../render/run-document.js';
import { reasonLine } from '../render/run-words.js';
import { show } from '../render/terminal.js';
import { terminalText, wrapped } from '../render/terminal-text.js';
import { exitOf, type RunResult, runJob } from '../run/pipeline.js';
import type { OfflineContext } from '../run/run-context.js';
import { withoutPassword } from '../store/address.js';
import { QUEUE_FORMS } from '../store/open.js';
import { batchOptions } from './emulator-options.js';
import type { UnderWay } from './exit-message.js';
import { BY, CONCURRENCY, DONE, FORMAT, INPUT, LIMIT, openJob, SAMPLE, SEED, SET } from './job.js';
import { createLog } from './log.js';
import { EXIT_OF_SIGNAL, type Exit, haltOnSignals } from './signals.js';

interface Options extends RunFlags {
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly dryRun?: boolean;
  readonly retryFailed?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill run jobs/sentiment.yaml --emulate
      rehearse without a service and without a bill
  $ promptmill run jobs/sentiment.yaml --limit 20
      try the first 20 rows
  $ promptmill run jobs/sentiment.yaml --sample 200 --by stars
      try 200 rows at random; the run over all rows takes their answers over
  $ promptmill run jobs/sentiment.yaml --queue redis://localhost:6379
  $ promptmill run jobs/sentiment.yaml --queue redis://localhost:6379 --no-work
      the calls are made elsewhere
  $ zcat reviews.csv.gz |
      promptmill run jobs/sentiment.yaml --input - --format csv --output -

The same command continues a run that was stopped. Exit codes: 0 every row is
completed, filtered or skipped; 1 some rows failed; 2 did not start; 3 stopped
early; 4 finished below answer.require, or above drift.alarm; 130, 143
interrupted.
`;

export function runCommand(exit: Exit, underWay: UnderWay): Command {
  const [seconds, faults] = batchOptions();
  return new Command('run')
    .description('run a job here, or continue its unfinished run')
    .argument('<job>', 'the job file, for example jobs/sentiment.yaml')
    .option(...INPUT)
    .option(...FORMAT)
    .option('--output <file>', `write records to this file, ${OUTPUT_ENDINGS}; - is standard output`)
    .option('--queue <url>', `${QUEUE_FORMS} (default: embedded)`)
    .option(...CONCURRENCY)
    .option(...SET)
    .option(...DONE)
    .option(...LIMIT)
    .option(...SAMPLE)
    .option(...SEED)
    .option(...BY)
    .option('--emulate', 'call an emulator of the service on this machine instead of the service')
    .addOption(seconds.implies({ emulate: true }))
    .addOption(faults.implies({ emulate: true }))
    .option('--no-work', 'leave the calls to `promptmill work` processes')
    .option('--restart', 'discard an unfinished run and start over')
    .option('--overwrite', 'replace a finished output')
    .option('--retry-failed', 'call the rows that failed again, once, also of a finished output')
    .option('--extend', 'call the rows that were appended to the input of a finished output')
    .option('--dry-run', 'do what `promptmill check` does instead: sends nothing')
    .option('--json', 'print the summary as JSON on standard output')
    .option('--quiet', 'print no progress and no summary')
    .option('--log-level <level>', 'fatal, error, warn, info, debug, trace or silent (default: warn)')
    .addHelpText('after', EXAMPLES)
    .action(async (jobPath: string, options: Options) => {
      exit(
        options.dryRun ? await dryRun(jobPath, options, exit) : await run(jobPath, options, exit, underWay),
      );
    });
}

async function dryRun(jobPath: string, options: Options, exit: Exit): Promise<number> {
  if (!options.quiet) process.stderr.write(terminalText('--dry-run is promptmill check: nothing is sent\n'));
  return await (await import('./check.js')).check(jobPath, options, exit);
}

const run = (jobPath: string, options: Options, exit: Exit, underWay: UnderWay): Promise<number> =>
  runHere(openJob(jobPath, options), options, exit, underWay, async (settings, context) => {
    if (options.retryFailed && options.extend) {
      throw new UsageError(
        'bad_options',
        '--retry-failed and --extend are two steps',
        'Give one of them, and the other with a second command.',
      );
    }
    if (options.retryFailed && options.sample !== undefined) {
      throw new UsageError(
        'bad_options',
        '--sample and --retry-failed are two steps',
        'Give one of them; promptmill retry calls the failed rows of a sample again.',
      );
    }
    if (options.retryFailed)
      return await (await import('../amend/run-and-retry.js')).runAndRetry(settings, context);
    if (options.extend) return await (await import('../amend/extend.js')).extendOutput(settings, context);
    return await runJob(settings, context);
  });

/** Runs rows of a job in this process, with messages, signals and the exit code of a command. */
export async function runHere(
  { environment, job, settings }: OpenedJob,
  options: Pick<Options, 'json' | 'quiet'>,
  exit: Exit,
  underWay: UnderWay,
  work: (settings: Settings, context: OfflineContext) => Promise<RunResult>,
): Promise<number> {
  const say = (line: string): void => {
    if (!options.quiet) process.stderr.write(`${wrapped(terminalText(line), process.stderr)}\n`);
  };
  const log = createLog(settings.logLevel);
  const connection = new Connection({ environment, job, settings }, say);
  const halt = new Halt();
  const release = haltOnSignals(halt, exit, () => {
    // Below the progress bar, if there is one.
    const line = process.stderr.isTTY ? '\n' : '';
    if (settings.output.path !== '-')
      say(`${line}stopped at once; what is known is kept. Resume with:\n  ${commandLine()}`);
  });
  try {
    const result = await work(
      settings,
      connection.offline({
        halt,
        log,
        stdin: process.stdin,
        stdout: process.stdout,
        stderr: process.stderr,
        quiet: options.quiet ?? false,
        say,
        onBegun: async (manifest) =>
          underWay.begin(
            manifest === null
              ? 'Begin again: a run to standard output cannot be continued.'
              : `Resume with:\n  ${commandLine()}`,
          ),
      }),
    );
    const isUnread = options.json && !(await isRead(summaryText(result.summary)));
    if (result.retried === 0) return isUnread ? EXIT_OF_SIGNAL.SIGPIPE : 0;
    if (!options.quiet) await print(result, settings);
    // With --quiet nothing else would say why, and cron mails only this.
    else if (result.halted?.kind === 'stop' || result.summary.missed !== null)
      process.stderr.write(`promptmill: ${asStarted(reasonLine(result.summary))}\n`);
    release();
    await whileNotSignalled(exit, (signal) =>
      connection.finish(result, { env: process.env, onWarning: (message) => log.warn(message), signal }),
    );
    if (isUnread) return EXIT_OF_SIGNAL.SIGPIPE;
    return result.halted?.kind === 'signal' ? EXIT_OF_SIGNAL[result.halted.signal] : exitOf(result);
  } catch (error) {
    // Interrupted while reading the input: nothing was sent, so there is no summary.
    if (halt.reason?.kind !== 'signal') throw error;
    say(`stopped before anything was sent. ${underWay.resume ?? 'The same command begins again.'}`);
    return EXIT_OF_SIGNAL[halt.reason.signal];
  } finally {
    release();
    await connection.close();
  }
}

/** Steps after the run also end at a signal. */
async function whileNotSignalled(exit: Exit, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  await work(halt.signal).finally(release);
}

/** False when the reader of standard output is gone (fault 51). */
function isRead(text: string): Promise<boolean> {
  return new Promise((resolve) => {
    process.stdout.write(text, (error) => resolve(!error));
  });
}

async function print(
  { summary, halted, files, review, report, beyond, kept }: RunResult,
  settings: Settings,
): Promise<void> {
  const { jobFile, emulated } = settings;
  const forReview = summary.answers_abstained + invalidIn(summary) > 0 ? review : null;
  const written: [string, string][] =
    files === null
      ? []
      : halted === null
        ? [
            ['output', files.output],
            ['summary', files.summary],
            ...(settings.output.format.isError && existsSync(files.errors)
              ? [['errors', files.errors] as [string, string]]
              : []),
            ...(forReview === null ? [] : [['review', forReview] as [string, string]]),
            ...(report === null ? [] : [['report', report] as [string, string]]),
          ]
        : [
            ['so far', files.part],
            ['state', files.manifest],
          ];
  const document = summaryDocument(summary, {
    files: written,
    // An output on standard output is gone; there is no file to resume.
    resume: files === null ? null : commandLine(),
    // Only a finished output is read; what cannot be read is left out.
    examples:
      files === null || halted !== null
        ? {}
        : await exampleTexts(files.output, summary.scores, summary.details.prompt).catch(() => ({})),
    kept: files === null ? summary.rows.total : kept,
  });
  const { failed } = summary.rows;
  const isOver = halted === null && files !== null;
  const rest =
    isOver && beyond > 0
      ? `\n${counted(beyond, 'row')} ${beyond === 1 ? 'is' : 'are'} left. Go on with:\n  ${commandLine(PARTS)}\n`
      : isOver && failed > 0 && jobFile !== null && canRetry(summary, settings)
        ? `\n${counted(failed, 'row')} failed. Call ${failed === 1 ? 'it' : 'them'} again with:\n  ${retryCommandFor(files.output, emulated)}\n`
        : '';
  show(document, process.stderr, '\n');
  process.stderr.write(terminalText(rest));
}

/** Whether the records say which rows failed, and why, together with the summary. */
function canRetry(summary: StoredSummary, settings: Settings): boolean {
  const { format } = settings.output;
  const { names } = recordFormat({ ...recordOptions(settings), format, inputColumns: null });
  const code = format.hasHeader ? 'error_code' : 'error';
  return names.includes('status') && (names.includes(code) || failedCodes(summary) !== null);
}

const PARTS = ['--limit', '--sample', '--seed', '--by'];

/**
 * The command as typed, without the options that discard the unfinished run.
 * @param without options with a value to leave out too
 */
function commandLine(without: readonly string[] = []): string {
  const typed = process.argv.slice(2);
  const words = typed.filter(
    (word, i) =>
      word !== '--restart' &&
      word !== '--overwrite' &&
      !without.some((name) => word === name || typed[i - 1] === name || word.startsWith(`${name}=`)),
  );
  return ['promptmill', ...words.map(withoutPassword).map(shellWord)].join(' ');
}
