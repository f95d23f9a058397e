import type { Json } from '../core/model.js';
import { CALLABLE_MODEL_IDS } from '../service/catalogue.js';
import type { Candidate, Completions } from './completion.js';
import { type Logprobs, sliceOf } from './logprobs.js';
import type { Body, EmulatedOperation } from './operation.js';

export interface Envelope {
  readonly called: EmulatedOperation;
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
}

export function responseBody(completions: Completions, envelope: Envelope, filters: boolean): Body {
  const choices = completions.choices.map(({ text, finishReason, logprobs, filter }, index) => ({
    ...envelope.called.content(text),
    index,
    finish_reason: finishReason,
    logprobs: jsonOf(logprobs),
    ...(filters ? { content_filter_results: filter } : {}),
  }));
  const { called, id, created, model } = envelope;
  const head = { id, object: called.object, created, model };
  const usage = usageOf(completions);
  return filters
    ? { ...head, prompt_filter_results: promptResults(completions), choices, usage }
    : { ...head, choices, usage };
}

/**
 * One group of bodies per generated token, so that groups can be paced. Filter results of the prompts come
 * first, in a body without choices; each choice ends with an empty text.
 */
export function* streamBodies(
  completions: Completions,
  { called, id, created, model }: Envelope,
  filters: boolean,
  usage: boolean,
): Generator<Body[]> {
  const body = (choices: readonly Json[], more: Body = {}): Body => ({
    id,
    object: called.object,
    created,
    model,
    choices,
    ...(usage ? { usage: null } : {}),
    ...more,
  });
  if (filters) yield [body([], { prompt_filter_results: promptResults(completions) })];
  const steps = completions.choices.reduce((most, { pieces }) => Math.max(most, pieces.length), 0);
  for (let step = 0; step <= steps; step++) {
    yield completions.choices.flatMap((candidate, index): Body[] => {
      const part = partOf(candidate, step, called);
      if (part === null) return [];
      const results = part.finish_reason === null ? {} : candidate.filter;
      return [body([{ index, ...part, ...(filters ? { content_filter_results: results } : {}) }])];
    });
  }
  if (usage) yield [body([], { usage: usageOf(completions) })];
}

function partOf({ pieces, logprobs, finishReason }: Candidate, step: number, called: EmulatedOperation) {
  const piece = pieces[step];
  if (piece !== undefined) {
    return {
      ...called.content(piece),
      finish_reason: null,
      logprobs: logprobs && jsonOf(sliceOf(logprobs, step, step + 1)),
    };
  }
  return step === pieces.length
    ? { ...called.content(''), finish_reason: finishReason, logprobs: null }
    : null;
}

export function modelsBody(deployments: Iterable<string>): Body {
  const names = new Set([...CALLABLE_MODEL_IDS, ...deployments]);
  const data = [...names].map((id) => ({
    id,
    object: 'model',
    created: 1_669_766_400,
    owned_by: 'emulator',
  }));
  return { object: 'list', data };
}

function usageOf({ promptTokens, completionTokens }: Completions): Body {
  return {
    // The service leaves the member out when the output is empty.
    ...(completionTokens > 0 ? { completion_tokens: completionTokens } : {}),
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
  };
}

function promptResults({ promptFilters }: Completions): Json {
  return promptFilters.map((results, index) => ({ prompt_index: index, content_filter_results: results }));
}

const jsonOf = (logprobs: Logprobs | null): Json => (logprobs === null ? null : { ...logprobs });
