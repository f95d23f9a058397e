import * as z from 'zod';
import { isObject } from '../core/json.js';
import type { Json } from '../core/model.js';
import { requestParametersSchema } from '../service/parameters.js';
import { invalidRequest, unsupportedParameter } from './refusal.js';
import { checked, METADATA, SENT, STREAM_OPTIONS } from './request.js';

const part = z.strictObject({ type: z.literal('text'), text: z.string() });
const content = z.union([z.string(), z.array(part).min(1)]);
const named = { name: z.string().exactOptional() };
const call = z.strictObject({
  id: z.string(),
  type: z.literal('function'),
  function: z.strictObject({ name: z.string(), arguments: z.string() }),
});

const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['developer', 'system', 'user']), content, ...named }),
  z.strictObject({
    role: z.literal('assistant'),
    content: content.nullable().exactOptional(),
    refusal: z.string().nullable().exactOptional(),
    tool_calls: z.array(call).min(1).exactOptional(),
    ...named,
  }),
  z.strictObject({ role: z.literal('tool'), content, tool_call_id: z.string() }),
]);

export type Message = z.output<typeof message>;

const format = z.discriminatedUnion('type', [
  z.strictObject({ type: z.enum(['text', 'json_object']) }),
  z.strictObject({
    type: z.literal('json_schema'),
    json_schema: z.strictObject({
      name: z.string().regex(/^[\w-]{1,64}$/),
      description: z.string().exactOptional(),
      schema: z.record(z.string(), z.json()).exactOptional(),
      strict: z.boolean().nullable().exactOptional(),
    }),
  }),
]);

export type Format = z.output<typeof format>;

const tokens = z.int().min(1).nullable().exactOptional();
const penalty = z.number().min(-2).max(2).nullable().exactOptional();
const choice = (...values: string[]) => z.enum(values).nullable().exactOptional();

const REQUEST = requestParametersSchema
  .pick({ temperature: true, top_p: true, n: true, stop: true, logit_bias: true, user: true })
  .extend({
    ...SENT,
    ...STREAM_OPTIONS,
    messages: z.array(message).min(1).max(2048),
    max_completion_tokens: tokens,
    max_tokens: tokens,
    presence_penalty: penalty,
    frequency_penalty: penalty,
    logprobs: z.boolean().nullable().exactOptional(),
    top_logprobs: z.int().min(0).max(20).nullable().exactOptional(),
    seed: z.int().nullable().exactOptional(),
    reasoning_effort: choice('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'),
    verbosity: choice('low', 'medium', 'high'),
    response_format: format.exactOptional(),
    service_tier: choice('auto', 'default', 'flex', 'priority', 'scale'),
    metadata: METADATA,
    store: z.boolean().nullable().exactOptional(),
    safety_identifier: z.string().exactOptional(),
    prompt_cache_key: z.string().exactOptional(),
  });

export type ChatRequest = z.output<typeof REQUEST>;

/**
 * @param reasons whether a reasoning model is asked
 * @throws Refusal that names the first field that is wrong
 */
export function checkedChat(body: unknown, reasons: boolean): ChatRequest {
  const request = checked(REQUEST, body, 'chat');
  if (reasons) checkReasoning(request);
  checkTogether(request);
  return request;
}

export function textOf({ content }: Message): string {
  return typeof content === 'string' ? content : (content ?? []).map(({ text }) => text).join('');
}

const WITHOUT_REASONING = [
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'logprobs',
  'top_logprobs',
  'logit_bias',
] as const;

/** What a reasoning model does not take. */
function checkReasoning(request: ChatRequest): void {
  const isGiven = (name: keyof ChatRequest) => request[name] !== undefined && request[name] !== null;
  if (isGiven('max_tokens')) throw unsupportedParameter('max_tokens', 'max_completion_tokens');
  const refused = WITHOUT_REASONING.find(isGiven);
  if (refused !== undefined) throw unsupportedParameter(refused);
}

/** What fields may not be together. */
function checkTogether(request: ChatRequest): void {
  const { messages, max_tokens, max_completion_tokens, logprobs, top_logprobs, response_format } = request;
  const roles = new Set(messages.map(({ role }) => role));
  if (roles.has('system') && roles.has('developer')) {
    throw invalidRequest(
      "'messages' may have the role 'system' or the role 'developer', not both.",
      'messages',
    );
  }
  if (typeof max_tokens === 'number' && typeof max_completion_tokens === 'number') {
    throw invalidRequest(
      "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
      'max_tokens',
    );
  }
  if (typeof top_logprobs === 'number' && logprobs !== true) {
    throw invalidRequest("'top_logprobs' needs 'logprobs' set to true.", 'top_logprobs');
  }
  if (response_format?.type === 'json_object' && !messages.some((one) => /json/i.test(textOf(one)))) {
    throw invalidRequest(
      "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
      'messages',
    );
  }
  if (response_format?.type !== 'json_schema') return;
  const { name, schema = {}, strict } = response_format.json_schema;
  const problem = strict === true ? strictProblem(schema) : null;
  if (problem !== null) {
    throw invalidRequest(`Invalid schema for response_format '${name}': ${problem}`, 'response_format');
  }
}

/** Strict wants objects that say all of their properties, at every depth, and an object on top. */
function strictProblem(schema: Json, at: readonly string[] = []): string | null {
  if (!isObject(schema)) return null;
  const { properties, required, additionalProperties, items = null } = schema;
  const where = `In context=(${at.map((step) => `'${step}'`).join(', ')}),`;
  const isObjects = [schema['type']].flat().includes('object');
  if (at.length === 0 && !isObjects) return `${where} schema must have the type 'object'.`;
  if (isObjects || properties !== undefined) {
    if (additionalProperties !== false) {
      return `${where} 'additionalProperties' is required to be supplied and to be false.`;
    }
    const missing = membersOf(properties).find(([key]) => ![required].flat().includes(key));
    if (missing !== undefined) {
      return `${where} 'required' is required to be supplied and to be an array including every key in properties. Missing '${missing[0]}'.`;
    }
  }
  const inside = ['properties', '$defs', 'anyOf'].flatMap((name) =>
    membersOf(schema[name]).map(([key, one]) => strictProblem(one, [...at, name, key])),
  );
  return [...inside, strictProblem(items, [...at, 'items'])].find((problem) => problem !== null) ?? null;
}

/** Of an object or a list. */
const membersOf = (value: Json | undefined): [key: string, member: Json][] =>
  typeof value === 'object' && value !== null ? Object.entries(value) : [];
