import type { Json } from '../core/model.js';
import type { ModelType } from '../service/operation.js';
import type { Candidate, Completions } from './completion.js';
import type { Logprobs } from './logprobs.js';
import type { OperationName, Style } from './refusal.js';
import type { CompletionRequest } from './request.js';

export type Body = { readonly [field: string]: Json };

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
  read(body: unknown, style: Style): CompletionRequest;
  /** The text of a choice, with its log probabilities. */
  choice(candidate: Candidate): Body;
  /** A token of a choice; `null` at the end of a stream. */
  part(token: string | null, logprobs: Logprobs | null): Body;
  usage(completions: Completions): Body;
}
