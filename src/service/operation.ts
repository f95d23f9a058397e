import { isObject } from '../core/json.js';
import type { Json, Parameters, Problem, Prompt } from '../core/model.js';
import { conversationOf, isConversation, messagesOf, shown, textOf } from './messages.js';
import {
  CHAT_DEFAULTS,
  chatParameters,
  chatRequests,
  commonParameters,
  completionsParameters,
  completionsRequests,
  type ParametersSchema,
} from './parameters.js';

/** As the documentation of the service names it. */
export type ModelType = 'completions' | 'conversation';

/**
 * How prompts become a request, and a choice a text. All else is common to operations. The endpoint names its
 * operation; only this folder and the emulator's know what it does.
 */
export interface Operation {
  readonly name: string;
  readonly models: ModelType;
  /** Most prompts in one call. */
  readonly promptsPerCall: number;
  /** Path after the deployment or after `/v1`. */
  readonly path: string;
  /** What a job and its rows may set. */
  readonly parameters: ParametersSchema;
  /** The same, with the choices that `answer.votes` asks for. */
  readonly requests: ParametersSchema;
  /** What a request has where the job says nothing. */
  readonly defaults: Parameters;
  /** Asks for log probabilities of so many alternatives. */
  listed(alternatives: number): Parameters;
  /** Has the service keep to a JSON Schema; null where it cannot. */
  readonly formatted: ((schema: { readonly [keyword: string]: Json }, strict: boolean) => Parameters) | null;
  /** The field of a request, and so of a row's `body`, that holds what is asked. */
  readonly asked: string;
  /** What a row asks, or in words what is wrong with it. */
  promptOf(value: unknown): { readonly prompt: Prompt } | { readonly problem: string };
  isPrompt(value: unknown): value is Prompt;
  /** Of a model that is not known. */
  readonly encoding: 'cl100k_base' | 'o200k_base';
  /** Tokens of a prompt beside those of its texts. */
  overhead(prompt: Prompt): number;
  prompts(prompts: readonly Prompt[]): { readonly [field: string]: unknown };
  /** Null when the choice has no text. */
  text(choice: { readonly [field: string]: unknown }): string | null;
  /** Why the model does not answer, in its own words; null for an answer. */
  refusal(choice: { readonly [field: string]: unknown }): string | null;
  /** Why a choice, which is billed, has no text, and no other call would bring one; null for others. */
  spent(choice: { readonly [field: string]: unknown }): Problem | null;
  /** Whether requests may ask for a tier. */
  readonly hasTiers: boolean;
  /** Whether answers tell of refusals, and of cached and thought tokens. */
  readonly tellsMore: boolean;
  /** Names the form of a whole answer. */
  readonly object: string;
  /** The other way of {@link text} and {@link refusal}. */
  choice(text: string | null, refusal: string | null): { readonly [field: string]: unknown };
  /** Log probabilities of the choice's tokens, as the service gives them. */
  logprobs(choice: { readonly [field: string]: unknown }): unknown;
  /** Why a choice without a text belongs to another operation, or null. */
  otherForm(
    answer: { readonly [field: string]: unknown },
    choice: { readonly [field: string]: unknown },
  ): string | null;
}

export const completions: Operation = {
  name: 'completions',
  models: 'completions',
  promptsPerCall: 2048,
  path: 'completions',
  parameters: completionsParameters,
  requests: completionsRequests,
  defaults: {},
  listed: (logprobs) => ({ logprobs }),
  formatted: null,
  asked: 'prompt',
  promptOf: (value) =>
    typeof value === 'string' ? { prompt: value } : { problem: `prompt must be a text, got ${shown(value)}` },
  isPrompt: (value) => typeof value === 'string',
  encoding: 'cl100k_base',
  overhead: () => 0,
  // A single prompt is sent as a string, because some servers accept no list.
  prompts: ([first = '', ...others]) => ({
    prompt: others.length === 0 ? first : [first, ...others],
  }),
  text: ({ text }) => (typeof text === 'string' ? text : null),
  refusal: () => null,
  spent: () => null,
  hasTiers: false,
  tellsMore: false,
  object: 'text_completion',
  choice: (text) => ({ text: text ?? '' }),
  logprobs: ({ logprobs }) => logprobs,
  otherForm: (answer, { message, delta }) => {
    const isChat =
      isObject(message) || isObject(delta) || String(answer['object'] ?? '').startsWith('chat.completion');
    return isChat
      ? 'the service answers in the form of the chat operation, with a message in place of a text'
      : null;
  },
};

