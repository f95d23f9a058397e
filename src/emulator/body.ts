import { randomUUID } from 'node:crypto';
import type { Json } from '../core/model.js';
import { MODELS } from '../service/catalogue.js';
import type { Completions } from './completion.js';
import type { Body, EmulatedOperation } from './operation.js';
import type { CompletionRequest } from './request.js';

export interface Envelope {
  readonly called: EmulatedOperation;
  readonly request: CompletionRequest;
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
}

export const envelopeOf = (
  called: EmulatedOperation,
  request: CompletionRequest,
  model: string,
): Envelope => ({
  called,
  request,
  id: `${called.idPrefix}${randomUUID().replaceAll('-', '')}`,
  created: Math.floor(Date.now() / 1000),
  model,
});

export function responseBody(completions: Completions, envelope: Envelope, filters: boolean): Body {
  const { called, request } = envelope;
  const choices = completions.choices.map((candidate, index) => ({
    ...called.choice(candidate, request),
    index,
    finish_reason: candidate.finishReason,
    ...(filters ? { content_filter_results: candidate.filter } : {}),
  }));
  const head = headOf(envelope, called.object.whole);
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
  envelope: Envelope,
  filters: boolean,
): Generator<Body[]> {
  const { called, request } = envelope;
  const usage = request.streamUsage;
  const head = headOf(envelope, called.object.part);
  const body = (choices: readonly Json[], more: Body = {}): Body => ({
    ...head,
    choices,
    ...(usage ? { usage: null } : {}),
    ...more,
  });
  if (filters) yield [body([], { prompt_filter_results: promptResults(completions) })];
  const steps = completions.choices.reduce((most, { pieces }) => Math.max(most, pieces.length), 0);
  for (let step = 0; step <= steps; step++) {
    yield completions.choices.flatMap((candidate, index): Body[] => {
      const { pieces, finishReason, filter } = candidate;
      if (step > pieces.length) return [];
      const isLast = step === pieces.length;
      const part = { ...called.part(candidate, step, request), finish_reason: isLast ? finishReason : null };
      const results = filters ? { content_filter_results: isLast ? filter : {} } : {};
      return [body([{ index, ...part, ...results }])];
    });
  }
  if (usage) yield [body([], { usage: called.usage(completions) })];
}

function headOf({ request: { tier }, id, created, model }: Envelope, object: string): Body {
  return { id, object, created, model, ...(tier === null ? {} : { service_tier: tier }) };
}

export function modelsBody(operations: readonly EmulatedOperation[], deployments: Iterable<string>): Body {
  const served = MODELS.filter(({ type }) => operations.some(({ models }) => models === type));
  const names = new Set([...served.map(({ id }) => id), ...deployments]);
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
