import type { Json } from '../core/model.js';
import { checkedChat, type Format, type Message, textOf } from './chat-request.js';
import type { Candidate } from './completion.js';
import { type Logprobs, logprobsAt } from './logprobs.js';
import type { EmulatedOperation } from './operation.js';
import { type CompletionRequest, commonOf } from './request.js';

export const chat: EmulatedOperation = {
  name: 'chat',
  models: 'conversation',
  path: 'chat/completions',
  idPrefix: 'chatcmpl-',
  object: { whole: 'chat.completion', part: 'chat.completion.chunk' },
  read(body, _style, { reasoningTokens, refusalRate }) {
    const request = checkedChat(body, reasoningTokens > 0);
    const { messages, logprobs, top_logprobs, service_tier, response_format, ...fields } = request;
    const texts = messages.map((one) =>
      [one.role, textOf(one), 'name' in one ? (one.name ?? []) : []].flat(),
    );
    const common = commonOf(fields);
    return {
      ...common,
      prompts: [messages.map(textOf).join('\n\n')],
      question: questionIn(messages),
      promptTokens: (count) => [
        texts.flat().reduce((sum, text) => sum + count(text), REPLY + texts.flat().length + texts.length),
      ],
      prefix: (encode) =>
        texts.flatMap((ofOne) => [...ofOne.flatMap((text) => [MARK, ...encode(text)]), MARK]),
      maxTokens: fields.max_completion_tokens ?? fields.max_tokens ?? null,
      bestOf: common.n,
      echo: false,
      logprobs: logprobs === true ? (top_logprobs ?? 0) : null,
      json: jsonOf(response_format),
      tier: service_tier === 'auto' ? 'default' : (service_tier ?? 'default'),
      reasoningTokens,
      refusalRate,
    };
  },
  choice(candidate, { logprobs: top }) {
    const { text, isRefusal, finishReason } = candidate;
    const message = { role: 'assistant', content: null, refusal: null };
    // The filter leaves nothing of a blocked text.
    if (finishReason === 'content_filter') return { message, logprobs: null };
    return {
      message: { ...message, [isRefusal ? 'refusal' : 'content']: text },
      logprobs: tokenwise(candidate, candidate.logprobs, top),
    };
  },
  part(candidate, step, { logprobs: top }) {
    const piece = candidate.pieces[step];
    const role = step === 0 ? { role: 'assistant' } : {};
    const delta =
      piece === undefined ? role : { ...role, [candidate.isRefusal ? 'refusal' : 'content']: piece };
    return { delta, logprobs: tokenwise(candidate, logprobsAt(candidate.logprobs, step), top) };
  },
  usage: ({ promptTokens, completionTokens, cachedTokens, reasoningTokens }) => ({
    completion_tokens: completionTokens,
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
  }),
};

/** A message is framed by tokens of its own, one before each of its texts and one at its end; so is the reply. */
const MARK = -1;
const REPLY = 3;

/** The system's messages, and those of the user that nobody has answered yet. */
function questionIn(messages: readonly Message[]): string {
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const answered = messages.slice(0, Math.max(0, last)).findLastIndex(({ role }) => role === 'assistant');
  return messages
    .filter(({ role }, index) => isSystem(role) || (role === 'user' && index > answered))
    .map(textOf)
    .join('\n\n');
}

const isSystem = (role: string): boolean => role === 'system' || role === 'developer';

function jsonOf(asked: Format | undefined): CompletionRequest['json'] {
  switch (asked?.type) {
    case 'json_schema':
      return asked.json_schema.schema ?? 'any';
    case 'json_object':
      return 'any';
    default:
      return null;
  }
}

/** @param top most alternatives that a token lists */
function tokenwise({ isRefusal }: Candidate, logprobs: Logprobs | null, top: number | null): Json {
  if (logprobs === null || top === null) return null;
  const entry = (token: string, logprob: number | null) => ({
    token,
    logprob,
    bytes: [...Buffer.from(token)],
  });
  const entries = logprobs.tokens.map((token, index) => ({
    ...entry(token, logprobs.token_logprobs[index] ?? null),
    top_logprobs: Object.entries(logprobs.top_logprobs[index] ?? {})
      .sort(([, a], [, b]) => b - a)
      .slice(0, top)
      .map(([one, logprob]) => entry(one, logprob)),
  }));
  return isRefusal ? { content: null, refusal: entries } : { content: entries, refusal: null };
}
