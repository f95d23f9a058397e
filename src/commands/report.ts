import { existsSync, lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { UsageError } from '../errors.js';
import { knownFormatOf } from '../output/format.js';
import { WriteError, writeDurably } from '../output/writer.js';
import { renderMarkdown } from '../report/markdown.js';
import { readSummary } from '../report/read-summary.js';
import { renderReport } from '../report/report-terminal.js';
import { type RunReport, reportOf, runReport } from '../report/run-report.js';
import type { Summary } from '../report/summary.js';
import { finishedOutput } from '../resume/finished-output.js';
import { outputFiles } from '../resume/output-files.js';
import type { Exit } from './signals.js';

interface Options {
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

/** `promptmill report OUTPUT|SUMMARY`: what a finished run came to, again from its files. */
export function reportCommand(exit: Exit): Command {
  return new Command('report')
    .description('show a finished run again: on the terminal, as HTML, Markdown or JSON')
    .argument('<file>', 'an output of a finished run, or its summary')
    .option('--html <file>', 'write it as one HTML page')
    .option('--markdown <file>', 'write it as Markdown')
    .option('--json', 'print it as JSON on standard output')
    .option('--overwrite', 'replace files that are there (the page beside the output is replaced without it)')
    .addHelpText('after', EXAMPLES)
    .action(async (file: string, options: Options) => {
      await report(file, options);
      exit(0);
    });
}

async function report(file: string, { html, markdown, json, overwrite = false }: Options): Promise<void> {
  const written = [html, markdown, ...(json ? ['-'] : [])].filter((name) => name !== undefined);
  if (written.filter((name) => name === '-').length > 1) {
    throw new UsageError(
      'two_on_stdout',
      'two forms of the report would go to standard output',
      'Give one of them a file: --html FILE or --markdown FILE.',
    );
  }
  const places = written.filter((name) => name !== '-').map(placeOf);
  if (new Set(places).size < places.length) {
    throw new UsageError(
      'report_not_writable',
      `--html and --markdown both name ${html}`,
      'Give each form of the report a file of its own.',
    );
  }
  const found = findRun(file);
  for (const path of written) assertFree(path, found, overwrite);
  const made = found.isThere
    ? await reportOf(found.summary, found.output)
    : runReport(found.summary, `${found.output} is not there, so the rows are left out`);
  // All are made before one is written.
  const texts: [path: string, text: string][] = [
    ...(html === undefined ? [] : [[html, await htmlOf(made)] as [string, string]]),
    ...(markdown === undefined ? [] : [[markdown, renderMarkdown(made)] as [string, string]]),
    ...(json ? [['-', `${JSON.stringify(made, null, 2)}\n`] as [string, string]] : []),
  ];
  for (const [path, text] of texts) await write(path, text);
  if (texts.length > 0) return;
  process.stderr.write(
    renderReport(made, {
      width: process.stderr.columns ?? 100,
      color: process.stderr.isTTY === true && process.env['NO_COLOR'] === undefined,
      files: [...(found.isThere ? ([['output', found.output]] as const) : []), ['summary', found.path]],
    }),
  );
}

/** The files of a run; they may have been moved together, so the output is looked for beside the summary. */
interface FoundRun {
  readonly output: string;
  readonly isThere: boolean;
  /** The path of the summary. */
  readonly path: string;
  readonly summary: Summary;
}

function findRun(file: string): FoundRun {
  if (file.endsWith('.json')) {
    const summary = readSummary(file);
    const output = join(dirname(file), basename(summary.output));
    // What went to standard output is gone.
    const isThere = summary.output !== '-' && existsSync(output);
    return { output: summary.output === '-' ? 'the output' : output, isThere, path: file, summary };
  }
  const path = outputFiles(file).summary;
  // Without its output a run can be told by its summary alone.
  const isThere = existsSync(file) || knownFormatOf(file) === null || !existsSync(path);
  if (isThere) finishedOutput(file);
  const summary = readSummary(path);
  if (basename(summary.output) === basename(file)) return { output: file, isThere, path, summary };
  throw new UsageError(
    'output_not_ours',
    `${path} is the summary of ${summary.output}, and not of ${file}`,
    'Give an output of a finished run whose summary is beside it.',
  );
}

/** A report takes the place of no file of the run, nor of what somebody else has made, and of nothing but a file. */
function assertFree(
  path: string,
  { output, path: summaryPath, summary }: FoundRun,
  overwrite: boolean,
): void {
  if (path === '-') return;
  const place = placeOf(path);
  const { report: page, ...files } = outputFiles(output);
  const own = [summaryPath, summary.input.path, summary.job_file, ...Object.values(files)];
  const refused = (
    code: string,
    why: string,
    hint = 'Name another file for the report, or - for standard output.',
  ) => new UsageError(code, `${path} ${why}`, hint);
  if (own.some((name) => name !== undefined && placeOf(name) === place))
    throw refused('report_not_writable', 'is a file of the run itself');
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there?.isSymbolicLink()) throw refused('report_not_writable', 'is a symbolic link');
  if (there !== undefined && !there.isFile())
    throw refused('report_not_writable', 'is there, and is no plain file');
  if (there !== undefined && !overwrite && place !== placeOf(page))
    throw refused(
      'output_exists',
      'exists',
      'Replace it with --overwrite, or name another file for the report.',
    );
}

/** The file that a name stands for, whether it is there or not; also where a link that leads nowhere has the name. */
function placeOf(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(resolve(path));
  return join(existsSync(folder) ? realpathSync(folder) : folder, basename(path));
}

/** Charts and tables are loaded for a page only. */
const htmlOf = async (report: RunReport): Promise<string> =>
  (await import('../report/page/render-html.js')).renderHtml(report);

async function write(path: string, text: string): Promise<void> {
  if (path === '-') {
    await new Promise((resolve) => process.stdout.write(text, resolve));
    return;
  }
  try {
    await writeDurably(path, text);
  } catch (error) {
    if (!(error instanceof WriteError)) throw error;
    throw new UsageError('report_not_writable', error.message, 'Name another file for the report.', {
      cause: error,
    });
  }
}
