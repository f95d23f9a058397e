import * as z from 'zod';
import type { Json, Parameters } from '../model.js';
import { completions, type Operation } from '../service/operation.js';
import { requestParametersSchema } from '../service/parameters.js';
import type { Style } from './refusal.js';

/** A JSON object. */
export type Body = { readonly [field: string]: Json };

/** What a request says, in whatever form its operation has its prompts. */
interface Asked extends Parameters {
  readonly prompts: readonly string[];
  readonly model?: string;
  readonly stream?: boolean | null;
  /** Of plain servers only. */
  readonly stream_options?: { readonly include_usage?: boolean } | null;
}

/** The service's side of an operation: what it takes, and the form in which it answers. */
export interface EmulatedOperation {
  readonly operation: Operation;
  /** Its requests: every field, with type and range, and no other. */
  readonly requests: Readonly<Record<Style, z.ZodType<Asked>>>;
  /** What its answers call themselves, and what their ids begin with. */
  readonly object: string;
  readonly idPrefix: string;
  /** The text in a choice, whole or one piece of a stream; `null` where the filter left nothing. */
  content(text: string | null): Body;
}

/** What requests of every operation have beside their parameters. */
const common = requestParametersSchema.extend({
  model: z.string().exactOptional(),
  stream: z.boolean().nullable().exactOptional(),
});

/** Fields that the API versions of the service do not know yet, and plain servers do. */
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

/** All operations that the emulator answers. */
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
