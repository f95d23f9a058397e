import type * as z from 'zod';
import type { DeepReadonly } from '../account/untrusted.js';
import type { Environment } from '../config/environment.js';
import { readJobFile } from '../config/job-file.js';
import { invalidJob } from '../config/job-problem.js';
import { jobSchema, type NamedJob } from '../config/job-schema.js';
import { UsageError } from '../core/errors.js';
import type { Json } from '../core/model.js';
import { type AnswerRead, type AnswerSchema, isAnswerSchema, jsonSchemaOf, readBy } from './answer-schema.js';
import { kindOf } from './rows.js';

/** The fields of a job file, with unit and default as in `docs/job.schema.json`. */
type Fields = DeepReadonly<z.input<typeof jobSchema>>;
type FileAnswer = NonNullable<Fields['answer']>;
type OfJson = Extract<FileAnswer, { readonly json: unknown }>;

/** The `answer` of a job: `labels`, `number`, or `json` with a JSON Schema or the schema of a library. */
export type AnswerDefinition =
  | Exclude<FileAnswer, OfJson>
  | (Omit<OfJson, 'json'> & { readonly json: AnswerSchema | { readonly [key: string]: Json } });

type FieldOf<T> = T extends unknown ? keyof T : never;
/** Refuses fields that no answer has, which TypeScript only checks when the type is not inferred. */
type NoOther<A> = { readonly [K in Exclude<keyof A, FieldOf<AnswerDefinition>>]: never };

/**
 * A job as an object: the fields of a job file, with these differences: `input.path` is optional when `run`
 * and `check` get their rows as an option, `name` is `job` by default, and `answer.json` may be the schema of
 * a library.
 */
export type JobDefinition<A extends AnswerDefinition = AnswerDefinition> = Omit<
  Fields,
  'input' | 'answer'
> & {
  readonly input?: Partial<Fields['input']>;
  readonly answer?: A & NoOther<A>;
};

/**
 * The type of `row.answer` when there is an answer: one of the labels, a list of them with `multiple: true`,
 * a number, the output type of the schema, or any JSON for a JSON Schema; the text without `answer`.
 */
export type AnswerOf<A> = [A] extends [never]
  ? string
  : A extends { readonly labels: infer L; readonly multiple: true }
    ? readonly LabelOf<L>[]
    : A extends { readonly labels: infer L }
      ? LabelOf<L>
      : A extends { readonly number: unknown }
        ? number
        : A extends { readonly json: AnswerSchema<infer Output> }
          ? Output
          : Json;

type LabelOf<L> = L extends readonly (infer Name)[] ? Name : keyof L & string;

/** A checked job, made by {@link defineJob}. `A` is the type of its answers. */
export interface Job<A = Json> {
  /** Name in summaries and logs. */
  readonly name: string;
  /** The fields with defaults filled in; `answer.json` is a JSON Schema. */
  readonly fields: NamedJob;
  /** Turns an answer of the output into `row.answer`. */
  readonly read: AnswerRead<A>;
}

/**
 * Checks a job written as an object. The result can be run any number of times, also concurrently.
 *
 * ```ts
 * const job = defineJob({
 *   service: { deployment: 'lm-35-turbo-instruct' },
 *   prompt: 'Is this review positive or negative?\n{{ review }}\nSentiment:',
 *   answer: { labels: ['positive', 'negative'] },
 * });
 * ```
 * @throws UsageError `job_invalid`, with a line for each wrong field; `schema_invalid` for a schema without a
 * JSON Schema
 */
export function defineJob<const A extends AnswerDefinition = never>(
  definition: JobDefinition<A>,
): Job<AnswerOf<A>>;
export function defineJob(definition: JobDefinition): Job<unknown> {
  if (!isGroup(definition)) {
    throw new UsageError(
      'job_invalid',
      `defineJob needs the fields of a job as an object, got ${kindOf(definition)}`,
      'For a job file give its path to run or check.',
    );
  }
  const { answer, input = {} } = definition;
  const schema = isGroup(answer) && 'json' in answer && isAnswerSchema(answer.json) ? answer.json : null;
  const json = schema && jsonSchemaOf(schema);
  const parsed = jobSchema.safeParse(
    {
      ...definition,
      input: isGroup(input) ? { path: '-', ...input } : input,
      ...(json && { answer: { ...answer, json } }),
    },
    { reportInput: true },
  );
  if (!parsed.success) throw invalidJob(parsed.error, () => 'defineJob');
  const { name = 'job' } = parsed.data;
  return { name, fields: { ...parsed.data, name }, read: schema && json ? readBy(schema, json) : asRecorded };
}

/** Callers in JavaScript have no types. */
const isGroup = <T>(value: T): value is T & object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const asRecorded: AnswerRead<unknown> = (recorded) => ({ answer: recorded });

/** @throws UsageError for an invalid job file */
export function jobOf<A>(
  job: Job<A> | string,
  environment: Environment,
  set?: readonly string[],
): Job<unknown> {
  if (typeof job !== 'string') {
    // Callers in JavaScript have no types.
    if (job?.fields === undefined)
      throw new UsageError(
        'bad_job',
        `the job is ${kindOf(job)}, and not made by defineJob`,
        'Give what defineJob returns, or the path of a job file.',
      );
    return job;
  }
  const fields = readJobFile(job, environment, set);
  return { name: fields.name, fields, read: asRecorded };
}
