import type { Settings } from '../../config/settings.js';
import { isObject } from '../../core/json.js';
import type { Parameters } from '../../core/model.js';
import { isRepeatable } from '../../prompt/reuse-keys.js';
import type { Encoding } from '../../prompt/tokens.js';
import { deploymentsOf } from '../../service/endpoint-spec.js';
import type { GoldCounts } from './gold-count.js';
import type { Inspected, RenderedPrompt } from './inspection.js';
import { assumed, costRange, EXACT, type Quote, quote, type Range, totalTokens } from './quote.js';

/** `promptmill check --json`. Ranges go from no answer to every answer at its maximum. */
export interface CheckReport {
  readonly job: string;
  readonly deployment: string;
  /** Only of a job with several, by name. `cost` and `time` are those of all together. */
  readonly endpoints?: ReturnType<typeof quotedEndpoints>;
  readonly api_version: string;
  readonly input: { readonly path: string; readonly sha256: string; readonly rows: number };
  /** Only with `--sample`: how the rows were chosen, and of how many. */
  readonly sample?: NonNullable<Settings['input']['sample']> & { readonly of: number };
  readonly rows: Inspected['rows'];
  /** Only of a job with `input.done`: what its files have. */
  readonly done?: readonly string[];
  readonly skipped: Inspected['skipped'];
  readonly problems: Inspected['problems'];
  readonly warnings: Inspected['warnings'];
  /** Only of a job with `answer.gold`. */
  readonly gold?: GoldCounts;
  /** What is valid but probably not meant, one sentence each. */
  readonly mistakes: readonly string[];
  readonly tokens: {
    readonly tokenizer: Encoding;
    /** The model is unknown, so the tokenizer may be wrong: `total_tokens` and costs have a wider range. */
    readonly tokenizer_assumed: boolean;
    /** True tokens of the prompts relative to this count, as factors. */
    readonly spread: Range;
    /** `null` for an unknown model: no prompt was compared with it. */
    readonly context_window: number | null;
    readonly prompt_tokens: number;
    readonly completion_tokens: Range;
    readonly total_tokens: Range;
    readonly longest_prompt: Inspected['longest_prompt'];
  };
  /** Tokens at the beginning of the prompts that are the same in every row, over all rows. */
  readonly cacheable_prompt_tokens: number;
  /** Their share of the prompts, from 0 to 1. */
  readonly cacheable_prompt_share: number;
  /** What the two would be if the columns came last. `null`: the rows bring their own prompts. */
  readonly cacheable_at_best: { readonly columns: readonly string[]; readonly prompt_tokens: number } | null;
  /** Whether the schema of the answer is sent, and the service's strict mode takes it. `null`: not sent. */
  readonly answer_schema: 'strict' | 'not_strict' | null;
  /** Sent unchecked. `null`: none. */
  readonly extra_body: Parameters['extra_body'] | null;
  readonly requests: number;
  /** Choices per row, all billed; only of a job with `answer.votes`. */
  readonly votes?: number;
  /** Calls for answers that do not fit, in no other figure; only if `answer.on_invalid` makes any. */
  readonly further_calls?: {
    readonly most: number;
    /** Per row. */
    readonly ask_again: number;
    /** Asked once, last; `null`: none. */
    readonly deployment: string | null;
  };
  readonly duplicates: {
    readonly rows: number;
    readonly at_least: boolean;
    /** `input.dedupe` is off and would help: the job's temperature is 0. */
    readonly dedupe_would_copy: boolean;
    readonly prompt_tokens: number;
    readonly total_tokens: Range;
    readonly cost: Range | null;
    readonly examples: Inspected['duplicates']['examples'];
  };
  /** Of the output: cells of CSV, parts of JSONL. */
  readonly columns: readonly string[];
  /** Of 1,000 tokens; `null` without prices, and where the endpoints have their own. */
  readonly prices: Settings['prices'];
  /** `null` without prices. */
  readonly cost: Range | null;
  /** ISO 4217, of all amounts of money; absent where the prices do not say. */
  readonly currency?: string;
  /** Of all rows, those without a call included; `null` without prices or rows. */
  readonly cost_per_1000_rows: Range | null;
  /** Only of a job that asks for another tier than online: the cost if a tier took all rows. */
  readonly tiers?: NonNullable<Quote['tiers']>;
  /** All online. */
  readonly time: Quote['time'];
  /**
   * Only of a job with the batch tier: input files at least, and seconds after which what has no answer there is called, which
   * takes `time` at most.
   */
  readonly batches?: { readonly files: number; readonly most_seconds: number };
  readonly deadline: Quote['deadline'];
  readonly budget: Quote['budget'];
  /** `null` if there is nothing to send. */
  readonly first_prompt: (RenderedPrompt & { readonly clipped: boolean }) | null;
}

type CheckedJob = Pick<
  Settings,
  | 'job'
  | 'endpoint'
  | 'endpoints'
  | 'flex'
  | 'batch'
  | 'input'
  | 'prices'
  | 'currency'
  | 'parameters'
  | 'answer'
  | 'onInvalid'
  | 'reuse'
  | 'limits'
>;

export interface Counting {
  readonly encoding: Encoding;
  readonly assumed: boolean;
  readonly contextWindow: number | null;
}

/** In which a service works through a batch. */
const WINDOW_MS = 24 * 3_600_000;

/** Characters: many pages. */
const LONGEST_SHOWN = 20_000;

const quotedEndpoints = (endpoints: CheckedJob['endpoints']) =>
  Object.fromEntries(
    endpoints.map(({ spec, quota, prices }) => [
      spec.name,
      {
        deployment: spec.deployment,
        requests_per_minute: quota.requestsPerMinute,
        tokens_per_minute: quota.tokensPerMinute,
        prices,
      },
    ]),
  );

