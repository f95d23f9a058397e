import * as z from 'zod';
import { either } from '../core/errors.js';
import type { Parameters } from '../core/model.js';

/**
 * Descriptions reach the editor through the job file's JSON Schema. Messages name range and value, not the
 * field.
 */

function shown(value: unknown): string {
  // JSON has no NaN and no Infinity.
  const json = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
  return json.length > 60 ? `${json.slice(0, 57)}...` : json;
}

const must = (what: string) => ({
  error: ({ input }: { input?: unknown }) => `must be ${what}, got ${shown(input)}`,
});

function between(low: number, high: number) {
  const range = must(`between ${low} and ${high}`);
  return z.number(range).min(low, range).max(high, range);
}

function whole(low: number, high: number) {
  const range = must(`a whole number between ${low} and ${high}`);
  return z.int(range).min(low, range).max(high, range);
}

const atLeastZero = must('a whole number of at least 0');
const onlyOne = must(
  '1: the first choice is the only one kept, so use best_of to pick it from several, or answer.votes to have them vote',
);
const oneToFour = must('a text or a list of 1 to 4 texts');
const biases = must('an object of token ids to biases between -100 and 100');

/** The hosted service's default. */
export const DEFAULT_MAX_TOKENS = 16;

export const MOST_CHOICES = 128;

/**
 * What a job and its rows may set. With `n` fixed to 1, the service's rule best_of ≥ n always holds. `prompt`
 * comes from the row, and `stream` is useless where each row is one answer.
 */
export const parametersSchema = z.strictObject(
  {
    max_tokens: z
      .int(atLeastZero)
      .min(0, atLeastZero)
      .nullable()
      .exactOptional()
      .describe(
        'Most tokens to generate. At least 0; with the prompt at most the context window. Default: 16.',
      ),
    temperature: between(0, 2)
      .nullable()
      .exactOptional()
      .describe('Sampling temperature; 0 is the most repeatable. 0 to 2. Default: 1.'),
    top_p: between(0, 1)
      .nullable()
      .exactOptional()
      .describe('Nucleus sampling: share of the probability that is sampled from. 0 to 1. Default: 1.'),
    n: z
      .literal(1, onlyOne)
      .nullable()
      .exactOptional()
      .describe(
        'Choices to return. Only 1: the first choice is the one that is kept; answer.votes asks for several. Default: 1.',
      ),
    best_of: whole(1, MOST_CHOICES)
      .exactOptional()
      .describe('Candidates to generate and pick the best of; each is billed. 1 to 128. Default: 1.'),
    logprobs: whole(0, 5)
      .nullable()
      .exactOptional()
      .describe('Return log probabilities of so many likely tokens. 0 to 5. Default: null, none.'),
    echo: z
      .boolean(must('true or false'))
      .nullable()
      .exactOptional()
      .describe('Repeat the prompt before the completion. Default: false.'),
    suffix: z
      .string(must('a text'))
      .nullable()
      .exactOptional()
      .describe('Text that comes after the completion. Default: null, none.'),
    stop: z
      .union([z.string(), z.array(z.string()).min(1, oneToFour).max(4, oneToFour)], oneToFour)
      .nullable()
      .exactOptional()
      .describe('Text, or 1 to 4 texts, at which to stop; not part of the answer. Default: null, none.'),
    presence_penalty: between(-2, 2)
      .exactOptional()
      .describe('Above 0: less of what the text already mentions. -2 to 2. Default: 0.'),
    frequency_penalty: between(-2, 2)
      .exactOptional()
      .describe('Above 0: less of what the text often repeats. -2 to 2. Default: 0.'),
    logit_bias: z
      .record(z.string().regex(/^\d+$/), between(-100, 100), biases)
      .nullable()
      .exactOptional()
      .describe('Token id → bias of its likelihood. -100 (never) to 100 (only). Default: null, none.'),
    user: z
      .string(must('a text'))
      .exactOptional()
      .describe('An id of the end user, for the abuse monitoring of the service. Default: none.'),
  },
  must('an object'),
);

