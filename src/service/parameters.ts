import * as z from 'zod';
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

/** A request also has the choices that `answer.votes` asks for. */
export const requestParametersSchema = parametersSchema.extend({
  n: whole(1, MOST_CHOICES).nullable().exactOptional(),
});

/** Of an operation: type, range and meaning of each field by its name. */
export type ParametersSchema = z.ZodType<Parameters> & {
  readonly shape: { readonly [field: string]: z.ZodType };
};

/** Candidates generated for a prompt; each is billed. */
export const candidatesOf = ({ n, best_of }: Parameters): number => Math.max(n ?? 1, best_of ?? 1);

interface ParameterProblem {
  readonly path: string;
  readonly message: string;
}

type CheckedParameters =
  | { readonly ok: true; readonly parameters: Parameters }
  | { readonly ok: false; readonly problems: readonly ParameterProblem[] };

export function checkParameters(value: unknown, schema: ParametersSchema): CheckedParameters {
  const parsed = schema.safeParse(value);
  if (parsed.success) return { ok: true, parameters: parsed.data };
  return {
    ok: false,
    problems: parsed.error.issues.flatMap((issue) => {
      if (issue.code === 'unrecognized_keys') {
        return issue.keys.map((key) => ({ path: key, message: `${key} ${whyRefused(key, schema)}` }));
      }
      const path = issue.path.join('.');
      return [{ path, message: `${path || 'parameters'} ${issue.message}` }];
    }),
  };
}

const whyRefused = (key: string, { shape }: ParametersSchema): string =>
  refusedParameter(key) ?? `is not a parameter; known are ${Object.keys(shape).join(', ')}`;

/** Why a field of the service's request is no parameter here; null for other names. */
export function refusedParameter(key: string): string | null {
  if (key === 'stream') return 'cannot be set: each row is one answer, which is read whole';
  if (key === 'prompt') return 'cannot be a parameter: it comes from the template or from the row';
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
    return JSON.parse(name === 'stop' ? text : text.toLowerCase());
  } catch {
    return text;
  }
}
