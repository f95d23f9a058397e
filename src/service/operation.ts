import type { Json } from '../model.js';

/** As the documentation of the service names it. */
export type ModelType = 'completions' | 'conversation';

/**
 * Turns prompts into a request, and a choice into a text. All else is common to operations, and only this
 * folder and the emulator's know which one is used.
 */
export interface Operation {
  readonly name: string;
  readonly models: ModelType;
  /** Path after the deployment or after `/v1`. */
  readonly path: string;
  prompts(prompts: readonly string[]): { readonly [field: string]: Json };
  /** Null when the choice has no text. */
  text(choice: { readonly [field: string]: unknown }): string | null;
  /** Why a choice without a text belongs to another operation, or null. */
  otherForm(
    answer: { readonly [field: string]: unknown },
    choice: { readonly [field: string]: unknown },
  ): string | null;
}

export const completions: Operation = {
  name: 'completions',
  models: 'completions',
  path: 'completions',
  // A single prompt is sent as a string, because some servers accept no list.
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

export const OPERATIONS: readonly Operation[] = [completions];

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
