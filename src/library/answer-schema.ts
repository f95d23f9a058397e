import { UsageError } from '../core/errors.js';
import { isObject } from '../core/json.js';
import type { Json } from '../core/model.js';

/**
 * A schema of a library that implements Standard Schema and Standard JSON Schema
 * (https://standardschema.dev), such as zod from 4.2 on, ArkType, or Valibot with `toStandardJsonSchema`.
 * `Output` is the type that it makes from an answer.
 */
export interface AnswerSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>;
    readonly jsonSchema: {
      readonly input: (options: { readonly target: string }) => Record<string, unknown>;
    };
  };
}

type Checked<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string }[] };

type Read<A> = { readonly answer: A } | { readonly problem: string };

/** Turns an answer of the output into what the caller of the job gets. */
export type AnswerRead<A> = (recorded: Json) => Read<A> | Promise<Read<A>>;

export const isAnswerSchema = (value: unknown): value is AnswerSchema =>
  // ArkType's schemas are functions.
  (typeof value === 'object' || typeof value === 'function') && value !== null && '~standard' in value;

/** @throws UsageError `schema_invalid` */
export function jsonSchemaOf({ '~standard': standard }: AnswerSchema): Record<string, unknown> {
  if (standard.jsonSchema === undefined) {
    throw new UsageError(
      'schema_invalid',
      `answer.json: this schema of ${standard.vendor} cannot write itself as a JSON Schema`,
      'Take a version with Standard JSON Schema (zod from 4.2 on), or give the JSON Schema itself.',
    );
  }
  try {
    return standard.jsonSchema.input({ target: 'draft-07' });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError(
      'schema_invalid',
      `answer.json cannot be written as a JSON Schema: ${why}`,
      'Describe what the model writes, and make something else of it with a transform.',
      { cause },
    );
  }
}

export function readBy<A>(
  { '~standard': { validate } }: AnswerSchema<A>,
  jsonSchema: { readonly required?: unknown },
): AnswerRead<A> {
  const { required } = jsonSchema;
  const needed = new Set(Array.isArray(required) ? required : []);
  const read = (checked: Checked<A>): Read<A> =>
    checked.issues === undefined
      ? { answer: checked.value }
      : { problem: checked.issues.map(({ message }) => message).join('; ') };
  return (recorded) => {
    // The record has a null for each property that the model left out.
    const written = isObject(recorded)
      ? Object.fromEntries(
          Object.entries(recorded).filter(([name, value]) => value !== null || needed.has(name)),
        )
      : recorded;
    const checked = validate(written);
    return checked instanceof Promise ? checked.then(read) : read(checked);
  };
}