/** Tokens around each message, its role included, and before the answer. */
const AROUND_MESSAGE = 4;
const BEFORE_ANSWER = 3;

const chat: Operation = {
  name: 'chat',
  models: 'conversation',
  promptsPerCall: 1,
  path: 'chat/completions',
  parameters: chatParameters,
  requests: chatRequests,
  defaults: CHAT_DEFAULTS,
  listed: (top_logprobs) => ({ logprobs: true, top_logprobs }),
  formatted: (schema, strict) => ({
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'answer', schema, ...(strict && { strict: true }) },
    },
  }),
  asked: 'messages',
  promptOf: conversationOf,
  isPrompt: isConversation,
  encoding: 'o200k_base',
  overhead: (prompt) => AROUND_MESSAGE * messagesOf(prompt).length + BEFORE_ANSWER,
  prompts: ([prompt = '']) => ({ messages: messagesOf(prompt) }),
  text: (choice) => textOf(messageIn(choice)['content']),
  refusal(choice) {
    const { refusal, content } = messageIn(choice);
    return typeof refusal === 'string' && refusal !== '' && !textOf(content) ? refusal : null;
  },
  spent(choice) {
    const { content, tool_calls: calls } = messageIn(choice);
    if (textOf(content)) return null;
    const isCall = (Array.isArray(calls) && calls.length > 0) || choice['finish_reason'] === 'tool_calls';
    return isCall ? TOOL_CALLS : choice['finish_reason'] === 'length' ? CUT : null;
  },
  hasTiers: true,
  tellsMore: true,
  object: 'chat.completion',
  choice: (content, refusal) => ({ message: { role: 'assistant', content, refusal } }),
  logprobs: ({ logprobs }) => logprobs,
  otherForm: (answer, { text }) =>
    typeof text === 'string' || answer['object'] === 'text_completion'
      ? 'the service answers in the form of the completions operation, with a text in place of a message'
      : null,
};

const CUT: Problem = {
  code: 'cut_before_answer',
  message:
    'max_completion_tokens was used up before the answer began: raise parameters.max_completion_tokens, or lower parameters.reasoning_effort',
};
const TOOL_CALLS: Problem = {
  code: 'unexpected_tool_calls',
  message:
    'the model calls a tool in place of an answer, and the request has none: say in the prompt that the answer is a text',
};

const messageIn = ({
  message,
}: {
  readonly [field: string]: unknown;
}): { readonly [field: string]: unknown } => (isObject(message) ? message : {});

export const OPERATION_NAMES = ['completions', 'chat'] as const;

export type OperationName = (typeof OPERATION_NAMES)[number];

export type ByOperation<T> = { readonly [name in OperationName]?: T };

const BY_NAME: Readonly<Record<OperationName, Operation>> = { completions, chat };

export const OPERATIONS: readonly Operation[] = Object.values(BY_NAME);

/** For rows that either may be called for: their prompts are texts, and their parameters mean the same to both. */
const either: Operation = {
  ...completions,
  ...{ promptsPerCall: 1, parameters: commonParameters, requests: commonParameters, tellsMore: true },
};

/** What endpoints have in common that share their rows. */
export const commonOperation = (names: readonly OperationName[]): Operation => {
  const [first = 'completions', ...others] = new Set(names);
  return others.length === 0 ? BY_NAME[first] : either;
};

/** The name of the operation for which its models are meant that this one cannot call. */
export const otherOperation = ({ name }: Operation): string =>
  OPERATION_NAMES.find((other) => other !== name) ?? name;

export const operationOf = ({ operation }: { readonly operation: OperationName }): Operation =>
  BY_NAME[operation];
