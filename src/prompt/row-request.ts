import { UsageError } from '../core/errors.js';
import type { Json, Message, Outcome, Parameters, Problem, Prompt, Row } from '../core/model.js';
import { unknownNames } from '../core/nearest.js';
import { shown } from '../service/messages.js';
import { commonOperation, type Operation, type OperationName } from '../service/operation.js';
import { checkParameters, type ParametersSchema, parameterFromText } from '../service/parameters.js';
import { shownText } from './prompt-text.js';
import { compileTemplate, type Template, type TemplateInput } from './template.js';

export type RowRequest =
  | { readonly kind: 'send'; readonly prompt: Prompt; readonly parameters: Parameters | null }
  | { readonly kind: 'settled'; readonly outcome: Outcome };

/** Null when the prompt fits the context window along with its answer. */
type FitsContext = (prompt: Prompt, maxTokens: Parameters['max_tokens']) => Problem | null;

export interface RequestPlan {
  readonly operation: Operation;
  /** Null: the row's `prompt` field is the prompt. */
  readonly template: PromptTemplate | null;
  readonly require: readonly string[];
  readonly rowParameters: readonly (keyof Parameters)[];
  /** The job's own; a row's parameters override them. */
  readonly parameters: Parameters;
  /** Those a row may not override; null for none. */
  readonly fixedParameters: FixedParameters | null;
  readonly fits: FitsContext;
}

interface PromptTemplate extends Pick<Template, 'names'> {
  render(row: Row): unknown;
}

/** Parameters that are the same for all rows, and the words for what fixes them. */
export interface FixedParameters {
  readonly names: readonly string[];
  readonly where: string;
}

/** The templates of a job; null where it has none. */
interface Asked {
  readonly prompt: string | null;
  readonly system: string | null;
  readonly messages: readonly Message[] | null;
}

interface RequestJob
  extends Asked,
    Pick<RequestPlan, 'require' | 'rowParameters' | 'parameters' | 'fixedParameters'> {
  readonly operations: readonly OperationName[];
}

/**
 * @throws UsageError for an invalid template, for `input.require` and `row_parameters` that are no columns,
 *   and for a job without `prompt` whose input has no prompts
 */
export function requestPlan(
  job: RequestJob,
  input: TemplateInput,
  fits: FitsContext = () => null,
): RequestPlan {
  const { operations, require, rowParameters, parameters, fixedParameters } = job;
  const operation = commonOperation(operations);
  checkColumns('input.require', require, input);
  checkColumns('row_parameters', rowParameters, input);
  const plan = { operation, require, rowParameters, parameters, fixedParameters, fits };
  const template = templateOf(job, input);
  const asks = job.prompt !== null || job.messages !== null || input.columns.includes('prompt');
  if (!asks && !(input.format.hasJson && input.columns.includes('body'))) {
    throw new UsageError(
      'prompt_missing',
      `the job has no prompt, and ${input.name} has no column "prompt"`,
      'Add a prompt to the job file, with the columns it uses in {{ }}.',
    );
  }
  return { ...plan, template };
}

function templateOf({ prompt, system, messages }: RequestJob, input: TemplateInput): PromptTemplate | null {
  const compiled = (template: string, text: string): Template =>
    compileTemplate(text, { ...input, called: { template, column: 'column' } });
  const user = prompt === null ? null : compiled('prompt', prompt);
  if (system === null && messages === null) return user;
  const parts = messages?.map(({ role, content }, i) => ({
    role,
    template: compiled(`messages, entry ${i + 1}`, content),
  })) ?? [
    { role: 'system', template: compiled('system', system ?? '') },
    { role: 'user', template: user ?? OWN_PROMPT },
  ];
  return {
    names: parts.flatMap(({ template: { names } }) => names),
    render: (row) => parts.map(({ role, template }) => ({ role, content: template.render(row) })),
  };
}

const OWN_PROMPT: PromptTemplate = {
  names: ['prompt'],
  render: ({ fields }) => fields.get('prompt') ?? '',
};

/** What the job asks, as one text; null where each row brings its own prompt. */
export function askedText({ prompt, system, messages }: Asked): string | null {
  if (messages !== null) return shownText(messages);
  if (prompt === null || system === null) return prompt;
  return shownText([
    { role: 'system', content: system },
    { role: 'user', content: prompt },
  ]);
}

export function checkColumns(
  option: string,
  names: readonly string[],
  input: Pick<TemplateInput, 'name' | 'columns'>,
): void {
  const unknown = names.filter((name) => !input.columns.includes(name));
  if (unknown.length === 0) return;
  throw unknownNames(
    { code: 'column_unknown', user: `${option} names`, owner: `${input.name} has` },
    unknown,
    input.columns,
  );
}

