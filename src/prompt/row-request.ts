import { UsageError } from '../errors.js';
import type { Fault, Json, Outcome, Parameters, Row } from '../model.js';
import { unknownNames } from '../nearest.js';
import { checkParameters, parameterFromText } from '../service/parameters.js';
import { compileTemplate, type Template, type TemplateInput } from './template.js';

/** What becomes of a row: a request, or the outcome that it has without one. */
export type RowRequest =
  | { readonly kind: 'send'; readonly prompt: string; readonly parameters: Parameters | null }
  | { readonly kind: 'settled'; readonly outcome: Outcome };

/**
 * Why a prompt has no room in the model's context window beside its answer; null where it has.
 * @param maxTokens `max_tokens` of its request
 */
type FitsContext = (prompt: string, maxTokens: Parameters['max_tokens']) => Fault | null;

/** How a job makes requests of its rows. */
export interface RequestPlan {
  /** `null`: the row's `prompt` field is the prompt. */
  readonly template: Template | null;
  readonly require: readonly string[];
  readonly rowParameters: readonly (keyof Parameters)[];
  /** The job's own, which a row's override. */
  readonly parameters: Parameters;
  /** Those that no row may override; `null` is none. */
  readonly fixedParameters: FixedParameters | null;
  readonly fits: FitsContext;
}

/** Parameters that are the same for all rows of a job, and the words that say what of the job fixes them. */
export interface FixedParameters {
  readonly names: readonly string[];
  readonly where: string;
}

/** What a job says of the requests of its rows. */
interface RequestJob
  extends Pick<RequestPlan, 'require' | 'rowParameters' | 'parameters' | 'fixedParameters'> {
  readonly prompt: string | null;
}

/**
 * Checks what a job says of its input's columns, before anything is sent.
 *
 * @throws UsageError for a template that cannot be used, for names in `input.require` and `row_parameters` that are
 *   no columns, and for a job without `prompt` whose input has no prompts
 */
export function requestPlan(
  { prompt, require, rowParameters, parameters, fixedParameters }: RequestJob,
  input: TemplateInput,
  fits: FitsContext = () => null,
): RequestPlan {
  checkColumns('input.require', require, input);
  checkColumns('row_parameters', rowParameters, input);
  const plan = { require, rowParameters, parameters, fixedParameters, fits };
  if (prompt !== null) return { ...plan, template: compileTemplate(prompt, input) };
  if (!input.columns.includes('prompt') && !(input.format.hasJson && input.columns.includes('body'))) {
    throw new UsageError(
      'prompt_missing',
      `the job has no prompt, and ${input.name} has no column "prompt"`,
      'Add a prompt to the job file, with the columns it uses in {{ }}.',
    );
  }
  return { ...plan, template: null };
}

/** @throws UsageError for names in an option that are no columns of the input */
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
 * The request of a row. In this order: a row that is bad ends `failed`, one without a required field `skipped`, one
 * without a prompt, with parameters that the service would refuse or too long for the model `failed`. None of these is sent.
 *
 * A JSONL row of the form `{"custom_id": …, "body": {"prompt": …, "max_tokens": …}}` brings its own request, unless
 * the template reads `body` as a column: the body's members override the job's parameters and `row_parameters`, its
 * `prompt` the job's prompt. `body.model` is not followed: the deployment is the job's.
 */
export function rowRequest(row: Row, plan: RequestPlan): RowRequest {
  if (row.fault !== undefined) return failed(row.fault);
  if (emptyFields(row, plan.require).length > 0) {
    return { kind: 'settled', outcome: { status: 'skipped' } };
  }
  const body = bodyOf(row, plan.template);
  const prompt = body?.['prompt'] ?? plan.template?.render(row) ?? row.fields.get('prompt');
  if (isEmpty(prompt)) return failed({ code: 'empty_prompt', message: 'the prompt is empty' });
  if (typeof prompt !== 'string') {
    return failed({ code: 'invalid_parameters', message: `prompt must be a text, got ${shown(prompt)}` });
  }

  const checked = plan.rowParameters.map((name) => parameterOf(name, row.fields.get(name)));
  if (body !== null) {
    const { prompt: _, model: __, ...overrides } = body;
    checked.push(checkParameters(overrides));
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
  const own = Object.keys(parameters).length > 0 ? parameters : null;
  // A null of the row's own takes the job's value away: the service's default is then what counts.
  const { max_tokens } = own === null ? plan.parameters : { ...plan.parameters, ...own };
  const tooLong = plan.fits(prompt, max_tokens);
  return tooLong === null ? { kind: 'send', prompt, parameters: own } : failed(tooLong);
}

/** The required fields that a row does not have: a row with any of them ends `skipped`. */
export function emptyFields(row: Row, require: readonly string[]): readonly string[] {
  return require.filter((name) => isEmpty(row.fields.get(name)));
}

function failed(error: Fault): RowRequest {
  return { kind: 'settled', outcome: { status: 'failed', error, attempts: 0, latency_ms: null } };
}

function bodyOf(row: Row, template: Template | null): { readonly [name: string]: Json } | null {
  const body = row.fields.get('body');
  if (typeof body !== 'object' || body === null || isArray(body)) return null;
  return template?.names.includes('body') ? null : body;
}

/** A column that overrides a parameter; an empty field leaves the job's. */
function parameterOf(name: keyof Parameters, value: Json | undefined): ReturnType<typeof checkParameters> {
  if (value === undefined || value === null) return { ok: true, parameters: {} };
  return typeof value === 'string' ? parameterFromText(name, value) : checkParameters({ [name]: value });
}

/** `Array.isArray` does not narrow a readonly array. */
const isArray = (value: Json): value is readonly Json[] => Array.isArray(value);

const isEmpty = (value: Json | undefined): boolean =>
  value === undefined || value === null || (typeof value === 'string' && value.trim() === '');

const shown = (value: Json | undefined): string => (JSON.stringify(value) ?? '').slice(0, 60);
