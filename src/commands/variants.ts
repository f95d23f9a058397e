import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { basename, extname } from 'node:path';
import { summaryAt } from '../account/read-summary.js';
import { costOf, paidFor } from '../account/summary.js';
import type { Paid } from '../compare/try-document.js';
import { readEnvironment } from '../config/environment.js';
import { readJobFile } from '../config/job-file.js';
import type { RunFlags, Settings } from '../config/settings.js';
import { errorText, UsageError } from '../core/errors.js';
import { cost, count } from '../core/figures.js';
import type { Halt } from '../core/halt.js';
import type { Tokens } from '../core/model.js';
import { type OpenedJob, openedJob } from '../library/opened-job.js';
import { runOpened } from '../library/run-opened.js';
import { marked, stemOf } from '../output/output-name.js';
import { sha256Of } from '../output/plain-file.js';
import { NO_TOKENS } from '../pace/budget.js';
import { escapeControls, terminalText } from '../render/terminal-text.js';
import { changedParts, fingerprint } from '../resume/fingerprint.js';
import { readManifest } from '../resume/manifest.js';
import { outcomesPath } from '../resume/outcome-file.js';
import { filledPaths, outputFiles } from '../resume/output-files.js';
import { checkSteps } from '../run/finishing.js';
import { openInput } from '../run/input.js';
import { runJob } from '../run/pipeline.js';
import { planRows } from '../run/plan.js';
import { createLog } from './log.js';
import { EXIT_OF_SIGNAL } from './signals.js';

export interface VariantOptions
  extends Pick<RunFlags, 'input' | 'format' | 'queue' | 'concurrency' | 'emulate' | 'logLevel'> {
  readonly prompt?: readonly string[];
  readonly deployment?: readonly string[];
  readonly set?: readonly string[];
  readonly rows: number;
  readonly seed: number;
}

/** A job as it is, or with one thing changed: a run of its own, with an output beside that of the job. */
export interface Variant {
  readonly name: string;
  /** As typed, for messages; empty for the job as it is. */
  readonly option: string;
  readonly opened: OpenedJob;
  /** CSV of the rows that it answers in another way than the job. */
  readonly changed: string;
}

type Variants = [Variant, ...Variant[]];

/** What an option changes in the job. */
interface Change extends Pick<Variant, 'name' | 'option'> {
  /** Begins the name of its output. */
  readonly file: string;
  readonly prompt?: string;
  readonly set?: readonly string[];
}

const AS_IT_IS: Change = { name: 'job', option: '', file: 'job' };

/**
 * The job as it is comes first.
 * @throws UsageError when one of them is no valid job; names its option
 */
export function variantsOf(jobPath: string, options: VariantOptions): Variants {
  const { prompt: prompts = [], deployment = [], set = [], rows, seed, ...flags } = options;
  const changes: Change[] = [
    ...[...new Set(prompts)].map((file) => ({
      ...{ name: file, option: `--prompt ${file}`, file: basename(file, extname(file)) },
      prompt: promptIn(file),
    })),
    ...[...new Set(deployment)].map((name) => ({
      ...{ name, option: `--deployment ${name}`, file: name },
      // The model of the job's deployment is perhaps not that of this one.
      set: [`service.deployment=${JSON.stringify(name)}`, 'service.model=null'],
    })),
    ...[...new Set(set)].map((text) => ({ name: text, option: `--set ${text}`, file: text, set: [text] })),
  ];
  if (changes.length === 0)
    throw new UsageError(
      'try_needs_variant',
      'try compares the job with variants of it, and none is named',
      'Name at least one, with --prompt, --deployment or --set.',
    );
  const environment = readEnvironment(process.env);
  const first = readJobFile(jobPath, environment);
  if (first.messages !== null && prompts.length > 0)
    throw new UsageError(
      'try_needs_prompt',
      `${jobPath} has messages, and --prompt stands for the field prompt`,
      'Write the last message as prompt and the others as system, or change a message with --set messages.0.content=….',
    );
  const usual = openedJob(first, environment, { ...flags, emulate: false }).settings.output.path;
  const stem = stemOf((first.output.path ?? usual).replaceAll(PLACEHOLDER, 'try'));
  const [sample = null] = filledPaths(openedJob(first, environment, flags).settings.output.path, '');
  const sampled = sample && summaryAt(outputFiles(sample).summary);
  const variant = ({ name, option, file, prompt, set }: Change): Variant => {
    const { onFinish: _, schedule: __, ...job } = readJobFile(jobPath, environment, set);
    const { settings, ...opened } = openedJob(
      { ...job, ...(prompt !== undefined && { prompt }) },
      environment,
      { ...flags, sample: rows, seed },
    );
    const slug = option === '' ? file : `${file.replace(/[^\w.-]+/g, '_').slice(0, 40)}-${hashOf(option)}`;
    const place = (ending: string): string => {
      const path = `${stem}.try-${slug}${ending}`;
      return flags.emulate ? marked(path, 'emulated') : path;
    };
    const { output, reuse } = settings;
    const own = {
      output: { ...output, path: place(output.format.endings[0]), columns: null },
      reuse: {
        ...reuse,
        onlyNew: false,
        known: sampled ? [outcomesOf(settings, sampled.run)] : [],
        keeps: true,
      },
      drift: null,
      report: false,
    };
    return {
      ...{ name, option },
      opened: { ...opened, settings: { ...settings, ...own } },
      changed: place('-changed.csv'),
    };
  };
  return [variant(AS_IT_IS), ...changes.map((change) => named(change.option, () => variant(change)))];
}

