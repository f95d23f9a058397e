import * as z from 'zod';
import type { Json } from './model.js';

const json: z.ZodType<Json> = z.json();
const texts = z.array(z.string()).readonly();
const votes = z.int().min(2).exactOptional();

/** How the answer is read from a completion's text. Queue entries carry these names. */
export const answerSpecSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('text') }),
  z.strictObject({
    kind: z.literal('labels'),
    labels: texts,
    /** Other names of each label, in label order; absent when there are none. */
    synonyms: z.array(texts).readonly().exactOptional(),
    /** A text may name several labels, or say that none applies. */
    multiple: z.literal(true).exactOptional(),
    confidence: z.literal('logprobs').exactOptional(),
    votes,
    /** Labels with less confidence are no answer, 0 to 1. */
    abstainBelow: z.number().exactOptional(),
    /** Share, 0 to 1: at the end, labels are left out until so many of the rest are right (by gold rows). */
    abstainFor: z.number().exactOptional(),
  }),
  z.strictObject({
    kind: z.literal('number'),
    min: z.number().exactOptional(),
    max: z.number().exactOptional(),
    integer: z.literal(true).exactOptional(),
    votes,
  }),
  z.strictObject({
    kind: z.literal('json'),
    schema: z.record(z.string(), json).readonly(),
    /** Repair text that is nearly JSON. */
    repair: z.literal(true).exactOptional(),
  }),
]);

export type AnswerSpec = Readonly<z.output<typeof answerSpecSchema>>;
