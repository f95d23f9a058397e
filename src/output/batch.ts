import { valueText } from '../core/json.js';
import type {
  Choice,
  Completion,
  FilterResults,
  Filters,
  Json,
  Outcome,
  Problem,
  Row,
  Usage,
} from '../core/model.js';
import { jsonMembers } from './json-members.js';
import { jsonl, RECORD } from './jsonl.js';
import type { AnswerForm, OutputFormat, RecordLayout } from './record.js';

/**
 * One line a row, as a batch of the service has them in its results. The record of JSONL is a member of it,
 * which other programs ignore: every command reads such an output as any other.
 */
export const batch: OutputFormat = {
  ...jsonl,
  name: 'batch',
  records(layout, formulas) {
    const records = jsonl.records(layout, formulas);
    const { formOf } = layout;
    if (formOf === undefined) throw new Error('nothing says how the service writes an answer');
    return {
      ...records,
      format(row, outcome, answer) {
        const line = {
          id: resultId(row.number),
          custom_id: customIdOf(row),
          response: responseOf(outcome, formOf),
          error: errorOf(outcome),
        };
        const record = records.format(row, outcome, answer).slice(0, -1);
        return `${JSON.stringify(line).slice(0, -1)},"${RECORD}":${record}}\n`;
      },
    };
  },
  isError(line) {
    const { start = 0 } = jsonMembers(line).placeOf('response') ?? {};
    return line.toString('utf8', start, start + ANSWERED.length) !== ANSWERED;
  },
};

const ID = 'batch_req_promptmill_';

export const resultId = (row: number | string): string => `${ID}${row}`;

const BEGINNING = `{"id":"${ID}`;

/** Knows lines of ours by how they begin. */
export const isResultLine = (line: Buffer): boolean =>
  line.subarray(0, BEGINNING.length).toString() === BEGINNING;

const ANSWERED = '{"status_code":200,';

/** By which programs find the row of a result: its `custom_id`, else its `id`, else its number. */
export const customIdOf = ({ fields, number }: Row): string =>
  idIn((name) => fields.get(name)) ?? String(number);

/** Null: the row is known by its number. @param value of a column */
export const idIn = (value: (column: string) => Json | undefined): string | null =>
  ['custom_id', 'id'].map((name) => valueText(value(name))).find((id) => id !== '') ?? null;

function responseOf(outcome: Outcome, formOf: NonNullable<RecordLayout['formOf']>) {
  if (outcome.status === 'filtered' && outcome.completion === null) {
    const body = blockedBody(outcome.error.message, outcome.filters.prompt);
    return { status_code: 400, request_id: null, body };
  }
  if (outcome.status === 'failed' || outcome.status === 'skipped' || outcome.completion === null) return null;
  const { completion, filters, endpoint } = outcome;
  const body = answerBody(completion, filters, formOf(endpoint));
  return { status_code: 200, request_id: completion.id, body };
}

function answerBody(completion: Completion, { prompt, completion: own }: Filters, form: AnswerForm) {
  const { id, created, model, usage, others = [] } = completion;
  const choices: readonly Told[] = [completion, ...others];
  return {
    ...{ id, object: form.object, created, model },
    ...(prompt && { prompt_filter_results: [{ prompt_index: 0, content_filter_results: prompt }] }),
    choices: choices.map(
      ({ text, refusal = null, finish_reason, logprobs = null, filters = own }, index) => ({
        ...{ index, ...form.choice(text, refusal), finish_reason, logprobs },
        ...(filters && { content_filter_results: filters }),
      }),
    ),
    ...(usage && { usage: usageBody(usage) }),
  };
}

/** The first choice, or a further one. */
type Told = Pick<Completion, 'text' | 'finish_reason' | 'refusal' | 'logprobs'> & Pick<Choice, 'filters'>;

const usageBody = ({ prompt_tokens, completion_tokens, total_tokens, ...more }: Usage) => ({
  ...{ prompt_tokens, completion_tokens, total_tokens },
  ...(more.cached_tokens !== undefined && { prompt_tokens_details: { cached_tokens: more.cached_tokens } }),
  ...(more.reasoning_tokens !== undefined && {
    completion_tokens_details: { reasoning_tokens: more.reasoning_tokens },
  }),
});

/** As the service refuses a prompt. */
const blockedBody = (message: string, results: FilterResults | null) => ({
  error: {
    ...{ message, type: null, param: 'prompt', code: 'content_filter', status: 400 },
    ...(results && {
      innererror: { code: 'ResponsibleAIPolicyViolation', content_filter_result: results },
    }),
  },
});

function errorOf(outcome: Outcome): Problem | null {
  if (outcome.status === 'skipped') return SKIPPED;
  return outcome.status === 'failed' ? outcome.error : null;
}

const SKIPPED: Problem = { code: 'skipped', message: 'a required field of the row is empty' };