const PLACEHOLDER = /\{\{\s*(?:date|run)\s*\}\}/g;

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 6);

/** @throws UsageError of the work, which then names the option of its variant */
function named<T>(option: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw naming(option, error);
  }
}

function naming(option: string, error: unknown): unknown {
  if (!(error instanceof UsageError) || error.message.startsWith(option)) return error;
  return new UsageError(error.code, `${option}: ${error.message}`, error.hint);
}

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

/**
 * Checks all of them against the input before anything is sent.
 * @returns the same, without a sample where that is the whole input
 * @throws UsageError with the option of one
 */
export async function soundOnes([first, ...others]: Variants, halt: Halt): Promise<Variants> {
  const sound = async (variant: Variant): Promise<Variant> => {
    const { option, opened } = variant;
    const { settings } = opened;
    if (settings.input.path === '-')
      throw new UsageError(
        'try_needs_file',
        'try reads its input for each variant, and standard input can be read once',
        'Name a file with --input.',
      );
    if (inputOf(settings) !== inputOf(first.opened.settings))
      throw new UsageError(
        'try_other_input',
        `${option} reads other rows than the job, and variants are compared on the same`,
        'Compare the outputs of two runs with promptmill compare.',
      );
    const input = await openInput(settings, { stdin: process.stdin, halt });
    try {
      const { format } = await planRows(settings, input.survey);
      checkSteps(settings, input.survey, format);
      const part = { ...settings.input, sample: input.sample };
      return { ...variant, opened: { ...opened, settings: { ...settings, input: part } } };
    } catch (error) {
      throw naming(option, error);
    } finally {
      input.discard();
    }
  };
  const all: Variants = [await sound(first)];
  for (const variant of others) all.push(await sound(variant));
  return all;
}

const inputOf = ({ input: { require: _, ...input } }: Settings): string => JSON.stringify(input);

/** What is on disk of a variant. */
interface Begun {
  /** Every row is answered. */
  readonly isDone: boolean;
  readonly flags: Pick<Settings, 'restart' | 'overwrite'>;
  /** The run that others take answers from; null for none. */
  readonly run: string | null;
  readonly spent: Spent;
}

interface Spent {
  readonly paid: Paid;
  /** As the budget counts, for all of its calls. */
  readonly billed: Tokens;
}

const NOTHING: Spent = { paid: { calls: 0, tokens: 0, cost: 0 }, billed: NO_TOKENS };

/**
 * Calls what is not answered yet, by itself or by another variant, one variant after the other and under one
 * budget.
 * @returns what was paid, or an exit code when it stopped early
 */
export async function answerAll(variants: readonly Variant[], halt: Halt): Promise<Paid | number> {
  const begun: Begun[] = [];
  for (const { opened } of variants) begun.push(await begunOf(opened.settings));
  let paid = NOTHING.paid;
  for (const [i, { name, opened }] of variants.entries()) {
    const { isDone, flags, spent: before } = begun[i] ?? (await begunOf(opened.settings));
    const { settings } = opened;
    const say = (text: string): boolean => process.stderr.write(terminalText(`${name}: ${text}\n`));
    if (isDone) {
      say(`${settings.output.path} is answered already`);
      continue;
    }
    const others = begun.map(({ spent }, j) => (j === i ? NOTHING : spent));
    const left = budgetLeft(variants, others);
    if (left !== null && left.used !== '') say(`limits.budget is for all variants together: ${left.used}`);
    const limits = { ...settings.limits, budget: left?.budget ?? null };
    say(`calling ${settings.endpoint.deployment} for ${settings.output.path}`);
    // Its own run goes on, and knows what it has.
    const runs = begun.flatMap(({ run }, j) => (run === null || (j === i && !flags.overwrite) ? [] : [run]));
    const known = [...settings.reuse.known, ...runs.map((run) => outcomesOf(settings, run))];
    const reuse = { ...settings.reuse, known };
    const context = { halt, log: createLog(settings.logLevel), env: process.env };
    const run = { ...opened, settings: { ...settings, ...flags, limits, reuse } };
    const { summary, halted } = await runOpened(run, context, runJob).catch((error) => {
      throw withOwnHint(error, settings.output.path);
    });
    const now = spentBy({ tally: summary.details.tally, ...summary }, summary.details.state, settings);
    begun[i] = { isDone: true, flags, run: summary.run, spent: now };
    paid = withPaid(withPaid(paid, now.paid, 1), before.paid, -1);
    if (halted === null) continue;
    process.stderr.write(
      `${escapeControls(summary.stopped ?? 'stopped')}\nThe same command goes on where it stopped.\n`,
    );
    return halted.kind === 'signal' ? EXIT_OF_SIGNAL[halted.signal] : 3;
  }
  return paid;
}

