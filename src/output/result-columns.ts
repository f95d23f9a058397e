import { cleaned } from '../answer/text.js';
import type {
  Answer,
  AnswerSource,
  Completed,
  Completion,
  FilterResults,
  Filters,
  FilterVerdict,
  Json,
  Outcome,
  Problem,
  Row,
} from '../core/model.js';

export type OriginColumn = 'copied_from' | 'carried_from';

/** In record order. Each column of the record belongs to one part. */
export const PARTS = [
  'row',
  'input',
  'status',
  'answer',
  'text',
  'finish_reason',
  'usage',
  'filters',
  'model',
  'completion_id',
  'created',
  'attempts',
  'latency_ms',
  'refusal',
  'endpoint',
  'tier',
  'error',
  'copied_from',
  'carried_from',
  'answer_source',
  'confidence',
  'answer_probabilities',
  'abstained',
  'logprobs',
] as const;

export type Part = (typeof PARTS)[number];

/** Names in `output.columns` for the columns of several parts; a job without these parts gets none. */
export const GROUPS: ReadonlyMap<string, readonly Part[]> = new Map<string, readonly Part[]>([
  ['evidence', ['answer_source', 'confidence', 'answer_probabilities', 'abstained']],
  ['tokens', ['usage']],
  ['call', ['model', 'completion_id', 'created', 'attempts', 'latency_ms', 'endpoint', 'tier']],
]);

export interface RecordFacts {
  readonly row: Row;
  readonly outcome: Outcome;
  readonly answer: Answer | null;
  readonly completion: Completion | null;
  readonly filters: Filters;
}

/** `value` is `null` where the service did not say: empty in CSV, never false. */
export interface Column {
  readonly name: string;
  readonly part: Part;
  /** Name of the input column behind it. */
  readonly field?: string;
  readonly value: (facts: RecordFacts) => Json;
}

export function recordFacts(row: Row, outcome: Outcome, answer: Answer | null): RecordFacts {
  return {
    row,
    outcome,
    answer,
    completion: 'completion' in outcome ? outcome.completion : null,
    filters: 'filters' in outcome ? outcome.filters : { prompt: null, completion: null },
  };
}

/** Facts for a completed row when only its answer is known. */
export function answerFacts(answer: Answer): RecordFacts {
  const completion = { text: null, finish_reason: null, usage: null, model: null, id: null, created: null };
  const filters = { prompt: null, completion: null };
  const outcome: Outcome = { status: 'completed', completion, filters, attempts: 0, latency_ms: null };
  const row = { number: 0, line: 0, fields: new Map(), bytes: 0 };
  return { row, outcome, answer, completion, filters };
}

/** Only by selection: existing scripts expect records without a number. */
export const ROW: Column = { name: 'row', part: 'row', value: ({ row }) => row.number };

export const STATUS: Column = { name: 'status', part: 'status', value: ({ outcome }) => outcome.status };

/** The result columns after the answer, in their fixed order. Defined nowhere else. */
export const RESULTS: readonly Column[] = [
  { name: 'text', part: 'text', value: ({ completion }) => cleaned(completion?.text ?? null) },
  {
    name: 'finish_reason',
    part: 'finish_reason',
    value: ({ completion }) => completion?.finish_reason ?? null,
  },
  ...(['prompt_tokens', 'completion_tokens', 'total_tokens'] as const).map(
    (name): Column => ({ name, part: 'usage', value: ({ completion }) => completion?.usage?.[name] ?? null }),
  ),
  { name: 'prompt_filtered', part: 'filters', value: promptFiltered },
  { name: 'completion_filtered', part: 'filters', value: completionFiltered },
  ...(['prompt', 'completion'] as const).flatMap((side) =>
    // The four categories that the service documents. Others are in JSONL only: CSV has fixed columns.
    ['hate', 'self_harm', 'sexual', 'violence'].flatMap((category): Column[] => [
      {
        name: `${side}_${category}_filtered`,
        part: 'filters',
        value: ({ filters }) => verdict(filters[side], category)?.filtered ?? null,
      },
      {
        name: `${side}_${category}_severity`,
        part: 'filters',
        value: ({ filters }) => verdict(filters[side], category)?.severity ?? null,
      },
    ]),
  ),
  { name: 'model', part: 'model', value: ({ completion }) => completion?.model ?? null },
  { name: 'completion_id', part: 'completion_id', value: ({ completion }) => completion?.id ?? null },
  { name: 'created', part: 'created', value: createdAt },
  {
    name: 'attempts',
    part: 'attempts',
    value: ({ outcome }) => ('attempts' in outcome ? outcome.attempts : null),
  },
  {
    name: 'latency_ms',
    part: 'latency_ms',
    value: ({ outcome }) => ('latency_ms' in outcome ? outcome.latency_ms : null),
  },
  { name: 'error_code', part: 'error', value: (facts) => recordError(facts)?.code ?? null },
  { name: 'error_message', part: 'error', value: (facts) => recordError(facts)?.message ?? null },
];