const limit = must('a whole number of at least 1');
const maxTokens = z.int(limit).min(1, limit).exactOptional();
const oneOf = (...names: readonly [string, ...string[]]) =>
  z
    .enum(names, must(either(names)))
    .nullable()
    .exactOptional();

/** Sent where a chat job sets none: enough for a page, and an answer without a bound would have no price. */
const CHAT_MAX_TOKENS = 1024;

export const CHAT_DEFAULTS: Parameters = { max_tokens: CHAT_MAX_TOKENS };

const { temperature, top_p, n, stop, presence_penalty, frequency_penalty, logit_bias, user } =
  parametersSchema.shape;

const FORMATS = ['text', 'json_object', 'json_schema'] as const;

/** Both limits of the tokens have one value, under the name that all else reads. */
const CHAT = {
  ...{ temperature, top_p, n, stop, presence_penalty, frequency_penalty, logit_bias, user },
  max_tokens: maxTokens.describe(
    `Most tokens to generate. At least 1; with the prompt at most the context window. Sent as max_completion_tokens to a model that refuses the older name. Default: ${CHAT_MAX_TOKENS}.`,
  ),
  max_completion_tokens: maxTokens.describe(
    'The newer name of max_tokens in the chat operation: what a reasoning model thinks counts, too.',
  ),
  logprobs: z
    .boolean(must('true or false'))
    .nullable()
    .exactOptional()
    .describe('Return log probabilities. Default: false.'),
  top_logprobs: whole(0, 20)
    .nullable()
    .exactOptional()
    .describe('With logprobs: true, of so many likely tokens. 0 to 20. Default: 0.'),
  seed: z
    .int(must('a whole number'))
    .nullable()
    .exactOptional()
    .describe('Makes sampling repeatable, as far as the service can. Default: none.'),
  reasoning_effort: oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max').describe(
    "How much a reasoning model thinks; it is billed. Default: the model's own.",
  ),
  verbosity: oneOf('low', 'medium', 'high').describe(
    "How long answers are, for models that know it. Default: the model's own.",
  ),
  response_format: z
    .object({ type: z.enum(FORMATS).describe('Kind of the form.') }, must('an object with a type'))
    .catchall(z.json())
    .exactOptional()
    .describe(
      'Form of the answer: { type: text }, json_object or json_schema. Default: the schema of answer.json (answer.send_schema).',
    ),
  service_tier: oneOf('auto', 'default', 'priority', 'scale').describe(
    "Tier of the service that answers. Default: the account's.",
  ),
};

const EXTRA = {
  extra_body: z
    .record(z.string(), z.json(), must('a group of fields'))
    .refine((fields) => reservedIn(fields) === undefined, {
      error: ({ input }) => `must not have ${reservedIn(Object(input))}, which Promptmill sets`,
    })
    .exactOptional()
    .describe(
      "Fields of a server's own, such as top_k or guided_choice: sent unchecked beside the other parameters. Default: none.",
    ),
};

const reservedIn = (fields: object): string | undefined =>
  ['prompt', 'messages', 'model', 'stream', 'n'].find((field) => field in fields);

export const completionsParameters = parametersSchema.extend(EXTRA);
export const chatParameters = z.strictObject({ ...CHAT, ...EXTRA }, must('an object'));

const { max_tokens: _, n: __, logprobs, ...ofChatAlone } = CHAT;

/** The parameters of all operations, for the job file; those of its own are checked when it is known. */
export const anyParametersSchema = completionsParameters.extend({
  ...ofChatAlone,
  ...parametersSchema.omit({ logprobs: true }).shape,
  logprobs: z
    .union([parametersSchema.shape.logprobs, logprobs], must('a number; in the chat operation true or false'))
    .exactOptional()
    .describe(
      'Return log probabilities of so many likely tokens, 0 to 5; in the chat operation true or false. Default: none.',
    ),
});

/** A request also has the choices that `answer.votes` asks for. */
export const requestParametersSchema = parametersSchema.extend({
  n: whole(1, MOST_CHOICES).nullable().exactOptional(),
});

