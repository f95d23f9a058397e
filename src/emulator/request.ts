import type { IncomingMessage } from 'node:http';
import type { Json } from '../model.js';
import { type Body, type Check, integer, isObject, optional, streamOptions, unknownField } from './checks.js';
import { type EmulatedOperation, texts } from './operation.js';
import { bodyNotJson, bodyTooLarge, invalidRequest, mediaTypeNotSupported, type Style } from './refusal.js';

/** A request that passed validation, with the service's defaults filled in. */
export interface CompletionRequest {
  /** The body's `model`; the service's own interface has it in the address and ignores this. */
  readonly model: string | null;
  readonly prompts: readonly string[];
  /** What the completion leads up to; `''` for none. */
  readonly suffix: string;
  readonly maxTokens: number;
  readonly temperature: number;
  /** Choices returned for each prompt. */
  readonly n: number;
  /** Candidates generated, and billed, for each prompt; at least `n`. */
  readonly bestOf: number;
  readonly stop: readonly string[];
  /** Whether the prompt is returned before the completion. */
  readonly echo: boolean;
  /** How many of the most likely tokens are listed for each token; `null` for no log probabilities. */
  readonly logprobs: number | null;
  readonly stream: boolean;
  /** Whether a stream ends with its usage. */
  readonly streamUsage: boolean;
  /** Parameters that shape the answer in a way of their own; part of what the answer is a function of. */
  readonly fingerprint: string;
}

/** Fields that the API versions of the service do not know yet, and plain servers do. */
const PLAIN_CHECKS: ReadonlyMap<string, Check> = new Map([
  ['seed', optional(integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER))],
  ['stream_options', optional(streamOptions)],
]);

/** What says how the answer is sent, or who asks, and changes nothing in what is answered. */
const SHAPELESS = new Set(['prompt', 'model', 'user', 'stream', 'stream_options', 'echo', 'logprobs']);

/** Largest request body, in bytes: memory stays bounded whatever is sent. */
const LARGEST_BODY = 16 * 1024 * 1024;

/**
 * The body of a request.
 * @throws Refusal when it is of a media type that holds no JSON, or too large
 */
export async function readBody(request: IncomingMessage): Promise<string> {
  checkMediaType(request.headers['content-type']);
  const parts: Buffer[] = [];
  let size = 0;
  // The connection stays open on a body that is too large: the refusal must still get through.
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    size += part.length;
    if (size > LARGEST_BODY) throw bodyTooLarge(LARGEST_BODY);
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/** Anything that may hold JSON passes: clients that send a string often call it text/plain. */
function checkMediaType(contentType: string | undefined): void {
  if (contentType !== undefined && !/json|text\/plain|octet-stream/i.test(contentType)) {
    throw mediaTypeNotSupported(contentType);
  }
}

/**
 * Validates a request body as the service does: every field of its reference, with type and range, and no other.
 * @throws Refusal with the service's kind of message
 */
export function parseRequest(
  text: string,
  style: Style,
  { checks, promptsOf }: EmulatedOperation,
): CompletionRequest {
  const body = parseObject(text);
  for (const [field, value] of Object.entries(body)) {
    const check = checks.get(field) ?? (style === 'plain' ? PLAIN_CHECKS.get(field) : undefined);
    if (!check) throw unknownField(field);
    check(value, field);
  }
  const prompts = promptsOf(body);
  const n = numberOr(body['n'], 1);
  const bestOf = numberOr(body['best_of'], n);
  const stream = body['stream'] === true;
  checkChoices(n, bestOf, stream);
  const { model, suffix, logprobs, stream_options: options } = body;
  if (isSet(options) && !stream) {
    throw invalidRequest(
      "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
      'stream_options',
    );
  }
  return {
    model: typeof model === 'string' ? model : null,
    prompts,
    suffix: typeof suffix === 'string' ? suffix : '',
    maxTokens: numberOr(body['max_tokens'], 16),
    temperature: numberOr(body['temperature'], 1),
    n,
    bestOf,
    stop: texts(body['stop'] ?? []),
    echo: body['echo'] === true,
    logprobs: typeof logprobs === 'number' ? logprobs : null,
    stream,
    streamUsage: isSet(options) && isObject(options) && options['include_usage'] === true,
    fingerprint: JSON.stringify(
      Object.entries(body)
        .filter(([field]) => !SHAPELESS.has(field))
        .sort(([a], [b]) => (a < b ? -1 : 1)),
    ),
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

function parseObject(text: string): Body {
  let body: Json;
  try {
    body = JSON.parse(text);
  } catch {
    throw bodyNotJson();
  }
  if (!isObject(body)) throw bodyNotJson();
  return body;
}

const isSet = (value: Json | undefined): value is Json => value !== undefined && value !== null;

function numberOr(value: Json | undefined, fallback: number): number {
  return typeof value === 'number' ? value : fallback;
}
