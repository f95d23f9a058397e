import { expect } from 'vitest';
import { completionBody } from '../support/scripted-service.js';

export const gateway = (code: string, message: string) => ({ error: { code, message } });
export const model = (type: string, message: string, code: string | null = null) => ({
  error: { message, type, param: null, code },
});

export const failed = (code: string) => ({
  kind: 'final',
  outcome: { status: 'failed', error: { code }, attempts: 2, latency_ms: 12 },
});
const filtered = { kind: 'final', outcome: { status: 'filtered', error: { code: 'content_filter' } } };
export const retry = (code: string, possiblyBilled: boolean) => ({
  kind: 'retry',
  problem: { code },
  possiblyBilled,
});
export const wait = (ms: number | null) => ({ kind: 'wait', ms, problem: { code: 'rate_limited' } });
export const stop = (code: string) => ({
  kind: 'stop',
  problem: { code },
  hint: expect.stringMatching(/\w.+\.$/),
});

/** One way in which a service answers, and the verdict on it. A body that is no string is sent as JSON. */
type Form = readonly [name: string, status: number, body: unknown, verdict: Expected];
interface Expected {
  readonly kind?: string;
  readonly outcome?: {
    readonly status?: string;
    readonly error: { readonly code: string; message?: string };
  };
  readonly possiblyBilled?: boolean;
  readonly [field: string]: unknown;
}

const ofTheService: readonly Form[] = [
  [
    'a parameter out of range',
    400,
    model('invalid_request_error', "3 is greater than the maximum of 2 - 'temperature'"),
    failed('invalid_request'),
  ],
  [
    'a prompt over the context window',
    400,
    model(
      'invalid_request_error',
      "This model's maximum context length is 4097 tokens, however you requested 5000 tokens",
    ),
    failed('context_length_exceeded'),
  ],
  [
    'a prompt over the context window, by code',
    400,
    model('invalid_request_error', 'too long', 'context_length_exceeded'),
    failed('context_length_exceeded'),
  ],
  [
    'a conversation model',
    400,
    gateway(
      'OperationNotSupported',
      'The completion operation does not work with the specified model, lm-4. Please choose different model.',
    ),
    stop('operation_not_supported'),
  ],
  [
    'a conversation model of a server of the same shape',
    404,
    model('invalid_request_error', 'This is a chat model and not supported in the v1/completions endpoint.'),
    stop('operation_not_supported'),
  ],
  [
    'an api-version that is not supported',
    400,
    gateway('BadRequest', 'API version not supported'),
    stop('api_version_not_supported'),
  ],
  [
    'an api-version that is not supported, as 404',
    404,
    gateway('404', "Unsupported api-version '2020-01-01'"),
    stop('api_version_not_supported'),
  ],
  [
    'a wrong key, of the gateway',
    401,
    gateway('401', 'Access denied due to invalid subscription key or wrong API endpoint.'),
    retry('unauthorized', false),
  ],
  [
    'a wrong token',
    401,
    { statusCode: 401, message: 'Unauthorized. Access token is missing, invalid or expired.' },
    {
      kind: 'retry',
      problem: { message: 'Unauthorized. Access token is missing, invalid or expired. (HTTP 401)' },
    },
  ],
  [
    'network rules',
    403,
    gateway('403', 'Access denied due to Virtual Network/Firewall rules.'),
    stop('forbidden'),
  ],
  [
    'a deployment that does not exist',
    404,
    gateway('DeploymentNotFound', 'The API deployment for this resource does not exist.'),
    stop('deployment_not_found'),
  ],
  [
    'a model that does not exist',
    404,
    model('x', 'no model m', 'model_not_found'),
    stop('deployment_not_found'),
  ],
  ['a wrong path', 404, gateway('404', 'Resource not found'), stop('not_found')],
  ['a wrong path that is HTML', 404, '<html>nginx</html>', stop('not_found')],
  ['a method that is not allowed', 405, '', stop('not_found')],
  ['a request timeout', 408, gateway('Timeout', 'The operation was timeout.'), retry('timeout', true)],
  ['a conflict', 409, '', retry('conflict', false)],
  ['a body that is too large', 413, '', failed('request_too_large')],
  [
    'a validation error that is a list',
    422,
    { detail: [{ msg: 'field required', input: 'secret row' }] },
    {
      kind: 'final',
      outcome: { error: { code: 'invalid_request', message: 'field required (HTTP 422)' } },
    },
  ],
  [
    'a validation error of a text server',
    422,
    { error: 'Input validation error', error_type: 'validation' },
    failed('invalid_request'),
  ],
  [
    'a generation that failed',
    424,
    { error: 'Request failed during generation', error_type: 'generation' },
    retry('failed_dependency', false),
  ],
  ['an overloaded text server', 429, { error: 'Model is overloaded', error_type: 'overloaded' }, wait(null)],
  [
    'a quota that is used up',
    429,
    model('insufficient_quota', 'You exceeded your quota'),
    stop('insufficient_quota'),
  ],
  [
    'a quota that is used up, by code',
    429,
    gateway('insufficient_quota', 'You exceeded your quota'),
    stop('insufficient_quota'),
  ],
  ['no credit', 402, '', stop('insufficient_quota')],
  [
    'an error of the model',
    500,
    model('server_error', 'The server had an error'),
    retry('server_error', false),
  ],
  [
    'an error of the gateway',
    500,
    { statusCode: 500, message: 'Internal server error', activityId: 'a' },
    retry('server_error', false),
  ],
  ['a bad gateway', 502, '', retry('server_error', true)],
  ['a service that is down', 503, '<html>down</html>', retry('server_error', false)],
  [
    'a model that loads',
    503,
    { error: 'Model is loading' },
    { ...retry('not_ready', false), notReady: true },
  ],
  ['a gateway timeout', 504, 'upstream request timeout', retry('server_error', true)],
  ['a status that nobody knows', 418, '', failed('invalid_request')],
  ['a blocked prompt, without details', 400, gateway('content_filter', 'filtered'), filtered],
  [
    'a blocked prompt, by the inner code',
    400,
    { error: { code: 'x', message: 'filtered', innererror: { code: 'ResponsibleAIPolicyViolation' } } },
    filtered,
  ],
  ['a blocked answer', 200, completionBody({ text: '', finish_reason: 'content_filter' }), filtered],
  ...(
    [
      ['text', 'It works!', 'not_json'],
      ['nothing', '', 'not_json'],
      ['half a body (fault 23)', JSON.stringify(completionBody()).slice(0, 90), 'not_json'],
      ['an error', { error: { message: 'oops' } }, 'error_in_answer'],
      ['an error as text', { error: 'oops' }, 'error_in_answer'],
      ['no choices', { id: 'x' }, 'no_choices'],
      ['empty choices', { choices: [] }, 'no_choices'],
      ['a choice that is null', { choices: [null] }, 'no_choices'],
      ['JSON that is no object', '[]', 'no_choices'],
    ] as const
  ).map(([name, body, code]): Form => [`fault 24: a 200 with ${name}`, 200, body, retry(code, true)]),
];

