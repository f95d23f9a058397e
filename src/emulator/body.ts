import type { Json } from '../core/model.js';
import { CALLABLE_MODEL_IDS } from '../service/catalogue.js';
import type { Candidate, Completions } from './completion.js';
import { sliceOf } from './logprobs.js';
import type { Body, EmulatedOperation } from './operation.js';

export interface Envelope {
  readonly called: EmulatedOperation;
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
}

export function responseBody(completions: Completions, envelope: Envelope, filters: boolean): Body {
  const { called, id, created, model } = envelope;
  const choices = completions.choices.map((candidate, index) => ({
    ...called.choice(candidate),
    index,
    finish_reason: candidate.finishReason,
    ...(filters ? { content_filter_results: candidate.filter } : {}),
  }));
  const head = { id, object: called.object.whole, created, model };
  const usage = called.usage(completions);
  return filters
    ? { ...head, prompt_filter_results: promptResults(completions), choices, usage }
    : { ...head, choices, usage };
}

/**
 * One group of bodies per generated token, so that groups can be paced. Filter results of the prompts come
 * first, in a body without choices; each choice ends without a token.
 */
export function* streamBodies(
  completions: Completions,
  { called, id, created, model }: Envelope,
  filters: boolean,
  usage: boolean,
): Generator<Body[]> {
  const body = (choices: readonly Json[], more: Body = {}): Body => ({
    id,
    object: called.object.part,
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
  if (usage) yield [body([], { usage: called.usage(completions) })];
}

function partOf({ pieces, logprobs, finishReason }: Candidate, step: number, called: EmulatedOperation) {
  const piece = pieces[step];
  if (piece !== undefined) {
    return { ...called.part(piece, logprobs && sliceOf(logprobs, step, step + 1)), finish_reason: null };
  }
  return step === pieces.length ? { ...called.part(null, null), finish_reason: finishReason } : null;
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

function promptResults({ promptFilters }: Completions): Json {
  return promptFilters.map((results, index) => ({ prompt_index: index, content_filter_results: results }));
}
