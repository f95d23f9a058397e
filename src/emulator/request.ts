import type { IncomingMessage } from 'node:http';
import type * as z from 'zod';
import { parseJson } from '../core/json.js';
import type { EmulatedOperation } from './operation.js';
import {
  bodyNotJson,
  bodyTooLarge,
  invalidRequest,
  mediaTypeNotSupported,
  type Refusal,
  type Style,
} from './refusal.js';

export type CompletionRequest = ReturnType<typeof parseRequest>;

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

/** @throws Refusal */
export function parseRequest(text: string, style: Style, { requests }: EmulatedOperation) {
  const read = requests[style].safeParse(parseJson(text), { reportInput: true });
  if (!read.success) throw refusalOf(read.error.issues);
  // Fields that only say how the answer is sent, or who asks, do not change the answer.
  const { prompts, model, user: _, stream, stream_options, echo, logprobs, ...shaping } = read.data;
  const n = shaping.n ?? 1;
  const bestOf = shaping.best_of ?? n;
  checkChoices(n, bestOf, stream === true);
  if (stream_options && !stream) {
    throw invalidRequest(
      "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
      'stream_options',
    );
  }
  return {
    /** The service's own API has it in the address and ignores this. */
    model: model ?? null,
    prompts,
    /** The text that follows the completion. */
    suffix: shaping.suffix ?? '',
    maxTokens: shaping.max_tokens ?? 16,
    temperature: shaping.temperature ?? 1,
    n,
    /** Candidates generated, and billed, for each prompt; at least `n`. */
    bestOf,
    stop: [shaping.stop ?? []].flat(),
    echo: echo === true,
    /** How many of the most likely tokens are listed per token; `null` for no log probabilities. */
    logprobs: logprobs ?? null,
    stream: stream === true,
    streamUsage: stream_options?.include_usage === true,
    /** The other parameters that shape the answer; the answer is a function of these too. */
    fingerprint: JSON.stringify(Object.entries(shaping).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

function checkChoices(n: number, bestOf: number, stream: boolean): void {
  if (bestOf < n) {
    throw invalidRequest(
      'You requested that the server return more choices than it will generate (HINT: you must set ' +
        `'n' (currently ${n}) to be at most 'best_of' (currently ${bestOf}), or omit either parameter if you ` +
        "don't specifically want to use them.)",
      'best_of',
    );
  }
  // The best candidates are known only when all are finished.
  if (stream && bestOf > n) {
    throw invalidRequest(
      `You requested that the server return the best of ${bestOf} results, but also stream them: results ` +
        "with 'best_of' greater than 'n' cannot be streamed.",
      'best_of',
    );
  }
}

function refusalOf([issue]: readonly z.core.$ZodIssue[], within: readonly PropertyKey[] = []): Refusal {
  if (issue === undefined) return bodyNotJson();
  const path = [...within, ...issue.path];
  if (path.length === 0 && issue.code === 'invalid_type') return bodyNotJson();
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
    case 'invalid_union':
      // A text or a list: for a list, report what is wrong inside it.
      return refusalOf(issue.errors[Array.isArray(issue.input) ? 1 : 0] ?? [], path);
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
