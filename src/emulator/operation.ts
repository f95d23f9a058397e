import type { Json } from '../core/model.js';
import type { ModelType } from '../service/operation.js';
import type { Candidate, Completions } from './completion.js';
import type { OperationName, Style } from './refusal.js';
import type { CompletionRequest } from './request.js';

export type Body = { readonly [field: string]: Json };

/** How the models of conversations answer. */
export interface Habits {
  /**
   * Tokens that each answer spends on reasoning. Above 0, the parameters that reasoning models do not know are
   * refused. @default 0
   */
  readonly reasoningTokens: number;
  /** Share of the answers, 0 to 1, that are refusals. @default 0 */
  readonly refusalRate: number;
}

/** How a request is read and an answer written. All else is common to operations. */
export interface EmulatedOperation {
  readonly name: OperationName;
  readonly models: ModelType;
  /** Path after the deployment or after `/v1`. */
  readonly path: string;
  readonly idPrefix: string;
  /** Names of an answer's form, whole and as a part of a stream. */
  readonly object: { readonly whole: string; readonly part: string };
  /** Checks every field, with type and range; unknown fields are refused. @throws Refusal */
  read(body: unknown, style: Style, habits: Habits): CompletionRequest;
  /** The text of a choice, with its log probabilities. */
  choice(candidate: Candidate, request: CompletionRequest): Body;
  /** A token of a choice; behind the last one, the end of its stream. */
  part(candidate: Candidate, step: number, request: CompletionRequest): Body;
  usage(completions: Completions): Body;
}
