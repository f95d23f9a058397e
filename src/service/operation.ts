import type { Json } from '../model.js';

/** What a model is made for, as the documentation of the service says it. */
export type ModelType = 'completions' | 'conversation';

/**
 * How prompts become a request, and a choice of its answer a text. What operations have in common (parameters, usage, filter
 * results, errors) is not in here. Nothing outside of this folder and of the emulator's knows which one is used.
 */
export interface Operation {
  /** As messages call it. */
  readonly name: string;
  /** The type of the models that answer it. */
  readonly models: ModelType;
  /** End of its address, behind the deployment or behind `/v1`. */
  readonly path: string;
  /** The fields of a request that carry its prompts. */
  prompts(prompts: readonly string[]): { readonly [field: string]: Json };
  /** The text of a choice; `null` where it has none. */
  text(choice: { readonly [field: string]: unknown }): string | null;
  /** Why a choice without a text is an answer of another operation; `null` where it is not. */
  otherForm(
    answer: { readonly [field: string]: unknown },
    choice: { readonly [field: string]: unknown },
  ): string | null;
}

/** A prompt that the model goes on with. */
export const completions: Operation = {
  name: 'completions',
  models: 'completions',
  path: 'completions',
  // One is sent as a text, because some servers take no list.
  prompts: ([first = '', ...others]) => ({ prompt: others.length === 0 ? first : [first, ...others] }),
  text: ({ text }) => (typeof text === 'string' ? text : null),
  otherForm: (answer, { message, delta }) => {
    const isChat =
      isObject(message) || isObject(delta) || String(answer['object'] ?? '').startsWith('chat.completion');
    return isChat
      ? 'the service answers in the form of the chat operation, with a message in place of a text'
      : null;
  },
};

/** All operations: a model of a type that none of them is for cannot be called. */
export const OPERATIONS: readonly Operation[] = [completions];

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