/** `try` has no option that replaces an output which is no longer as it was written. */
function withOwnHint(error: unknown, path: string): unknown {
  if (!(error instanceof UsageError) || !/^(?:output_changed|output_exists)$/.test(error.code)) return error;
  return new UsageError(error.code, error.message, `Move ${path} away: the same command makes it anew.`);
}

const outcomesOf = ({ stateDir }: Settings, run: string) => ({
  path: outcomesPath(stateDir, run),
  name: `the run ${run}`,
});

async function begunOf(settings: Settings): Promise<Begun> {
  const { path } = settings.output;
  const { manifest, summary } = outputFiles(path);
  const left = readManifest(manifest);
  const finished = existsSync(path) ? summaryAt(summary) : null;
  const print = fingerprint(settings, await sha256Of(settings.input.path));
  const then = left?.fingerprint ?? finished?.details.state.fingerprint ?? {};
  const isSame = changedParts(then, print).length === 0;
  // A sample is replaced without being asked, and keeps what it knows until then.
  const flags = { restart: left !== null && !isSame, overwrite: !isSame && finished?.sample === undefined };
  const run = left?.run ?? finished?.run ?? null;
  if (isSame && left !== null)
    return { isDone: false, flags, run, spent: spentBy(left, left.calls, settings) };
  if (!isSame || finished === null) return { isDone: false, flags, run, spent: NOTHING };
  const { tally, state } = finished.details;
  return { isDone: true, flags, run, spent: spentBy({ tally, calls: finished.calls }, state, settings) };
}

function spentBy(
  {
    tally,
    calls,
  }: { readonly tally: Parameters<typeof paidFor>[0]; readonly calls: { readonly sent: number } },
  { prompt_tokens, completion_tokens }: Tokens,
  { prices, endpoints }: Settings,
): Spent {
  const byEndpoint = endpoints.map(({ spec: { name }, prices }) => ({
    name,
    prices,
    calls: 0,
    rate_limited: 0,
  }));
  const cost = paidFor(tally, { prices, ...(endpoints.length > 1 && { byEndpoint }) });
  const tokens = tally.usage.total_tokens;
  return { paid: { calls: calls.sent, tokens, cost }, billed: { prompt_tokens, completion_tokens } };
}

/** What the others leave of the job's budget, which holds for all variants together. */
function budgetLeft(variants: readonly Variant[], others: readonly Spent[]) {
  const budget = variants[0]?.opened.settings.limits.budget ?? null;
  if (budget === null) return null;
  const tokens = others.reduce((sum, { billed }) => sum + billed.prompt_tokens + billed.completion_tokens, 0);
  const money = others.reduce((sum, { billed }, i) => {
    const prices = variants[i]?.opened.settings.budgetPrices.prices ?? null;
    return sum + (prices === null ? 0 : costOf(billed, prices));
  }, 0);
  const used = [
    ...(budget.tokens === null ? [] : [`${count(tokens)} of ${count(budget.tokens)} tokens`]),
    ...(budget.cost === null ? [] : [`cost ${cost(money)} of ${cost(budget.cost)}`]),
  ];
  return {
    budget: {
      tokens: budget.tokens && Math.max(0, budget.tokens - tokens),
      cost: budget.cost && Math.max(0, budget.cost - money),
    },
    used: tokens === 0 ? '' : `${used.join(' and ')} spent by the others`,
  };
}

const withPaid = (a: Paid, b: Paid, sign: 1 | -1): Paid => ({
  calls: a.calls + sign * b.calls,
  tokens: a.tokens + sign * b.tokens,
  cost: a.cost === null || b.cost === null ? null : a.cost + sign * b.cost,
});
