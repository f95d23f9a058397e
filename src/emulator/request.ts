import type { IncomingMessage } from 'node:http';
import * as z from 'zod';
import type { Json } from '../core/model.js';
import { bodyNotJson, bodyTooLarge, invalidRequest, mediaTypeNotSupported, type Refusal } from './refusal.js';

/** A request, checked and read; the same for every operation. */
export interface CompletionRequest {
  /** The service's own API has it in the address and ignores this. */
  readonly model: string | null;
  /** Of a conversation, its messages as one text. */
  readonly prompts: readonly string[];
  /** What a conversation asks last; `null` where the answer continues the prompt. */
  readonly question: string | null;
  /** Tokens of each prompt, as billed. */
  promptTokens(count: (text: string) => number): number[];
  /** The tokens of the prompt, whose beginning may be cached; `null` where nothing is. */
  readonly prefix: ((encode: (text: string) => readonly number[]) => number[]) | null;
  /** `null` for all that the context window has room for. */
  readonly maxTokens: number | null;
  readonly temperature: number;
  readonly n: number;
  /** Candidates generated, and billed, for each prompt; at least `n`. */
  readonly bestOf: number;
  readonly stop: readonly string[];
  readonly echo: boolean;
  /** How many of the most likely tokens are listed per token; `null` for no log probabilities. */
  readonly logprobs: number | null;
  /** What the answer must be: JSON of a schema, any JSON object, or (`null`) what the prompt says. */
  readonly json: { readonly [keyword: string]: Json } | 'any' | null;
  /** The tier that serves it; `null` where there are none. */
  readonly tier: string | null;
  readonly reasoningTokens: number;
  readonly refusalRate: number;
  readonly stream: boolean;
  readonly streamUsage: boolean;
  /** The other parameters that shape the answer; the answer is a function of these too. */
  readonly fingerprint: string;
}

/** Bytes; bounds memory whatever is sent. */
const LARGEST_BODY = 16 * 1024 * 1024;

/** @throws Refusal when the media type cannot hold JSON, or the body is too large */
export async function readBody(request: IncomingMessage): Promise<string> {
  const type = request.headers['content-type'];
  // Anything that may hold JSON passes: clients that send a string often call it text/plain.
  if (type !== undefined && !/json|text\/plain|octet-stream/i.test(type)) throw mediaTypeNotSupported(type);
  const parts: Buffer[] = [];
  let size = 0;
  // The connection stays open when the body is too large: the refusal must still get through.
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    size += part.length;
    if (size > LARGEST_BODY) throw bodyTooLarge(LARGEST_BODY);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Fields that say which model answers, and how its answer is sent. */
export const SENT = {
  model: z.string().exactOptional(),
  stream: z.boolean().nullable().exactOptional(),
};

/** Pairs of the caller's own. */
export const METADATA = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= 16)
  .nullable()
  .exactOptional();

export const STREAM_OPTIONS = {
  stream_options: z.strictObject({ include_usage: z.boolean().exactOptional() }).nullable().exactOptional(),
};

interface CommonFields {
  readonly model?: string;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
  readonly user?: string;
  readonly temperature?: number | null;
  readonly n?: number | null;
  readonly stop?: string | readonly string[] | null;
}

/** @throws Refusal that names the first field that is wrong */
export function checked<Fields>(schema: z.ZodType<Fields>, body: unknown, operation: string): Fields {
  const read = schema.safeParse(body, { reportInput: true });
  if (read.success) return read.data;
  throw refusalOf(read.error.issues, operation);
}

/**
 * What every operation reads in the same way. The fields that only say how the answer is sent, or who asks, do
 * not change the answer; all others do. @throws Refusal
 */
export function commonOf({ model, user: _, stream, stream_options, ...shaping }: CommonFields) {
  if (stream_options && !stream) {
    throw invalidRequest(
      "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
      'stream_options',
    );
  }
  return {
    model: model ?? null,
    temperature: shaping.temperature ?? 1,
    n: shaping.n ?? 1,
    stop: [shaping.stop ?? []].flat(),
    stream: stream === true,
    streamUsage: stream_options?.include_usage === true,
    fingerprint: JSON.stringify(Object.entries(shaping).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

function refusalOf(
  [issue]: readonly z.core.$ZodIssue[],
  operation: string,
  within: readonly PropertyKey[] = [],
): Refusal {
  if (issue === undefined) return bodyNotJson(operation);
  const path = [...within, ...issue.path];
  if (path.length === 0 && issue.code === 'invalid_type') return bodyNotJson(operation);
  const field = path.join('.');
  const shown =
    typeof issue.input === 'string'
      ? `'${issue.input.slice(0, 50)}'`
      : JSON.stringify(issue.input)?.slice(0, 50);
  switch (issue.code) {
    case 'unrecognized_keys':
      return invalidRequest(`Unrecognized request argument supplied: ${[...path, issue.keys[0]].join('.')}`);
    case 'too_big':
      return Array.isArray(issue.input)
        ? invalidRequest(`an array of ${issue.input.length} is too long - '${field}'`)
        : invalidRequest(`${shown} is greater than the maximum of ${issue.maximum} - '${field}'`);
    case 'too_small':
      return Array.isArray(issue.input)
        ? invalidRequest(`${shown} is too short - '${field}'`)
        : invalidRequest(`${shown} is less than the minimum of ${issue.minimum} - '${field}'`);
    case 'invalid_union': {
      // A text or a list: for a list, report what is wrong inside it.
      const inside = issue.errors[Array.isArray(issue.input) ? 1 : 0];
      return inside
        ? refusalOf(inside, operation, path)
        : invalidRequest(`${shown ?? 'null'} is not valid - '${field}'`);
    }
    case 'invalid_key':
      return invalidRequest(`'${String(path.at(-1))}' is not a token id - '${path.slice(0, -1).join('.')}'`);
    case 'invalid_type': {
      if (issue.input === undefined) return invalidRequest(`'${field}' is a required property`);
      const type = { int: 'integer', record: 'object' }[String(issue.expected)] ?? issue.expected;
      return invalidRequest(`${shown} is not of type '${type}' - '${field}'`);
    }
    default:
      return invalidRequest(`${shown} is not valid - '${field}'`);
  }
}
