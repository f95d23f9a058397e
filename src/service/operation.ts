import type { Json } from '../core/model.js';

/** As the documentation of the service names it. */
export type ModelType = 'completions' | 'conversation';

/**
 * How prompts become a request, and a choice a text. All else is common to operations. The endpoint names its
 * operation; only this folder and the emulator's know what it does.
 */
export interface Operation {
  readonly name: string;
  readonly models: ModelType;
  /** Most prompts in one call. */
  readonly promptsPerCall: number;
  /** Path after the deployment or after `/v1`. */
  readonly path: string;
  prompts(prompts: readonly string[]): { readonly [field: string]: Json };
  /** Null when the choice has no text. */
  text(choice: { readonly [field: string]: unknown }): string | null;
  /** Log probabilities of the choice's tokens, as the service gives them. */
  logprobs(choice: { readonly [field: string]: unknown }): unknown;
  /** Why a choice without a text belongs to another operation, or null. */
  otherForm(
    answer: { readonly [field: string]: unknown },
    choice: { readonly [field: string]: unknown },
  ): string | null;
}

export const completions: Operation = {
  name: 'completions',
  models: 'completions',
  promptsPerCall: 2048,
  path: 'completions',
  // A single prompt is sent as a string, because some servers accept no list.
  prompts: ([first = '', ...others]) => ({ prompt: others.length === 0 ? first : [first, ...others] }),
  text: ({ text }) => (typeof text === 'string' ? text : null),
  logprobs: ({ logprobs }) => logprobs,
  otherForm: (answer, { message, delta }) => {
    const isChat =
      isObject(message) || isObject(delta) || String(answer['object'] ?? '').startsWith('chat.completion');
    return isChat
      ? 'the service answers in the form of the chat operation, with a message in place of a text'
      : null;
  },
};

export const OPERATION_NAMES = ['completions'] as const;

const BY_NAME: Readonly<Record<(typeof OPERATION_NAMES)[number], Operation>> = { completions };

export const OPERATIONS: readonly Operation[] = Object.values(BY_NAME);

export const operationOf = ({ operation }: { readonly operation: keyof typeof BY_NAME }): Operation =>
  BY_NAME[operation];

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
