import * as z from 'zod';
import type { Json, Parameters } from '../core/model.js';
import { completions, type Operation } from '../service/operation.js';
import { requestParametersSchema } from '../service/parameters.js';
import type { Style } from './refusal.js';

export type Body = { readonly [field: string]: Json };

interface RequestFields extends Parameters {
  readonly logprobs?: number | null;
  readonly prompts: readonly string[];
  readonly model?: string;
  readonly stream?: boolean | null;
  /** Plain servers only. */
  readonly stream_options?: { readonly include_usage?: boolean } | null;
}

export interface EmulatedOperation {
  readonly operation: Operation;
  /** Every field, with type and range; unknown fields are refused. */
  readonly requests: Readonly<Record<Style, z.ZodType<RequestFields>>>;
  readonly object: string;
  readonly idPrefix: string;
  /** The text of a choice, whole or one piece of a stream; `null` when the filter left nothing. */
  content(text: string | null): Body;
}

const common = requestParametersSchema.extend({
  model: z.string().exactOptional(),
  stream: z.boolean().nullable().exactOptional(),
});

/** Fields that plain servers accept and the API versions of the service do not yet have. */
const PLAIN = {
  seed: z.int().nullable().exactOptional(),
  stream_options: z.strictObject({ include_usage: z.boolean().exactOptional() }).nullable().exactOptional(),
};

const prompted = common.extend({
  prompt: z.union([z.string(), z.array(z.string()).min(1).max(2048)]),
});

const withPrompts = <Fields extends { readonly prompt: string | readonly string[] }>({
  prompt,
  ...fields
}: Fields) => ({ ...fields, prompts: [prompt].flat() });

export const EMULATED: readonly EmulatedOperation[] = [
  {
    operation: completions,
    requests: {
      service: prompted.transform(withPrompts),
      plain: prompted.extend(PLAIN).transform(withPrompts),
    },
    object: 'text_completion',
    idPrefix: 'cmpl-',
    content: (text) => (text === null ? {} : { text }),
  },
];