/**
 * Without a request, checked in this order: a bad row is `failed`; one without a required field `skipped`;
 * one without a prompt, with invalid parameters, or too long for the model `failed`.
 *
 * A JSONL row `{"custom_id": …, "body": {"prompt": …, "max_tokens": …}}` has its own request, unless the
 * template reads `body` as a column: the body overrides the job's parameters, `row_parameters` and prompt.
 * `body.model` is ignored: the deployment is the job's. A `url` of another operation makes the row `failed`.
 */
export function rowRequest(row: Row, plan: RequestPlan): RowRequest {
  if (row.problem !== undefined) return failed(row.problem);
  if (emptyFields(row, plan.require).length > 0) {
    return { kind: 'settled', outcome: { status: 'skipped' } };
  }
  const body = bodyOf(row, plan.template);
  const { asked, parameters: schema, promptOf } = plan.operation;
  const elsewhere = body === null ? null : otherUrl(row, plan.operation);
  if (elsewhere !== null) return failed(elsewhere);
  const own = promptOf(body?.[asked] ?? plan.template?.render(row) ?? row.fields.get('prompt') ?? '');
  if ('problem' in own) return failed({ code: 'invalid_parameters', message: own.problem });
  const { prompt } = own;
  if (isBlank(prompt)) return failed(EMPTY);

  const checked = plan.rowParameters.map((name) => parameterOf(name, row.fields.get(name), schema));
  if (body !== null) {
    const { [asked]: _, model: __, ...overrides } = body;
    checked.push(checkParameters(overrides, schema));
  }
  const problems = checked.flatMap((result) => (result.ok ? [] : result.problems));
  if (problems.length > 0) {
    return failed({ code: 'invalid_parameters', message: problems.map(({ message }) => message).join('; ') });
  }
  const parameters: Parameters = Object.assign(
    {},
    ...checked.map((result) => (result.ok ? result.parameters : {})),
  );
  const { names = [], where = '' } = plan.fixedParameters ?? {};
  const fixed = names.find((name) => name in parameters);
  if (fixed !== undefined) {
    const message = `${fixed} cannot be the row's own ${where}`;
    return failed({ code: 'invalid_parameters', message });
  }
  const ofRow = Object.keys(parameters).length > 0 ? parameters : null;
  // A row's null removes the job's value, so the service's default applies.
  const { max_tokens } = ofRow === null ? plan.parameters : { ...plan.parameters, ...ofRow };
  const tooLong = plan.fits(prompt, max_tokens);
  return tooLong === null ? { kind: 'send', prompt, parameters: ofRow } : failed(tooLong);
}

/** Missing required fields: a row with any ends `skipped`. */
export function emptyFields(row: Row, require: readonly string[]): readonly string[] {
  return require.filter((name) => isEmpty(row.fields.get(name)));
}

function failed(error: Problem): RowRequest {
  return { kind: 'settled', outcome: { status: 'failed', error, attempts: 0, latency_ms: null } };
}

function bodyOf(row: Row, template: RequestPlan['template']): { readonly [name: string]: Json } | null {
  const body = row.fields.get('body');
  if (typeof body !== 'object' || body === null || isArray(body)) return null;
  return template?.names.includes('body') ? null : body;
}

/** In lines of the batch APIs `url` names the operation; a hosted service has it without `/v1`. */
function otherUrl({ fields }: Row, { name, path }: Operation): Problem | null {
  const url = fields.get('url');
  if (typeof url !== 'string' || !url.startsWith('/') || url.replace(/^\/(?:v1\/)?/, '') === path)
    return null;
  const message = `the url of the row is ${shown(url)}, and the job calls /v1/${path} (service.operation: ${name})`;
  return { code: 'url_mismatch', message };
}

/** An empty field keeps the job's value. */
function parameterOf(
  name: keyof Parameters,
  value: Json | undefined,
  schema: ParametersSchema,
): ReturnType<typeof checkParameters> {
  if (value === undefined || value === null) return { ok: true, parameters: {} };
  return typeof value === 'string'
    ? parameterFromText(name, value, schema)
    : checkParameters({ [name]: value }, schema);
}

/** `Array.isArray` does not narrow a readonly array. */
const isArray = (value: Json): value is readonly Json[] => Array.isArray(value);

const isEmpty = (value: Json | undefined): boolean =>
  value === undefined || value === null || (typeof value === 'string' && value.trim() === '');

const isSystem = ({ role }: Message): boolean => role === 'system' || role === 'developer';

const isBlank = (prompt: Prompt): boolean =>
  typeof prompt === 'string'
    ? isEmpty(prompt)
    : prompt.every((message) => isSystem(message) || isEmpty(message.content));

const EMPTY: Problem = { code: 'empty_prompt', message: 'the prompt is empty' };
