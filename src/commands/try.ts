import { Command } from 'commander';
import { summaryAt } from '../account/read-summary.js';
import { costOf } from '../account/summary.js';
import { NO_USAGE } from '../account/tally.js';
import { type CompareReport, compareOutputs, requestedFile } from '../compare/compare-outputs.js';
import { type TriedVariant, type TryReport, tryDocument } from '../compare/try-document.js';
import { Halt } from '../core/halt.js';
import { writeRequestedFile } from '../output/requested-file.js';
import { show } from '../render/terminal.js';
import { outputFiles } from '../resume/output-files.js';
import { CONCURRENCY, seed, wholeNumber } from './job.js';
import { EXIT_OF_SIGNAL, type Exit, haltOnSignals } from './signals.js';
import { answerAll, checkVariants, type Variant, type VariantOptions, variantsOf } from './variants.js';

interface Options extends VariantOptions {
  readonly html?: string;
  readonly overwrite?: boolean;
  readonly json?: boolean;
}

const EXAMPLES = `
Examples:
  $ promptmill try jobs/sentiment.yaml --prompt shorter.txt
      the job as it is, and with the prompt of that file, on the same 100 rows
  $ promptmill try jobs/sentiment.yaml --prompt a.txt --prompt b.txt --rows 500
  $ promptmill try jobs/sentiment.yaml --deployment b --set parameters.top_p=0.5
      each option is a variant of its own
  $ promptmill try jobs/sentiment.yaml --prompt shorter.txt --emulate

Each variant has an output beside that of the job: reviews.try-job.csv, and
reviews.try-shorter-1a2b3c.csv, with …-changed.csv for rows that differ.
limits.budget holds for all variants together. The same command goes on where it
was stopped, and a further try calls no row again whose request and settings are
the same. Exit codes: 0 compared; 2 did not start; 3 stopped early; 130, 143
interrupted.
`;

export function tryCommand(exit: Exit): Command {
  return new Command('try')
    .description('compare a job with variants of it on the same rows: prompts, deployments, settings')
    .argument('<job>', 'the job file, for example jobs/sentiment.yaml')
    .option('--prompt <file...>', 'another prompt: a template, as in the job')
    .option('--deployment <name...>', 'another deployment')
    .option('--set <path=value...>', 'another value of a field of the job: parameters.temperature=0.7')
    .option('--rows <n>', 'number of rows, chosen at random', wholeNumber, 100)
    .option('--seed <n>', 'another number chooses other rows', seed, 0)
    .option('--input <file>', 'read rows from this file')
    .option('--format <format>', 'format of the input (default: from its name)')
    .option('--queue <url>', 'as of run')
    .option(...CONCURRENCY)
    .option('--emulate', 'call an emulator of the service on this machine instead of the service')
    .option('--html <file>', 'write the comparison as one page')
    .option('--overwrite', 'replace the file of --html')
    .option('--json', 'print the comparison as JSON on standard output')
    .option('--log-level <level>', 'fatal, error, warn, info, debug, trace or silent (default: warn)')
    .addHelpText('after', EXAMPLES)
    .action(async (job: string, options: Options) => {
      exit(await tryVariants(job, options, exit));
    });
}

async function tryVariants(
  jobPath: string,
  { html, overwrite = false, json, ...options }: Options,
  exit: Exit,
): Promise<number> {
  const unchecked = variantsOf(jobPath, options);
  const outputs = unchecked.map(outputOf);
  const page =
    html === undefined
      ? null
      : requestedFile('--html', '.html', { path: html, overwrite }, [...outputs, jobPath]);
  const halt = new Halt();
  const release = haltOnSignals(halt, exit);
  try {
    const variants = await checkVariants(unchecked, halt);
    const [first, ...others] = variants;
    const paid = await answerAll(variants, halt);
    if (typeof paid === 'number') return paid;
    const reports: CompareReport[] = [];
    for (const other of others) {
      const changed = { path: other.changed, overwrite: true };
      const both = [outputOf(first), outputOf(other)] as const;
      reports.push(await compareOutputs(...both, { changed, signal: halt.signal }));
    }
    const tried = variants.map((variant, i) => triedVariant(variant, reports[i - 1] ?? null));
    const report: TryReport = { variants: tried, paid };
    const files = variants.flatMap((variant) => [
      [variant.name, outputOf(variant)] as const,
      ...(variant === first ? [] : [[`${variant.name}, changed rows`, variant.changed] as const]),
    ]);
    const document = tryDocument(report, reports, files);
    if (page !== null) {
      const { renderHtml } = await import('../render/html.js');
      await writeRequestedFile({ ...page, like: outputs }, await renderHtml(document));
    }
    if (json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
    else show(document, process.stderr);
    return 0;
  } catch (error) {
    if (halt.reason?.kind !== 'signal') throw error;
    return EXIT_OF_SIGNAL[halt.reason.signal];
  } finally {
    release();
  }
}

const outputOf = ({ opened }: Variant): string => opened.settings.output.path;

/** @throws Error when the summary of a run that has just ended is gone */
function triedVariant({ name, opened }: Variant, report: CompareReport | null): TriedVariant {
  const { output, budgetPrices } = opened.settings;
  const summary = summaryAt(outputFiles(output.path).summary);
  if (summary === null) throw new Error(`${output.path} has no summary`);
  const { rows, scores, answers_invalid, answers_refused, usage, latency_ms, emulated, currency } = summary;
  // Answers taken over cost what the run that called paid; of several endpoints, at the highest prices.
  const taken = summary.details.tally.reused?.usage ?? NO_USAGE;
  const cost = budgetPrices.prices === null ? 0 : costOf(taken, budgetPrices.prices);
  const { better = null, worse = null, p = null } = report?.verdict ?? {};
  return {
    name,
    rows: rows.total,
    accuracy: scores?.accuracy ?? null,
    f1: scores?.macro_f1 ?? null,
    invalid: answers_invalid + answers_refused,
    tokens: usage.total_tokens + taken.total_tokens,
    cost: summary.cost === null ? null : Number((summary.cost + cost).toFixed(6)),
    ...(currency !== undefined && { currency }),
    p50_ms: latency_ms.p50,
    against_first: report && { agreement: report.agreement, changed: report.changed, better, worse, p },
    ...{ output: output.path, emulated },
  };
}
