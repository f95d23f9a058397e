import type { ServiceError } from './response.js';

/** What single servers say in words of their own. All that is given must match. */
interface Saying {
  readonly status: readonly (number | '4xx' | '5xx')[];
  readonly code?: string;
  readonly type?: string;
  /** They usually begin the message: a server may quote the prompt later on. */
  readonly words?: RegExp;
}

/** 404: the hosted service, vLLM, Ollama. 400: llama.cpp's router, LM Studio, the LiteLLM proxy. */
const NO_MODEL: Saying['status'] = [400, 404];

const SAYINGS = {
  other_operation: [
    { status: [400, 404], words: /does not work with the specified model|is (not )?a chat model/i },
    // vLLM: a base model, and one that was started for embeddings.
    {
      status: [400, 404, 501],
      words:
        /^as of transformers \S+ default chat template is no longer allowed\b|^the model does not support (chat )?completions api\b/i,
    },
  ],
  /** A field of the request: no pause mends that. */
  unsupported: [
    { status: [501] },
    // llama.cpp: "Unsupported param: suffix"; for embedding models "the current context does not logits computation".
    {
      status: ['5xx'],
      words:
        /^(unsupported (param|field|option|argument)|(this|the) \w+ does not support\b|the current context does not\b|only no \w+ is supported\b)/i,
    },
    // A reasoning model, to what only others take.
    { status: [400], code: 'unsupported_parameter' },
    { status: [400], code: 'unsupported_value' },
    // vLLM: 400. Text Generation Inference: 422.
    {
      status: [400, 422],
      words: /^(suffix|best_of|echo|logprobs|logit_bias) is not (currently )?supported\b/i,
    },
  ],
  /** The field with a JSON Schema, or the schema. */
  schema: [{ status: [400, 422, 501, 500], words: /\b(response_format|json_schema|json schema|grammar)\b/i }],
  /** A reasoning model, to a chat request with `max_tokens`. vLLM names both where the prompt leaves no room for them. */
  newer_limit: [
    {
      status: [400],
      words: /^(?!.{0,80}\btoo large\b).{0,80}\bmax_tokens\b.{0,120}\bmax_completion_tokens\b/i,
    },
  ],
  too_many_choices: [
    // llama.cpp: before December 2025 it gave one; since then one for each slot, refused in older and newer words.
    { status: ['5xx'], words: /^only one completion choice is allowed\b/i },
    {
      status: [400],
      words: /^(field '(n|n_cmpl)': value must be between|n_cmpl cannot be greater than)\b/i,
    },
  ],
  /** To a call of the flex tier: not the quota, and at no cost. */
  no_capacity: [
    { status: [498] },
    { status: [429, 503], code: 'resource_unavailable' },
    { status: [429, 503], type: 'resource_unavailable' },
    { status: [429, 503], code: 'capacity_exceeded' },
    {
      status: [429, 503],
      words:
        /^.{0,80}\b(resource[ _]unavailable|(capacity|flex)\b.{0,40}\b(exceeded|capacity|unavailable))\b/i,
    },
  ],
  /** A model without the tier, or a server that does not know the field. */
  no_flex: [{ status: [400, 422, 501], words: /\bservice_tier\b|^.{0,120}\bflex\b/i }],
  /** llama.cpp of 2026 and 2025, to all calls when they outgrow the context that its slots share. */
  out_of_room: [
    {
      status: ['5xx'],
      words: /^(context size has been exceeded|input prompt is too big compared to kv size)\b/i,
    },
  ],
  loading: [
    // llama.cpp.
    { status: [503], type: 'unavailable_error' },
    { status: [503], words: /\bloading model\b|\bmodel is loading\b/i },
  ],
  too_long: [
    // llama.cpp, with 400 or 500.
    { status: ['4xx', '5xx'], type: 'exceed_context_size_error' },
    { status: ['4xx', '5xx'], words: /exceeds the available context size/i },
    { status: ['4xx'], code: 'context_length_exceeded' },
    // vLLM of 2026 says "the model's context length is only".
    { status: ['4xx'], words: /maximum context length|context length is only/i },
  ],
  unknown_model: [
    { status: NO_MODEL, code: 'DeploymentNotFound' },
    { status: NO_MODEL, code: 'model_not_found' },
    // Exactly one name between the words, so that a message that begins with a prompt does not match.
    {
      status: NO_MODEL,
      words:
        /^(the )?(requested )?(model|deployment):? ([`'"][^`'"]{1,200}[`'"]|[^\s`'"]{1,200}) ((was |is )?not found|does not exist|is not available|(is )?not loaded)\b/i,
    },
    // Nothing may follow the name: `Unsupported model parameter: suffix` does not match.
    {
      status: NO_MODEL,
      words:
        /^(no such|unknown|unsupported|invalid|(could|can) ?not find)( the)? (model|deployment)( name| id)?:? [`'"]?(?!param|type|input|output|arg|option|setting|config|format|version|field|value|prompt|error|re(sponse|quest)|kwargs|name|id\b)[^\s`'"]{1,200}[`'"]?[.!]?$/i,
    },
    { status: NO_MODEL, words: /^[`'"]?[^\s`'"]{1,200}[`'"]? is not a valid model( id| name)?[.!]?$/i },
    { status: NO_MODEL, words: /^model (does )?not exist\b/i },
    // LM Studio.
    {
      status: NO_MODEL,
      words: /^(invalid model (identifier|id)|failed to load model|no models? loaded)\b/i,
    },
    // LiteLLM.
    { status: NO_MODEL, words: /\binvalid model name passed\b/i },
    { status: [404], words: /\bmodel\b.*\b(does not exist|not found)\b/i },
  ],
  no_credit: [
    { status: [402] },
    { status: ['4xx', '5xx'], code: 'insufficient_quota' },
    { status: ['4xx', '5xx'], type: 'insufficient_quota' },
    // LiteLLM, with 400 or 429.
    { status: ['4xx', '5xx'], type: 'budget_exceeded' },
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