const choices = { n: whole(1, MOST_CHOICES).nullable().exactOptional() };
export const completionsRequests = completionsParameters.extend(choices);
export const chatRequests = chatParameters.extend(choices);

/** What both operations take, and mean the same by. */
export const commonParameters = chatParameters.pick({
  ...{ temperature: true, top_p: true, stop: true, presence_penalty: true, frequency_penalty: true },
  ...{ logit_bias: true, user: true, max_tokens: true, extra_body: true, n: true },
});

/** How many alternatives of each token are listed; null without log probabilities. */
export const listedLogprobs = ({ logprobs, top_logprobs }: Parameters): number | null =>
  typeof logprobs === 'number' ? logprobs : logprobs ? (top_logprobs ?? 0) : null;

/** Of an operation: type, range and meaning of each field by its name. */
export type ParametersSchema = z.ZodType<Parameters> & {
  readonly shape: { readonly [field: string]: z.ZodType };
};

/** Candidates generated for a prompt; each is billed. */
export const candidatesOf = ({ n, best_of }: Parameters): number => Math.max(n ?? 1, best_of ?? 1);

interface ParameterProblem {
  readonly path: string;
  /** Follows the name. */
  readonly why: string;
  readonly message: string;
}

type CheckedParameters =
  | { readonly ok: true; readonly parameters: Parameters }
  | { readonly ok: false; readonly problems: readonly ParameterProblem[] };

export function checkParameters(value: unknown, schema: ParametersSchema): CheckedParameters {
  const parsed = schema.safeParse(value);
  if (parsed.success) return { ok: true, parameters: withLimit(parsed.data) };
  const problem = (path: string, why: string) => ({ path, why, message: `${path || 'parameters'} ${why}` });
  return {
    ok: false,
    problems: parsed.error.issues.flatMap((issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => problem(key, whyRefused(key, schema)))
        : [problem(issue.path.join('.'), issue.message)],
    ),
  };
}

/** All but the request itself reads the limit by its older name. */
export const withLimit = (parameters: Parameters): Parameters =>
  parameters.max_completion_tokens === undefined
    ? parameters
    : { ...parameters, max_tokens: parameters.max_completion_tokens };

const BY_OPERATION: Readonly<Record<string, ParametersSchema>> = {
  completions: completionsParameters,
  chat: chatParameters,
};

function whyRefused(key: string, schema: ParametersSchema): string {
  const [other] = Object.entries(BY_OPERATION).find(([, { shape }]) => Object.hasOwn(shape, key)) ?? [];
  if (schema === commonParameters && other !== undefined)
    return 'cannot be set where the endpoints have both operations: take it out';
  if (other !== undefined)
    return `is a parameter of the ${other} operation: take it out, or set service.operation: ${other}`;
  return refusedParameter(key) ?? `is not a parameter; known are ${Object.keys(schema.shape).join(', ')}`;
}

/** Why a field of the service's request is no parameter here; null for other names. */
export function refusedParameter(key: string): string | null {
  if (key === 'stream') return 'cannot be set: each row is one answer, which is read whole';
  if (key === 'prompt' || key === 'messages')
    return 'cannot be a parameter: it comes from the template or from the row';
  if (/^(tools|tool_choice|functions|function_call)$/.test(key))
    return 'cannot be set: each row is one text, and a tool call is none';
  return null;
}

/** @param text a CSV cell; empty means not set: the result has no field */
export function parameterFromText(name: string, text: string, schema: ParametersSchema): CheckedParameters {
  // White space is a meaningful stop sequence, but only padding around a number.
  const given = name === 'stop' || name === 'suffix' || name === 'user' ? text : text.trim();
  if (given === '') return { ok: true, parameters: {} };
  return checkParameters({ [name]: fromText(name, given) }, schema);
}

function fromText(name: string, text: string): unknown {
  if (name === 'suffix' || name === 'user') return text;
  if (name === 'stop' && !text.startsWith('[')) return text;
  try {
    // Spreadsheets write TRUE and FALSE.
    return JSON.parse(/^(true|false|null)$/i.test(text) ? text.toLowerCase() : text);
  } catch {
    return text;
  }
}