/** What only the answers of some operations tell. */
export const TOLD: readonly Column[] = [
  { name: 'refusal', part: 'refusal', value: ({ completion }) => completion?.refusal ?? null },
  ...(['cached_tokens', 'reasoning_tokens'] as const).map(
    (name): Column => ({ name, part: 'usage', value: ({ completion }) => completion?.usage?.[name] ?? null }),
  ),
];

/** If the job has several endpoints. */
const ENDPOINT: Column = {
  name: 'endpoint',
  part: 'endpoint',
  value: ({ outcome }) => ('endpoint' in outcome ? (outcome.endpoint ?? null) : null),
};

/** If rows may have another tier than online. */
const TIER: Column = {
  name: 'tier',
  part: 'tier',
  value: ({ completion, outcome }) =>
    completion?.tier ?? ('elsewhere' in outcome ? (outcome.elsewhere ?? null) : null),
};

/** {@link TOLD}, {@link ENDPOINT} and {@link TIER} come before the error. */
export const resultsOf = (job: {
  readonly tellsMore?: boolean | undefined;
  readonly hasEndpoints?: boolean | undefined;
  readonly hasTiers?: boolean | undefined;
}): readonly Column[] =>
  RESULTS.toSpliced(
    ERROR,
    0,
    ...(job.tellsMore ? TOLD : []),
    ...(job.hasEndpoints ? [ENDPOINT] : []),
    ...(job.hasTiers ? [TIER] : []),
  );

const ERROR = RESULTS.findIndex(({ part }) => part === 'error');

/** Last, if the job asks for log probabilities. In CSV only by selection: JSON per token is unreadable. */
export const LOGPROBS: Column = {
  name: 'logprobs',
  part: 'logprobs',
  value: ({ completion }) => completion?.logprobs ?? null,
};

/** Last, if the job reuses outcomes: from which row, or from which run. */
export const ORIGINS: { readonly [name in OriginColumn]: Column } = {
  copied_from: {
    name: 'copied_from',
    part: 'copied_from',
    value: ({ outcome }) => originOf(outcome, 'copied_from'),
  },
  carried_from: {
    name: 'carried_from',
    part: 'carried_from',
    value: ({ outcome }) => originOf(outcome, 'carried_from'),
  },
};

/** Of an answer that does not fit: the source of its text. */
export function sourceOf({ answer_source }: Completed, answer: Answer | null): AnswerSource {
  return answer_source ?? (answer?.repaired ? 'repaired' : 'read');
}

/** Last, if the job has a rule for answers that do not fit, or lets several vote. */
export const ANSWER_SOURCE: Column = {
  name: 'answer_source',
  part: 'answer_source',
  value: ({ outcome, answer }) => (outcome.status === 'completed' ? sourceOf(outcome, answer) : null),
};

/** Last, if the job asks for confidence. */
export const CONFIDENCE: Column = {
  name: 'confidence',
  part: 'confidence',
  value: ({ answer }) => answer?.confidence?.value ?? null,
};

/** One per label, if the job asks for all probabilities. A label that the service did not send has 0. */
export const probabilityColumns = (labels: readonly string[]): readonly Column[] =>
  labels.map((label) => ({
    name: `p_${label}`,
    part: 'answer_probabilities',
    value: ({ answer }) => (answer?.confidence ? (answer.confidence.probabilities.get(label) ?? 0) : null),
  }));

