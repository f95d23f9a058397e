import * as z from 'zod';
import { requestParametersSchema } from '../service/parameters.js';
import { logprobsAt } from './logprobs.js';
import type { EmulatedOperation } from './operation.js';
import { invalidRequest } from './refusal.js';
import { checked, commonOf, SENT, STREAM_OPTIONS } from './request.js';

const prompted = requestParametersSchema.extend({
  ...SENT,
  prompt: z.union([z.string(), z.array(z.string()).min(1).max(2048)]),
});

const REQUESTS = {
  service: prompted,
  /** With what plain servers accept and the API versions of the service do not yet have. */
  plain: prompted.extend({
    seed: z.int().nullable().exactOptional(),
    ...STREAM_OPTIONS,
  }),
};

const NO_CONVERSATION = {
  question: null,
  prefix: null,
  json: null,
  tier: null,
  reasoningTokens: 0,
  refusalRate: 0,
} as const;

export const completions: EmulatedOperation = {
  name: 'completions',
  models: 'completions',
  path: 'completions',
  idPrefix: 'cmpl-',
  object: { whole: 'text_completion', part: 'text_completion' },
  read(body, style) {
    const { prompt, echo, logprobs, ...fields } = checked(REQUESTS[style], body, 'completions');
    const common = commonOf(fields);
    const prompts = [prompt].flat();
    const suffix = fields.suffix ?? '';
    const bestOf = fields.best_of ?? common.n;
    checkChoices(common.n, bestOf, common.stream);
    return {
      ...common,
      ...NO_CONVERSATION,
      prompts,
      // The suffix counts for each prompt: the model reads it too.
      promptTokens(count) {
        const more = suffix === '' ? 0 : count(suffix);
        return prompts.map((text) => count(text) + more);
      },
      maxTokens: fields.max_tokens ?? 16,
      bestOf,
      echo: echo === true,
      logprobs: logprobs ?? null,
    };
  },
  choice: ({ text, logprobs }) => ({
    ...(text === null ? {} : { text }),
    logprobs: logprobs && { ...logprobs },
  }),
  part({ pieces, logprobs }, step) {
    const one = logprobsAt(logprobs, step);
    return { text: pieces[step] ?? '', logprobs: one && { ...one } };
  },
  usage: ({ promptTokens, completionTokens }) => ({
    // The service leaves the member out when the output is empty.
    ...(completionTokens > 0 ? { completion_tokens: completionTokens } : {}),
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
  }),
};

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
