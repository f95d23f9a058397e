import { existsSync, readFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { Command } from 'commander';
import { parse } from 'csv-parse/sync';
import { summaryAt } from '../account/read-summary.js';
import { compareDocument } from '../compare/compare-document.js';
import { compareOutputs } from '../compare/compare-outputs.js';
import { readEnvironment } from '../config/environment.js';
import { readJobFile } from '../config/job-file.js';
import type { RunFlags, Settings } from '../config/settings.js';
import { errorText, UsageError } from '../core/errors.js';
import { Halt } from '../core/halt.js';
import { type OpenedJob, openedJob } from '../library/opened-job.js';
import { runOpened } from '../library/run-opened.js';
import { marked, stemOf } from '../output/output-name.js';
import { sha256Of } from '../output/plain-file.js';
import { optionsOf, show } from '../render/terminal.js';
import { clip, escapeControls, terminalText } from '../render/terminal-text.js';
import { changedParts, fingerprint } from '../resume/fingerprint.js';
import { readManifest } from '../resume/manifest.js';
import { outputFiles } from '../resume/output-files.js';
import { openInput } from '../run/input.js';
import { runJob } from '../run/pipeline.js';
import { planRows } from '../run/plan.js';
import { CONCURRENCY, concurrency, wholeNumber } from './job.js';
import { createLog } from './log.js';
import { EXIT_OF_SIGNAL, type Exit, haltOnSignals } from './signals.js';

interface Options
  extends Pick<RunFlags, 'input' | 'format' | 'queue' | 'concurrency' | 'emulate' | 'logLevel'> {
  readonly prompt: string;
  readonly limit: number;
  readonly json?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill try jobs/sentiment.yaml --prompt shorter.txt
      the job's prompt (a) and that of the file (b) on the first 100 rows
  $ promptmill try jobs/sentiment.yaml --prompt shorter.txt --limit 500
  $ promptmill try jobs/sentiment.yaml --prompt shorter.txt --emulate

The outputs are beside that of the job: reviews.try-a.csv, reviews.try-b.csv,
and reviews.try-changed.csv with the rows whose answers differ. The same command
goes on where it was stopped; a further try replaces them, and calls no row anew
whose prompt and settings are the same. Exit codes: 0 compared; 2 did not start;
3 stopped early; 130, 143 interrupted.
`;

export function tryCommand(exit: Exit): Command {
  return new Command('try')
    .description("compare the job's prompt with another one on the first rows")
    .argument('<job>', 'the job file, for example jobs/sentiment.yaml')
    .requiredOption('--prompt <file>', 'the other prompt: a template, as in the job')
    .option('--limit <n>', 'on the first n rows', wholeNumber, 100)
    .option('--input <file>', 'read rows from this file')
    .option('--format <format>', 'format of the input (default: from its name)')
    .option('--queue <url>', 'as of run')
    .option(...CONCURRENCY, concurrency)
    .option('--emulate', 'call an emulator of the service on this machine instead of the service')
    .option('--json', 'print the comparison as JSON on standard output')
    .option('--log-level <level>', 'fatal, error, warn, info, debug, trace or silent (default: warn)')
    .addHelpText('after', EXAMPLES)
    .action(async (job: string, options: Options) => {
      exit(await tryPrompts(job, options, exit));
    });
}

async function tryPrompts(
  jobPath: string,
  { prompt: file, json, ...flags }: Options,
  exit: Exit,
): Promise<number> {
  const environment = readEnvironment(process.env);
  const { onFinish: _, schedule: __, ...job } = readJobFile(jobPath, environment);
  if (job.messages !== null)
    throw new UsageError(
      'try_needs_prompt',
      `${jobPath} has messages, and try compares two of the field prompt`,
      'Write the last message as prompt and the others as system, or compare two runs with promptmill compare.',
    );
  const named = (path: string): string => (flags.emulate ? marked(path, 'emulated') : path);
  const stem = stemOf(
    (
      job.output.path ?? openedJob(job, environment, { ...flags, emulate: false }).settings.output.path
    ).replaceAll(PLACEHOLDER, 'try'),
  );
  const side = (name: 'a' | 'b', prompt: string | null): OpenedJob => {
    const { settings, ...opened } = openedJob({ ...job, prompt }, environment, flags);
    const path = named(`${stem}.try-${name}${settings.output.format.endings[0]}`);
    const { output, reuse } = settings;
    const own = {
      output: { ...output, path },
      reuse: { ...reuse, onlyNew: false },
      drift: null,
      report: false,
    };
    return { ...opened, settings: { ...settings, ...own } };
  };
  const [a, b] = [side('a', job.prompt), side('b', promptIn(file))];
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  try {
    await assertSound(b.settings, file, halt);
    for (const opened of [a, b]) {
      const stopped = await answered(opened, halt);
      if (stopped !== null) return stopped;
    }
    const changed = { path: named(`${stem}.try-changed.csv`), overwrite: true };
    const [pathA, pathB] = [a.settings.output.path, b.settings.output.path];
    const report = await compareOutputs(pathA, pathB, { changed, signal: halt.signal });
    if (json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
    else {
      show(compareDocument(report, null, [['changed rows', changed.path]]), process.stderr);
      process.stderr.write(firstChanges(changed.path, optionsOf(process.stderr).width));
    }
    return 0;
  } catch (error) {
    if (halt.reason?.kind !== 'signal') throw error;
    return EXIT_OF_SIGNAL[halt.reason.signal];
  } finally {
    release();
  }
}

const PLACEHOLDER = /\{\{\s*(?:date|run)\s*\}\}/g;

/** Without the line break at the end, which editors add and a prompt does not have. */
function promptIn(file: string): string {
  const refused = (why: string) =>
    new UsageError('prompt_unreadable', `--prompt ${file} ${why}`, 'Name a file with a prompt.');
  let text: string;
  try {
    text = readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    throw refused(`cannot be read: ${errorText(error)}`);
  }
  if (text.trim() === '') throw refused('is empty');
  return text;
}

/** Checks the other prompt before anything is sent. @throws UsageError with the name of its file */
async function assertSound(settings: Settings, file: string, halt: Halt): Promise<void> {
  if (settings.input.path === '-')
    throw new UsageError(
      'try_needs_file',
      'try reads its input twice, and standard input can be read once',
      'Name a file with --input.',
    );
  const input = await openInput(settings, { stdin: process.stdin, halt });
  try {
    await planRows(settings, input.survey);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(error.code, `--prompt ${file}: ${error.message}`, error.hint);
  } finally {
    input.discard();
  }
}

/** @returns an exit code when the run stopped early */
async function answered(opened: OpenedJob, halt: Halt): Promise<number | null> {
  const { settings } = opened;
  const { path } = settings.output;
  const { limit } = settings.input;
  const { manifest, summary } = outputFiles(path);
  const left = readManifest(manifest);
  const finished = left === null && existsSync(path) ? summaryAt(summary) : null;
  const { rows, fingerprint: then } = left ?? {
    rows: finished?.rows.total ?? 0,
    fingerprint: finished?.details.state.fingerprint ?? {},
  };
  const print = fingerprint(settings, await sha256Of(settings.input.path));
  const isSame = changedParts(then, print).length === 0;
  const fits = rows <= (limit ?? Number.POSITIVE_INFINITY);
  if (isSame && fits && finished !== null && (rows === limit || finished.beyond === undefined)) {
    process.stderr.write(terminalText(`${path} is answered already\n`));
    return null;
  }
  const goesOn = isSame && fits;
  const run = { ...opened, settings: { ...settings, overwrite: !goesOn, restart: !goesOn } };
  process.stderr.write(terminalText(`calling ${settings.endpoint.deployment} for ${path}\n`));
  const context = {
    halt,
    log: createLog(settings.logLevel),
    env: process.env,
    stdout: new PassThrough().resume(),
  };
  const { summary: made, halted } = await runOpened(run, context, runJob);
  if (halted === null) return null;
  process.stderr.write(
    `${escapeControls(made.stopped ?? 'stopped')}\nThe same command goes on where it stopped.\n`,
  );
  return halted.kind === 'signal' ? EXIT_OF_SIGNAL[halted.signal] : 3;
}

const SHOWN = 10;

/** The first rows whose answers differ, one line each. */
function firstChanges(path: string, width: number): string {
  const rows: string[][] = parse(readFileSync(path), { to: SHOWN + 1 });
  const [head = [], ...changes] = rows;
  const cell = (row: string[], name: string): string => escapeControls(row[head.indexOf(name)] ?? '');
  const id = head.includes('id') ? 'id' : 'row';
  // When there is no answer, the text says why.
  const said = (row: string[], side: string): string => {
    const answer = cell(row, `answer_${side}`);
    return answer.startsWith('(') ? `${answer} ${cell(row, `text_${side}`)}`.trimEnd() : answer;
  };
  const lines = changes.map((row) =>
    clip(`  ${cell(row, id)}: ${clip(said(row, 'a'), 40)} → ${said(row, 'b')}`, width),
  );
  return lines.length === 0 ? '' : `\nthe first rows that changed, by ${id}:\n${lines.join('\n')}\n`;
}
