import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Command } from 'commander';
import { type FinishedSummary, readSummary } from '../account/read-summary.js';
import { recordOptions } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { knownFormatOf } from '../output/format.js';
import type { RecordedJob } from '../output/reader.js';
import { assertFree, type RequestedFile, realPathOf, writeRequestedFile } from '../output/requested-file.js';
import { renderMarkdown } from '../render/markdown.js';
import { runDocument } from '../render/run-document.js';
import { type RunReport, reportOf, runReport } from '../render/run-report.js';
import { show } from '../render/terminal.js';
import { terminalText } from '../render/terminal-text.js';
import { openFinished } from '../resume/finished-output.js';
import { outputFiles } from '../resume/output-files.js';
import { openJob } from './job.js';
import type { Exit } from './signals.js';

interface Options {
  readonly job?: string;
  readonly html?: string;
  readonly markdown?: string;
  readonly json?: boolean;
  readonly overwrite?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill report out/reviews.csv
  $ promptmill report out/reviews.csv --html out/reviews.report.html
      one page that loads nothing, for a browser
  $ promptmill report out/reviews.summary.json --markdown - | less
      also where the output itself is gone
  $ promptmill report out/reviews.csv --json | jq .verdict

- is standard output. Nothing is called, and no key is needed. Exit codes: 0 the
report is made; 2 it could not be, and nothing is written.
`;

export function reportCommand(exit: Exit): Command {
  return new Command('report')
    .description('show a finished run again: on the terminal, as HTML, Markdown or JSON')
    .argument('<file>', 'an output of a finished run, or its summary')
    .option('--html <file>', 'write it as one HTML page')
    .option('--markdown <file>', 'write it as Markdown')
    .option('--json', 'print it as JSON on standard output')
    .option(
      '--job <file>',
      'the job file, which says which answers are right (default: the one that the summary names)',
    )
    .option('--overwrite', 'replace files that are there (the page beside the output is replaced without it)')
    .addHelpText('after', EXAMPLES)
    .action(async (file: string, options: Options) => {
      await report(file, options);
      exit(0);
    });
}

async function report(
  file: string,
  { html, markdown, json, job, overwrite = false }: Options,
): Promise<void> {
  const forms = [
    { option: '--html', path: html, make: htmlOf },
    { option: '--markdown', path: markdown, make: markdownOf },
    { option: '--json', path: json ? STDOUT : undefined, make: jsonOf },
  ].flatMap(({ path, ...form }) => (path === undefined ? [] : [{ ...form, path, overwrite }]));
  const files = forms.filter(({ path }) => path !== STDOUT);
  if (forms.length - files.length > 1) {
    throw new UsageError(
      'two_on_stdout',
      'two forms of the report would go to standard output',
      'Give one of them a file: --html FILE or --markdown FILE.',
    );
  }
  if (new Set(files.map(({ path }) => realPathOf(path))).size < files.length) {
    throw new UsageError(
      'report_not_writable',
      `--html and --markdown both name ${html}`,
      'Give each form of the report a file of its own.',
    );
  }
  const found = await findRun(file);
  for (const wanted of files) assertNotOfRun(wanted, found);
  if (found.warning !== null) process.stderr.write(`warning: ${terminalText(found.warning)}\n`);
  const made = found.isThere
    ? await reportOf(found.summary, found.output, jobOf(found, job), found.warning)
    : runReport(found.summary, `${found.output} is not there, so the rows are left out`);
  // Make all forms before writing any.
  const texts = await Promise.all(forms.map(async (form) => ({ form, text: await form.make(made) })));
  for (const { form, text } of texts) {
    if (form.path !== STDOUT)
      await writeRequestedFile({ ...form, like: [found.isThere ? found.output : found.path] }, text);
    else await new Promise((resolve) => process.stdout.write(text, resolve));
  }
  if (texts.length > 0) return;
  const written = found.isThere ? [['output', found.output] as const] : [];
  show(runDocument(made, [...written, ['summary', found.path]]), process.stderr);
}

/** The files of a run. They may have been moved together, so the output is looked up beside the summary. */
interface FoundRun {
  readonly output: string;
  readonly isThere: boolean;
  /** Path of the summary. */
  readonly path: string;
  readonly summary: FinishedSummary;
  readonly warning: string | null;
}

async function findRun(file: string): Promise<FoundRun> {
  const isSummary = file.endsWith('.json');
  const path = isSummary ? file : outputFiles(file).summary;
  const told = isSummary ? readSummary(file) : undefined;
  const named = told?.output ?? file;
  const output = isSummary && named !== '-' ? join(dirname(file), basename(named)) : named;
  // Without its output, a run is identified by its summary alone. An output on standard output is gone.
  const isUnknown = !isSummary && (knownFormatOf(file) === null || !existsSync(path));
  const isThere = named !== '-' && (existsSync(output) || isUnknown);
  const warning = isThere ? (await openFinished(output, 'warn', told)).warning : null;
  const summary = told ?? readSummary(path);
  if (isSummary || basename(summary.output) === basename(file))
    return { output: named === '-' ? 'the output' : output, isThere, path, summary, warning };
  throw new UsageError(
    'output_not_ours',
    `${path} is the summary of ${summary.output}, and not of ${file}`,
    'Give an output of a finished run whose summary is beside it.',
  );
}

/** Without its job a report has everything but the right answers. @throws UsageError for one that is named */
function jobOf({ summary }: FoundRun, named: string | undefined): RecordedJob | null {
  const file = named ?? summary.job_file;
  let why = 'the summary names no job file';
  try {
    const set = named === undefined ? summary.job_set : [];
    if (file !== undefined) return recordOptions(openJob(file, { set }).settings);
  } catch (error) {
    if (named !== undefined || !(error instanceof UsageError)) throw error;
    why = error.message;
  }
  if (summary.scores !== undefined) {
    const told = `wrong answers are not marked: ${why}. Name the job file with --job FILE.`;
    process.stderr.write(`warning: ${terminalText(told)}\n`);
  }
  return null;
}

/** Only the page that the run wrote beside its output may be replaced, none of its other files. */
function assertNotOfRun(wanted: RequestedFile, { output, path, summary }: FoundRun): void {
  const { report: page, ...files } = outputFiles(output);
  const overwrite = wanted.overwrite === true || realPathOf(wanted.path) === realPathOf(page);
  assertFree({ ...wanted, overwrite }, [
    ...Object.values(files),
    ...[path, summary.input.path, summary.job_file],
  ]);
}

/** Charts and tables are loaded for a page only. */
const htmlOf = async (report: RunReport): Promise<string> =>
  (await import('../render/html.js')).renderHtml(runDocument(report));

const markdownOf = (report: RunReport): string => renderMarkdown(runDocument(report));

const jsonOf = (report: RunReport): string => `${JSON.stringify(report, null, 2)}\n`;

const STDOUT = '-';
