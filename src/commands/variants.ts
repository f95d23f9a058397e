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
import { escapeControls, terminalText } from '../render/terminal-text.js';
import { changedParts, fingerprint } from '../resume/fingerprint.js';
import { readManifest } from '../resume/manifest.js';
import { outcomesPath } from '../resume/outcome-file.js';
import { filledPaths, outputFiles, PLACEHOLDER } from '../resume/output-files.js';
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

/** The job as it is, or with one change. It is a run with its own output, beside the job's. */
export interface Variant {
  readonly name: string;
  /** As typed, for messages; empty for the job as it is. */
  readonly option: string;
  readonly opened: OpenedJob;
  /** CSV of the rows whose answer differs from the job's. */
  readonly changed: string;
}

type Variants = [Variant, ...Variant[]];

interface Change extends Pick<Variant, 'name' | 'option'> {
  /** Begins the name of its output. */
  readonly file: string;
  readonly prompt?: string;
  readonly set?: readonly string[];
}

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
      // The new deployment may have another model.
      set: [`service.deployment=${JSON.stringify(name)}`, 'service.model=null'],
    })),
    ...[...new Set(set)].map((text) => ({ name: text, option: `--set ${text}`, file: text, set: [text] })),
  ];
  if (changes.length === 0)
    throw new UsageError(
      'try_needs_variant',
      'try compares the job with variants of it, but none is named',
      'Name at least one, with --prompt, --deployment or --set.',
    );
  const environment = readEnvironment(process.env);
  const first = readJobFile(jobPath, environment);
  if (first.messages !== null && prompts.length > 0)
    throw new UsageError(
      'try_needs_prompt',
      `${jobPath} has messages, and --prompt replaces the field prompt`,
      'Write the last message as prompt and the others as system, or change a message with --set messages.0.content=….',
    );
  const usual = openedJob(first, environment, { ...flags, emulate: false }).settings.output.path;
  const stem = stemOf((first.output.path ?? usual).replaceAll(PLACEHOLDER, 'try'));
  const [sample = null] = filledPaths(openedJob(first, environment, flags).settings.output.path, '');
  const sampled = sample && summaryAt(outputFiles(sample).summary);
  const made = ({ name, option, file, prompt, set }: Change): Variant => {
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
    const { input, output, reuse } = settings;
    const own = {
      // The variants would all have the same known answers.
      input: { ...input, done: [] },
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
  const variant = (change: Change): Variant => {
    try {
      return made(change);
    } catch (error) {
      throw naming(change.option, error);
    }
  };
  return [made({ name: 'job', option: '', file: 'job' }), ...changes.map(variant)];
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 6);

/** An error of one variant, with its option. */
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
export async function checkVariants([first, ...others]: Variants, halt: Halt): Promise<Variants> {
  const checked = async (variant: Variant): Promise<Variant> => {
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
        `${option} reads other rows than the job, but all variants must answer the same rows`,
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
  const all: Variants = [await checked(first)];
  for (const variant of others) all.push(await checked(variant));
  return all;
}

const inputOf = ({ input: { require: _, ...input } }: Settings): string => JSON.stringify(input);

interface VariantState extends Variant {
  /** Every row is written. */
  isDone: boolean;
  /** How its run begins. */
  readonly flags: Pick<Settings, 'restart' | 'overwrite'>;
  /** The run whose answers are on disk; null for none. */
  run: string | null;
  spent: Spent;
}

interface Spent {
  readonly paid: Paid;
  /** As the budget counts, for all of its calls. */
  readonly billed: { readonly tokens: number; readonly cost: number };
}

const NOTHING: Spent = { paid: { calls: 0, tokens: 0, cost: 0 }, billed: { tokens: 0, cost: 0 } };

/**
 * Runs one variant after the other under one budget, and calls only rows that none of them has answered.
 * @returns what was paid, or an exit code when it stopped early
 */
export async function answerAll(variants: Variants, halt: Halt): Promise<Paid | number> {
  const { limits: common, input, currency } = variants[0].opened.settings;
  const { budget } = common;
  // All of them read the same input.
  const sha256 = await sha256Of(input.path);
  const states = variants.map((variant) => stateOf(variant, sha256));
  let { paid } = NOTHING;
  for (const state of states) {
    const { name, opened } = state;
    const { settings } = opened;
    const say = (text: string): boolean => process.stderr.write(terminalText(`${name}: ${text}\n`));
    if (state.isDone) {
      say(`${settings.output.path} is finished already`);
      continue;
    }
    const left =
      budget &&
      budgetLeft(
        budget,
        states.filter((each) => each !== state),
        currency,
      );
    if (left !== null && left.used !== '') say(`limits.budget is for all variants together: ${left.used}`);
    const limits = { ...settings.limits, budget: left?.budget ?? null };
    say(`calling ${settings.endpoint.deployment} for ${settings.output.path}`);
    // A run that goes on has its own answers.
    const others = states.filter((each) => each !== state || state.flags.overwrite);
    const runs = others.flatMap(({ run }) => (run === null ? [] : [outcomesOf(settings, run)]));
    const reuse = { ...settings.reuse, known: [...settings.reuse.known, ...runs] };
    const context = { halt, log: createLog(settings.logLevel), env: process.env };
    const run = { ...opened, settings: { ...settings, ...state.flags, limits, reuse } };
    const { summary, halted } = await runOpened(run, context, runJob).catch((error) => {
      throw withOwnHint(error, settings.output.path);
    });
    const { tally, state: tokens } = summary.details;
    const now = spentBy(tally, summary.calls, tokens, settings);
    paid = withPaid(paid, now.paid, state.spent.paid);
    Object.assign(state, { isDone: true, run: summary.run, spent: now });
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

function stateOf(variant: Variant, sha256: string): VariantState {
  const { settings } = variant.opened;
  const { path } = settings.output;
  const { manifest, summary } = outputFiles(path);
  const left = readManifest(manifest);
  const finished = existsSync(path) ? summaryAt(summary) : null;
  const print = fingerprint(settings, sha256);
  const then = left?.fingerprint ?? finished?.details.state.fingerprint ?? {};
  const isSame = changedParts(then, print).length === 0;
  const state = {
    ...variant,
    isDone: false,
    // A sample is replaced without being asked, and keeps what it knows until then.
    flags: { restart: left !== null && !isSame, overwrite: !isSame && finished?.sample === undefined },
    run: left?.run ?? finished?.run ?? null,
    spent: NOTHING,
  };
  if (!isSame) return state;
  if (left !== null) return { ...state, spent: spentBy(left.tally, left.calls, left.calls, settings) };
  if (finished === null) return state;
  const { tally, state: tokens } = finished.details;
  return { ...state, isDone: true, spent: spentBy(tally, finished.calls, tokens, settings) };
}

function spentBy(
  tally: Parameters<typeof paidFor>[0],
  { sent }: { readonly sent: number },
  billed: Tokens,
  { prices, endpoints, budgetPrices }: Settings,
): Spent {
  const byEndpoint = endpoints.map(({ spec: { name }, prices }) => ({ name, prices }));
  const cost = paidFor(tally, { prices, ...(endpoints.length > 1 && { byEndpoint }) });
  return {
    paid: { calls: sent, tokens: tally.usage.total_tokens, cost },
    billed: {
      tokens: billed.prompt_tokens + billed.completion_tokens,
      cost: budgetPrices.prices === null ? 0 : costOf(billed, budgetPrices.prices),
    },
  };
}

/** What the others leave of the job's budget, and what they used, in words; empty for nothing. */
function budgetLeft(
  budget: NonNullable<Settings['limits']['budget']>,
  others: readonly VariantState[],
  currency: string | undefined,
) {
  const tokens = others.reduce((sum, { spent }) => sum + spent.billed.tokens, 0);
  const money = others.reduce((sum, { spent }) => sum + spent.billed.cost, 0);
  const used = [
    ...(budget.tokens === null ? [] : [`${count(tokens)} of ${count(budget.tokens)} tokens`]),
    ...(budget.cost === null ? [] : [`cost ${cost(money, currency)} of ${cost(budget.cost, currency)}`]),
  ];
  return {
    budget: {
      tokens: budget.tokens && Math.max(0, budget.tokens - tokens),
      cost: budget.cost && Math.max(0, budget.cost - money),
    },
    used: tokens === 0 ? '' : `${used.join(' and ')} spent by the others`,
  };
}

/** The sum with what a run paid now, as it had paid something before. */
const withPaid = (sum: Paid, now: Paid, before: Paid): Paid => ({
  calls: sum.calls + now.calls - before.calls,
  tokens: sum.tokens + now.tokens - before.tokens,
  cost:
    sum.cost === null || now.cost === null || before.cost === null ? null : sum.cost + now.cost - before.cost,
});
