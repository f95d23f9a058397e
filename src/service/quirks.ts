import type { ServiceError } from './response.js';

/**
 * What single servers say in words of their own. A server that says something else for one of these is one more
 * entry here.
 */

interface Saying {
  /** Who says it; `any` where several do. */
  readonly of: string;
  readonly status: readonly (number | '4xx' | '5xx')[];
  /** All that is given must match. The words usually begin the message: a server may quote the prompt later on. */
  readonly code?: string;
  readonly type?: string;
  readonly words?: RegExp;
}

/** Exactly one name between the words, so that a message that begins with a prompt does not match. */
const NO_MODEL =
  /^(the )?(requested )?(model|deployment):? ([`'"][^`'"]{1,200}[`'"]|[^\s`'"]{1,200}) ((was |is )?not found|does not exist|is not available|(is )?not loaded)\b/i;
/** Nothing may follow the name: `Unsupported model parameter: suffix` does not match. */
const NO_SUCH_MODEL =
  /^(no such|unknown|unsupported|invalid|(could|can) ?not find)( the)? (model|deployment)( name| id)?:? [`'"]?(?!param|type|input|output|arg|option|setting|config|format|version|field|value|prompt|error|re(sponse|quest)|kwargs|name|id\b)[^\s`'"]{1,200}[`'"]?[.!]?$/i;

const SAYINGS = {
  /** A field of the request: no pause mends that. */
  unsupported: [
    { of: 'any', status: [501] },
    {
      // "Unsupported param: suffix", "Only no echo is supported", and for embedding models "the current context
      // does not logits computation".
      of: 'llama.cpp',
      status: ['5xx'],
      words:
        /^(unsupported (param|field|option|argument)|(this|the) \w+ does not support\b|the current context does not\b|only no \w+ is supported\b)/i,
    },
    {
      of: 'vLLM (400), Text Generation Inference (422)',
      status: [400, 422],
      words: /^(suffix|best_of|echo|logprobs|logit_bias) is not (currently )?supported\b/i,
    },
  ],
  too_many_choices: [
    {
      of: 'llama.cpp before December 2025',
      status: ['5xx'],
      words: /^only one completion choice is allowed\b/i,
    },
    {
      of: 'llama.cpp, with one choice for each slot',
      status: [400],
      words: /^(field '(n|n_cmpl)': value must be between|n_cmpl cannot be greater than)\b/i,
    },
  ],
  /** To all calls, when they outgrow the context that its slots share. */
  out_of_room: [
    {
      of: 'llama.cpp of 2026 and 2025',
      status: ['5xx'],
      words: /^(context size has been exceeded|input prompt is too big compared to kv size)\b/i,
    },
  ],
  loading: [
    { of: 'llama.cpp', status: [503], type: 'unavailable_error' },
    { of: 'any', status: [503], words: /\bloading model\b|\bmodel is loading\b/i },
  ],
  too_long: [
    { of: 'llama.cpp, with 400 or 500', status: ['4xx', '5xx'], type: 'exceed_context_size_error' },
    { of: 'llama.cpp', status: ['4xx', '5xx'], words: /exceeds the available context size/i },
    { of: 'any', status: ['4xx'], code: 'context_length_exceeded' },
    { of: 'any; vLLM of 2026', status: ['4xx'], words: /maximum context length|context length is only/i },
  ],
  /** 404: the hosted service, vLLM, Ollama. 400: llama.cpp's router, LM Studio, the LiteLLM proxy. */
  unknown_model: [
    { of: 'the service', status: [400, 404], code: 'DeploymentNotFound' },
    { of: 'any', status: [400, 404], code: 'model_not_found' },
    { of: 'any', status: [400, 404], words: NO_MODEL },
    { of: 'any', status: [400, 404], words: NO_SUCH_MODEL },
    {
      of: 'any',
      status: [400, 404],
      words: /^[`'"]?[^\s`'"]{1,200}[`'"]? is not a valid model( id| name)?[.!]?$/i,
    },
    { of: 'any', status: [400, 404], words: /^model (does )?not exist\b/i },
    {
      of: 'LM Studio',
      status: [400, 404],
      words: /^(invalid model (identifier|id)|failed to load model|no models? loaded)\b/i,
    },
    { of: 'LiteLLM', status: [400, 404], words: /\binvalid model name passed\b/i },
    { of: 'any', status: [404], words: /\bmodel\b.*\b(does not exist|not found)\b/i },
  ],
  no_credit: [
    { of: 'any', status: [402] },
    { of: 'any', status: ['4xx', '5xx'], code: 'insufficient_quota' },
    { of: 'any', status: ['4xx', '5xx'], type: 'insufficient_quota' },
    { of: 'LiteLLM, with 400 or 429', status: ['4xx', '5xx'], type: 'budget_exceeded' },
  ],
} satisfies Record<string, readonly Saying[]>;

export const means =
  (what: keyof typeof SAYINGS) =>
  (error: ServiceError): boolean =>
    SAYINGS[what].some((saying) => isSaid(saying, error));

function isSaid({ status, code, type, words }: Saying, error: ServiceError): boolean {
  const family = `${Math.floor(error.status / 100)}xx`;
  return (
    status.some((each) => each === error.status || each === family) &&
    (code === undefined || code === error.code) &&
    (type === undefined || type === error.type) &&
    (words === undefined || words.test(error.message))
  );
}

/** What a user can do about what a server does, with the options of servers that many run. */
export const ADVICE = {
  starved:
    'Set limits.concurrency to what the server takes at once, or have it take more (llama.cpp: --threads-http, --parallel)',
  late: 'Set limits.concurrency to what the server takes at once, have it take more (llama.cpp: --parallel), or raise limits.timeout_seconds',
  no_room:
    'No attempt is used up by it. Give the server a larger context (llama.cpp: --ctx-size, which its slots share), or lower limits.concurrency',
  short_usage:
    'the service counts far fewer tokens than the prompts or the choices of a request have, as if it counted the first alone: ' +
    'such requests are counted here, and marked estimated (limits.prompts_per_request: 1 avoids it, without answer.votes)',
  prompt_cut:
    'the service has read far fewer tokens than a prompt has: it cuts prompts that are too long for it, and answers all the same; ' +
    'those rows are marked prompt_cut. Give it a larger context (llama.cpp: --ctx-size, which its slots share)',
  fewer_choices:
    'The server gives fewer choices than answer.votes asks for: lower answer.votes or take it out of the job (llama.cpp gives as many as it has slots, --parallel, and one before December 2025).',
} as const;