export function checkReport(
  settings: CheckedJob,
  surveyed: {
    readonly sha256: string;
    readonly rows: number;
    readonly sample: CheckReport['sample'] | null;
    readonly columns: readonly string[];
    readonly mistakes: readonly string[];
    readonly done: readonly string[] | null;
    /** Columns of the prompt, and the tokens of its own text; null without a template. */
    readonly template: { readonly names: readonly string[]; readonly tokens: number } | null;
  },
  counting: Counting,
  inspected: Inspected,
): CheckReport {
  const { job, endpoint, endpoints, input, prices, currency, parameters, answer, onInvalid, reuse, limits } =
    settings;
  const { tokens, duplicates, first_prompt: first } = inspected;
  const spread = counting.assumed ? assumed(inspected.other_scripts) : EXACT;
  const { cacheable } = inspected;
  const quoted = quote(
    { ...tokens, cacheable_prompt_tokens: cacheable },
    inspected.requests,
    limits,
    prices,
    spread,
    endpoints.map((each) => each.prices),
    [...(settings.batch ? (['batch'] as const) : []), ...(settings.flex ? (['flex'] as const) : [])],
  );
  const { askAgain = 0, deployment = null } = onInvalid ?? {};
  const callsOfRow = askAgain + (deployment === null ? 0 : 1);
  const further = { most: inspected.rows.to_send * callsOfRow, ask_again: askAgain, deployment };
  return {
    job,
    deployment: deploymentsOf(endpoints.map(({ spec }) => spec)),
    ...(endpoints.length > 1 && { endpoints: quotedEndpoints(endpoints) }),
    api_version: endpoint.apiVersion,
    input: { path: input.path, sha256: surveyed.sha256, rows: surveyed.rows },
    ...(surveyed.sample && { sample: surveyed.sample }),
    rows: inspected.rows,
    ...(surveyed.done && { done: surveyed.done }),
    skipped: inspected.skipped,
    problems: inspected.problems,
    warnings: inspected.warnings,
    ...(inspected.gold && { gold: inspected.gold }),
    mistakes: surveyed.mistakes,
    tokens: {
      tokenizer: counting.encoding,
      tokenizer_assumed: counting.assumed,
      spread,
      context_window: counting.contextWindow,
      prompt_tokens: tokens.prompt_tokens,
      completion_tokens: quoted.completion_tokens,
      total_tokens: quoted.total_tokens,
      longest_prompt: inspected.longest_prompt,
    },
    cacheable_prompt_tokens: cacheable,
    cacheable_prompt_share: tokens.prompt_tokens === 0 ? 0 : cacheable / tokens.prompt_tokens,
    cacheable_at_best: surveyed.template && {
      columns: [...new Set(surveyed.template.names)],
      prompt_tokens: Math.max(
        cacheable,
        Math.min(tokens.prompt_tokens, surveyed.template.tokens * inspected.rows.to_send),
      ),
    },
    answer_schema: schemaSent(parameters),
    extra_body: parameters.extra_body ?? null,
    requests: inspected.requests,
    ...('votes' in answer && { votes: answer.votes }),
    ...(further.most > 0 && { further_calls: further }),
    duplicates: {
      rows: duplicates.rows,
      at_least: duplicates.at_least,
      dedupe_would_copy: duplicates.rows > 0 && !reuse.dedupe && isRepeatable(parameters),
      prompt_tokens: duplicates.prompt_tokens,
      total_tokens: totalTokens(duplicates, spread),
      cost: costRange(duplicates, prices, spread),
      examples: duplicates.examples,
    },
    columns: surveyed.columns,
    prices,
    cost: quoted.cost,
    ...(currency !== undefined && { currency }),
    cost_per_1000_rows: perThousand(quoted.cost, inspected.rows.total),
    ...(quoted.tiers && { tiers: quoted.tiers }),
    time: quoted.time,
    ...(settings.batch && {
      batches: {
        files: Math.ceil(inspected.requests / limits.batch.requests),
        most_seconds: Math.min(
          (settings.batch.forMs ?? WINDOW_MS) / 1000,
          limits.deadlineMs === null ? Number.POSITIVE_INFINITY : limits.deadlineMs / 1000,
        ),
      },
    }),
    deadline: quoted.deadline,
    budget: quoted.budget.map((each) =>
      // How many rows are asked again, and how long their prompts are then, is unknown.
      further.most > 0 && each.verdict === 'inside' ? { ...each, verdict: 'depends' } : each,
    ),
    first_prompt: first && {
      ...first,
      text: first.text.slice(0, LONGEST_SHOWN),
      clipped: first.text.length > LONGEST_SHOWN,
    },
  };
}

const perThousand = (cost: Range | null, rows: number): Range | null =>
  cost === null || rows === 0 ? null : { least: (cost.least / rows) * 1000, most: (cost.most / rows) * 1000 };

function schemaSent({ response_format: format }: Parameters): CheckReport['answer_schema'] {
  const sent = format?.['json_schema'];
  return isObject(sent) ? (sent['strict'] === true ? 'strict' : 'not_strict') : null;
}

/** That of the run at best: 3 if it must stop early (budget, deadline), 1 if rows would fail, else 0. */
export function checkExitCode({ rows, deadline, budget }: CheckReport): 0 | 1 | 3 {
  const stops = deadline?.verdict === 'does_not_hold' || budget.some(({ verdict }) => verdict === 'exceeded');
  if (stops) return 3;
  return rows.failing > 0 ? 1 : 0;
}
