import type { Json } from '../model.js';
import { completions, type Operation } from '../service/operation.js';
import {
  type Body,
  boolean,
  type Check,
  integer,
  logitBias,
  number,
  optional,
  string,
  strings,
} from './checks.js';
import { invalidRequest } from './refusal.js';

/** The service's side of an operation: what it takes, and the form in which it answers. */
export interface EmulatedOperation {
  readonly operation: Operation;
  /** Every field of its requests. */
  readonly checks: ReadonlyMap<string, Check>;
  /** @throws Refusal when a request that passed the checks has none */
  promptsOf(body: Body): string[];
  /** What its answers call themselves, and what their ids begin with. */
  readonly object: string;
  readonly idPrefix: string;
  /** The text in a choice, whole or one piece of a stream; `null` where the filter left nothing. */
  content(text: string | null): Body;
}

/** All operations that the emulator answers. */
export const EMULATED: readonly EmulatedOperation[] = [
  {
    operation: completions,
    checks: new Map([
      ['model', string],
      ['prompt', strings(2048)],
      ['max_tokens', optional(integer(0))],
      ['temperature', optional(number(0, 2))],
      ['top_p', optional(number(0, 1))],
      ['n', optional(integer(1, 128))],
      ['best_of', integer(1, 128)],
      ['logprobs', optional(integer(0, 5))],
      ['echo', optional(boolean)],
      ['suffix', optional(string)],
      ['stop', optional(strings(4))],
      ['presence_penalty', number(-2, 2)],
      ['frequency_penalty', number(-2, 2)],
      ['logit_bias', optional(logitBias)],
      ['user', string],
      ['stream', optional(boolean)],
    ]),
    promptsOf: ({ prompt }) => {
      if (prompt === undefined) throw invalidRequest("'prompt' is a required property");
      return texts(prompt);
    },
    object: 'text_completion',
    idPrefix: 'cmpl-',
    content: (text) => (text === null ? {} : { text }),
  },
];

/** A string, or an array of strings, as an array. */
export function texts(value: Json): string[] {
  return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === 'string');
}
