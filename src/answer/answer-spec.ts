import * as z from 'zod';
import type { Json } from '../model.js';

const json: z.ZodType<Json> = z.json();
const texts = z.array(z.string()).readonly();
/** Choices that vote; absent where the first is taken. */
const votes = z.int().min(2).exactOptional();

/** How the answer column is read from a completion's text. It travels in queue entries under these names. */
export const answerSpecSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('text') }),
  z.strictObject({
    kind: z.literal('labels'),
    labels: texts,
    /** Other names of each label, in the order of the labels; absent where none has any. */
    synonyms: z.array(texts).readonly().exactOptional(),
    /** A text may name several labels, or say that none applies; absent where it is to name one. */
    multiple: z.literal(true).exactOptional(),
    /** How the record says how sure the model is; absent where it does not. */
    confidence: z.literal('logprobs').exactOptional(),
    votes,
    /** A label with less confidence is no answer; absent where every label is one. */
    abstainBelow: z.number().exactOptional(),
    /** When the run ends, labels are left out so that this share of the others is right, by the rows with gold. */
    abstainFor: z.number().exactOptional(),
  }),
  z.strictObject({
    kind: z.literal('number'),
    /** The least and the most that it may be; absent where there is no such bound. */
    min: z.number().exactOptional(),
    max: z.number().exactOptional(),
    /** It is a whole number. */
    integer: z.literal(true).exactOptional(),
    votes,
  }),
  z.strictObject({
    kind: z.literal('json'),
    schema: z.record(z.string(), json).readonly(),
    /** Text that is nearly JSON is mended; absent where it is not. */
    repair: z.literal(true).exactOptional(),
  }),
]);

export type AnswerSpec = Readonly<z.output<typeof answerSpecSchema>>;
