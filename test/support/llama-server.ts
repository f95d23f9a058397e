import { promptsOf, type ScriptedReply, type ScriptedRequest } from './scripted-service.js';

/**
 * How llama.cpp's own server answers `/v1/completions` and `/v1/chat/completions`: as two of its builds did when they were tried, and where nobody tried, as
 * their sources do.
 */
export interface LlamaServer {
  /** `b4748` is of February 2025, `v0.5.0` (b11146) of September 2026. */
  readonly build: 'b4748' | 'v0.5.0';
  /** Tokens of a slot's context. @default 4,096 */
  readonly context?: number;
  /** Slots (`--parallel`), and so choices that `v0.5.0` gives for a prompt. @default 4 */
  readonly slots?: number;
  /** Calls that come while the model is loaded. @default 0 */
  readonly loading?: number;
  /** Prompts that it cannot do, and says so with a 500 of which nobody knows the words. @default none */
  readonly fails?: RegExp;
}

/** What it generates where a request says nothing: as much as it can. */
const WITHOUT_END = 2048;

/** A word is a token here, and one is put before each prompt. */
export const tokensOf = (prompt: string): number => prompt.split(' ').length + 1;

/** What its template makes of a conversation. */
const templated = (messages: readonly { readonly role: string; readonly content: string }[]): string =>
  messages.map(({ role, content }) => `${role} ${content}`).join(' ');

/** A script that answers like a build of the server. Each answer is `re` and the first word of the prompt, or of the last message. */
export function llamaServer(server: LlamaServer): (request: ScriptedRequest) => ScriptedReply {
  const { build, context = 4096, slots = 4, loading = 0, fails } = server;
  return (request) => {
    const { body, text, total, url } = request;
    const isChat = url.includes('/chat/');
    if (total <= loading) return error(503, 'unavailable_error', 'Loading model');
    if (/\\ud[89a-f]/i.test(text)) return error(500, 'server_error', NO_PAIR);
    const refusal = build === 'b4748' ? refusedByOld(body) : refusedByNew(body, slots);
    if (refusal !== null) return refusal;

    const prompts = isChat
      ? [templated(body['messages'] as Parameters<typeof templated>[0])]
      : promptsOf(request);
    const said = isChat ? [request.prompt] : prompts;
    if (said.some((prompt) => fails?.test(prompt))) return error(500, 'server_error', 'cannot do that');
    const tooLong = prompts.find((prompt) => tokensOf(prompt) >= context);
    if (tooLong !== undefined && build === 'v0.5.0') {
      const n_prompt_tokens = tokensOf(tooLong);
      const message = `request (${n_prompt_tokens} tokens) exceeds the available context size (${context} tokens), try increasing it`;
      return error(400, 'exceed_context_size_error', message, { n_prompt_tokens, n_ctx: context });
    }
    const n = build === 'b4748' ? 1 : Number(body['n'] ?? 1);
    const answers = prompts
      .flatMap((prompt, i) => Array(n).fill({ prompt, about: said[i] ?? '' }))
      .map(({ prompt, about }, index) =>
        answer(
          body,
          prompt,
          index,
          server,
          isChat ? messageOf(about, request, build) : { text: ` re ${about.split(' ')[0]}` },
        ),
      );
    const [first] = answers;
    if (answers.length === 1) return { json: first };
    if (build === 'b4748') return { json: answers };
    // The usage stays that of the first choice of the first prompt.
    return { json: { ...first, choices: answers.flatMap(({ choices }) => choices) } };
  };
}

/** The end of the parser's message quotes the prompt. */
const NO_PAIR =
  '[json.exception.parse_error.101] parse error at line 1, column 21: syntax error while parsing value - invalid string: ' +
  "surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF; last read: '\"odd \\ud800 '";

type Body = ScriptedRequest['body'];

function refusedByOld(body: Body): ScriptedReply | null {
  if ((body['n'] ?? 1) !== 1) return error(500, 'server_error', 'Only one completion choice is allowed');
  // It does not look at the value.
  const field = ['best_of', 'echo', 'suffix'].find((name) => name in body);
  return field === undefined ? null : error(500, 'server_error', `Unsupported param: ${field}`);
}

function refusedByNew(body: Body, slots: number): ScriptedReply | null {
  const n = Number(body['n'] ?? 1);
  if (n >= 1 && n <= slots) return null;
  const message = `Field 'n': Value must be between 1 <= value <= ${slots}, but got ${n}`;
  return error(400, 'invalid_request_error', message);
}

/** No `refusal`. Only the newer build keeps to a schema, of which it here knows the property `answer`; the older says nothing. */
function messageOf(about: string, { body }: ScriptedRequest, build: LlamaServer['build']) {
  const text = `re ${about.split(' ')[0]}`;
  const content = build === 'v0.5.0' && 'response_format' in body ? JSON.stringify({ answer: text }) : text;
  return { message: { role: 'assistant', content } };
}

/** The answer to one prompt, before those of a request are put together. */
function answer(
  body: Body,
  prompt: string,
  index: number,
  { build, context = 4096 }: LlamaServer,
  said: { readonly text: string } | ReturnType<typeof messageOf>,
) {
  const text = 'text' in said ? said.text : said.message.content;
  const prompt_tokens = read(tokensOf(prompt), context);
  // The older build does not know the newer name.
  const limit = (build === 'v0.5.0' ? body['max_completion_tokens'] : undefined) ?? body['max_tokens'];
  // One token is generated before it looks at the limit.
  const completion_tokens = typeof limit === 'number' && limit >= 0 ? Math.max(1, limit) : WITHOUT_END;
  const total_tokens = prompt_tokens + completion_tokens;
  return {
    choices: [{ ...said, index, logprobs: logprobsOf(body, text), finish_reason: 'length' }],
    created: 1_700_000_000,
    model: build === 'b4748' ? body['model'] : 'model-q8_0.gguf',
    system_fingerprint: build,
    object: 'text' in said ? 'text_completion' : 'chat.completion',
    usage: {
      ...{ completion_tokens, prompt_tokens, total_tokens },
      ...(build === 'v0.5.0' && { prompt_tokens_details: { cached_tokens: 0 } }),
    },
    id: 'chatcmpl-scripted',
    timings: { prompt_n: prompt_tokens, predicted_n: completion_tokens },
  };
}

/** Of a prompt that is too long b4748 reads the end: blocks of half a context are left out in silence. */
function read(tokens: number, context: number): number {
  if (tokens < context) return tokens;
  const block = Math.floor(context / 2);
  return tokens - Math.floor((tokens - block) / block) * block;
}

/** In the form of the chat operation; of one token here. */
function logprobsOf(body: Body, token: string) {
  if (!(Number(body['logprobs'] ?? 0) > 0)) return null;
  const said = { id: 1, token, bytes: [...Buffer.from(token)], logprob: -0.5 };
  return { content: [{ ...said, top_logprobs: [said] }] };
}

const error = (code: number, type: string, message: string, more: object = {}): ScriptedReply => ({
  status: code,
  json: { error: { code, message, type, ...more } },
});
