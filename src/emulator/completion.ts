import type { Model } from '../service/catalogue.js';
import { type Candidate, generate, type Workshop } from './candidate.js';
import { type FilterReport, isBlocked, judge } from './filter.js';
import { invalidRequest, promptBlocked } from './refusal.js';
import type { CompletionRequest } from './request.js';

/** What one call produced, before it becomes a body. */
export interface Completions {
  readonly promptFilters: readonly FilterReport[];
  /** In the order of their `index`: prompt × n + j. */
  readonly choices: readonly Candidate[];
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Tokens of the longest candidate: candidates are generated side by side, so this is what takes time. */
  readonly longest: number;
}

/** Tokens of each prompt, with the suffix that the model reads as well. */
export function promptTokensOf(request: CompletionRequest, { tokenizer }: Workshop): number[] {
  const suffix = request.suffix === '' ? 0 : tokenizer.count(request.suffix);
  return request.prompts.map((prompt) => tokenizer.count(prompt) + suffix);
}

/**
 * Answers a request. The result depends on nothing but the arguments.
 * @param promptTokens of {@link promptTokensOf}
 * @param filters whether the API version reports filter results; a blocked prompt is refused either way
 * @throws Refusal when a prompt does not fit the context window or is blocked
 */
export function complete(
  request: CompletionRequest,
  promptTokens: readonly number[],
  model: Model,
  filters: boolean,
  workshop: Workshop,
): Completions {
  for (const tokens of promptTokens) checkContextWindow(tokens, request.maxTokens, model);

  const promptFilters = request.prompts.map((prompt) =>
    judge(prompt, workshop.filter.prompts, workshop.seed),
  );
  const blocked = promptFilters.find(isBlocked);
  if (blocked) throw promptBlocked(filters ? blocked : null);

  const candidates = request.prompts.map((prompt) =>
    Array.from({ length: request.bestOf }, (_, index) => generate(prompt, index, request, workshop)),
  );
  const tokens = candidates.flat().map((candidate) => candidate.tokens);
  return {
    promptFilters,
    choices: candidates.flatMap((ofPrompt) => ofPrompt.slice(0, request.n)),
    promptTokens: sum(promptTokens),
    completionTokens: sum(tokens),
    longest: tokens.reduce((most, count) => Math.max(most, count), 0),
  };
}

function checkContextWindow(promptTokens: number, maxTokens: number, model: Model): void {
  const requested = promptTokens + maxTokens;
  if (requested <= model.contextWindow) return;
  throw invalidRequest(
    `This model's maximum context length is ${model.contextWindow} tokens, however you requested ${requested} ` +
      `tokens (${promptTokens} in your prompt; ${maxTokens} for the completion). Please reduce your prompt; or ` +
      'completion length.',
  );
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