/** What servers of the same shape say of a model that they do not have. */
const NO_SUCH_MODEL = [
  "model 'x' was not found",
  'Model x is not found',
  'No such model: x',
  'Unknown model x',
  'Invalid model: x',
  'x is not a valid model ID',
  'Model Not Exist',
  'unsupported model x',
  'could not find model x',
  'deployment x not found',
  'The model `x` does not exist.',
];
/** What only looks like that, with words that may be those of a row. */
const NO_NAME_OF_A_MODEL = [
  'Unsupported model parameter: suffix',
  'Invalid model output',
  'unknown model type in request body',
  'Could not find model weights for the prompt you gave',
  'temperature is not a valid model parameter',
  'Unknown model error.',
  'Invalid model_kwargs',
  'Invalid model response.',
  'The model of the car I bought was not found: bad prompt',
  'Bad prompt: "The model was not found in the shop."',
];

const ofOthers: readonly Form[] = [
  [
    'vLLM, no such model',
    404,
    { message: 'The model `x` does not exist.', code: 404 },
    stop('deployment_not_found'),
  ],
  ['Ollama, no such model', 404, { error: { message: "model 'x' not found" } }, stop('deployment_not_found')],
  [
    'LiteLLM, no such model',
    400,
    { error: { message: '/completions: Invalid model name passed in model=x', code: '400' } },
    stop('deployment_not_found'),
  ],
  [
    "fault 98: llama.cpp's router, no such model",
    400,
    { error: { code: 400, message: "model 'x' not found", type: 'invalid_request_error' } },
    stop('deployment_not_found'),
  ],
  [
    'fault 98: LM Studio, no such model',
    400,
    { error: 'Invalid model identifier "x". Please specify a valid downloaded model.' },
    stop('deployment_not_found'),
  ],
  [
    'fault 98: LM Studio, a model that cannot be loaded',
    400,
    { error: { message: 'Failed to load model "x". Error: Error loading model.' } },
    stop('deployment_not_found'),
  ],
  [
    'LiteLLM, no budget',
    429,
    { error: { message: 'Budget', type: 'budget_exceeded' } },
    stop('insufficient_quota'),
  ],
  [
    'llama.cpp, too long',
    400,
    { error: { message: 'the request exceeds', type: 'exceed_context_size_error' } },
    failed('context_length_exceeded'),
  ],
  [
    'llama.cpp, too long, of an older build',
    500,
    { error: { message: 'the request exceeds the available context size', type: 'server_error' } },
    failed('context_length_exceeded'),
  ],
  [
    'llama.cpp, a field that it does not know',
    500,
    { error: { code: 500, message: 'Unsupported param: suffix', type: 'server_error' } },
    stop('not_supported'),
  ],
  [
    'llama.cpp, the prompt in its answer',
    500,
    { error: { code: 500, message: 'Only no echo is supported', type: 'server_error' } },
    stop('not_supported'),
  ],
  [
    'llama.cpp, several choices, of a build that gives one',
    500,
    { error: { code: 500, message: 'Only one completion choice is allowed', type: 'server_error' } },
    { ...stop('not_supported'), hint: expect.stringContaining('answer.votes') },
  ],
  [
    'llama.cpp, more choices than slots',
    400,
    { error: { message: "Field 'n': Value must be between 1 <= value <= 4, but got 5" } },
    { ...stop('not_supported'), hint: expect.stringContaining('answer.votes') },
  ],
  [
    'llama.cpp, more choices than slots, of an older build',
    400,
    { error: { message: 'n_cmpl cannot be greater than the number of slots, please increase -np' } },
    { ...stop('not_supported'), hint: expect.stringContaining('answer.votes') },
  ],
  [
    'vLLM, too long',
    400,
    {
      error: {
        message:
          "You passed 1193 input tokens and requested 7000 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 1192 tokens.",
        ...{ type: 'BadRequestError', param: 'input_tokens', code: 400 },
      },
    },
    failed('context_length_exceeded'),
  ],
  [
    'vLLM, more tokens than the prompt leaves room for',
    400,
    model(
      'BadRequestError',
      "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 4096 tokens and your request has 2778 input tokens (8000 > 4096 - 2778).",
    ),
    failed('context_length_exceeded'),
  ],
  [
    'vLLM, a base model that is asked to chat',
    400,
    {
      object: 'error',
      message:
        'As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.',
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    stop('operation_not_supported'),
  ],
  [
    'vLLM, started for embeddings',
    501,
    model('NotImplementedError', 'The model does not support Chat Completions API'),
    stop('operation_not_supported'),
  ],
  [
    'vLLM, a field that it does not know',
    400,
    { error: { message: 'suffix is not currently supported', type: 'BadRequestError', code: 400 } },
    stop('not_supported'),
  ],
  [
    'Text Generation Inference, a field that it does not know',
    422,
    { error: 'Suffix is not supported and can be achieved by preprocessing the prompt.' },
    stop('not_supported'),
  ],
  [
    'llama.cpp, a model that generates nothing',
    500,
    { error: { message: 'the current context does not logits computation. skipping' } },
    stop('not_supported'),
  ],
  [
    'llama.cpp, calls that together outgrow its context',
    500,
    { error: { message: 'Context size has been exceeded.', type: 'server_error' } },
    { ...retry('context_length_exceeded', false), noRoom: true },
  ],
  [
    'llama.cpp, the same of an older build',
    500,
    { error: { message: 'Input prompt is too big compared to KV size. Please try increasing KV size.' } },
    { ...retry('context_length_exceeded', false), noRoom: true },
  ],
  [
    'llama.cpp, an operation that it was not started for',
    501,
    {
      error: {
        code: 501,
        message: 'This server does not support completions',
        type: 'not_supported_error',
      },
    },
    stop('not_supported'),
  ],
  ...NO_SUCH_MODEL.map(
    (message): Form => [`fault 98: ${message}`, 400, { error: { message } }, stop('deployment_not_found')],
  ),
  ...NO_NAME_OF_A_MODEL.map(
    (message): Form => [
      `fault 98: what is no name of a model: ${message}`,
      400,
      { error: { message } },
      failed('invalid_request'),
    ],
  ),
];

export const FORMS = [...ofTheService, ...ofOthers];

/** @throws Error when there is none of this name */
export function formOf(wanted: string): Form {
  const form = FORMS.find(([name]) => name === wanted);
  if (form === undefined) throw new Error(`no form of an answer is called ${wanted}`);
  return form;
}