/** Last, if the job abstains below a confidence. */
export const ABSTAINED: Column = {
  name: 'abstained',
  part: 'abstained',
  value: ({ outcome, answer }) => (outcome.status === 'completed' ? (answer?.abstained ?? null) : null),
};

/** What a person needs to decide on the right answer. */
export const REVIEWED: ReadonlySet<Part> = new Set([
  'input',
  'answer',
  'text',
  'error',
  'confidence',
  'answer_probabilities',
  'abstained',
]);

const SINGLE = [
  ROW,
  STATUS,
  ...RESULTS,
  ...TOLD,
  ENDPOINT,
  TIER,
  ...Object.values(ORIGINS),
  ANSWER_SOURCE,
  CONFIDENCE,
  ABSTAINED,
  LOGPROBS,
];

/** The column of a part that has only one, with the same value in every format. */
export function columnOf(part: Part): Column {
  const column = SINGLE.find((each) => each.part === part);
  if (column === undefined) throw new Error(`the part ${part} has no column of its own`);
  return column;
}

function originOf(outcome: Outcome, name: OriginColumn): number | string | null {
  const origin = 'origin' in outcome ? outcome.origin : undefined;
  if (origin === undefined) return null;
  if ('copied_from' in origin) return name === 'copied_from' ? origin.copied_from : null;
  return name === 'carried_from' ? origin.carried_from : null;
}

/** The error of the row, or of a `completed` row what is wrong with its answer. */
export function recordError({ outcome, answer }: RecordFacts): Problem | null {
  if ('error' in outcome) return outcome.error;
  return outcome.status === 'completed' ? completedProblem(outcome.completion, answer) : null;
}

/** The service's Unix seconds as ISO 8601; `null` if they are no date. */
function createdAt({ completion }: RecordFacts): string | null {
  const date = new Date((completion?.created ?? Number.NaN) * 1000);
  return Number.isNaN(date.getTime()) ? null : date.toISOString().replace('.000Z', 'Z');
}

/** A blocked prompt has no completion, and may come without categories. */
function promptFiltered({ outcome, completion, filters }: RecordFacts): boolean | null {
  if (outcome.status === 'filtered' && completion === null) return true;
  return anyFiltered(filters.prompt);
}

function completionFiltered({ completion, filters }: RecordFacts): boolean | null {
  if (completion?.finish_reason === 'content_filter') return true;
  return anyFiltered(filters.completion);
}

function anyFiltered(results: FilterResults | null): boolean | null {
  let any: boolean | null = null;
  for (const { filtered } of Object.values(results ?? {})) {
    if (filtered === true) return true;
    any ??= filtered ?? null;
  }
  return any;
}

/** Own properties only: the keys come from the service (fault 9). */
function verdict(results: FilterResults | null, category: string): FilterVerdict | undefined {
  return results !== null && Object.hasOwn(results, category) ? results[category] : undefined;
}

export function completedProblem(completion: Completion, answer: Answer | null): Problem | null {
  if (answer?.problem) return answer.problem;
  return completion.damaged === undefined ? null : DAMAGES[completion.damaged];
}

export const damageOf = (code: string | undefined): Completion['damaged'] =>
  (['bytes', 'cut', 'logprobs', 'prompt'] as const).find((damage) => DAMAGES[damage].code === code);

const DAMAGES: { readonly [damage in NonNullable<Completion['damaged']>]: Problem } = {
  bytes: {
    code: 'invalid_utf8',
    message: 'the text has bytes that are no UTF-8: each of them is shown as U+FFFD',
  },
  cut: {
    code: 'text_cut',
    message: 'the text has more than the 1,048,576 characters that are kept, and was cut behind them',
  },
  logprobs: {
    code: 'logprobs_left_out',
    message:
      'the log probabilities have more than the 262,144 characters of JSON that are kept, and were left out',
  },
  prompt: {
    code: 'prompt_cut',
    message: 'the server has read far fewer tokens than the prompt has: it was cut there',
  },
};
