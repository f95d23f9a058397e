import * as z from 'zod';
import type { Budget } from '../budget/budget.js';
import { parseJson } from '../json.js';
import type { AnswerSpec, Parameters } from '../model.js';
import { type EndpointSpec, endpointSpecSchema } from '../service/endpoint-spec.js';
import { parametersSchema, requestParametersSchema } from '../service/parameters.js';

/** A row as it travels through the queue: what is sent to the service, and nothing of the input beside it. */
export interface ChunkRow {
  readonly row: number;
  readonly prompt: string;
  /** Overrides of this row on the chunk's parameters. */
  readonly parameters: Parameters | null;
}

/** What a run may still be billed, as its workers must know it. */
export interface ChunkBudget extends Budget {
  /**
   * Rows in flight when this execution began: orphaned calls of an earlier one, hardly any of which will be heard of
   * again. So they are waited for only while the sums of the run move.
   */
  readonly orphaned: number;
}

/** What a job does about answers that do not fit (`answer.on_invalid`), as its workers must know it. */
export interface Asks {
  /** By what an answer is read. */
  readonly answer: AnswerSpec;
  /** How often a row is asked again, at most. */
  readonly again: number;
  /** Template of the follow-up prompt; null for the default. */
  readonly prompt: string | null;
  /** Asked last of all, with the prompt itself; null where there is none. It is at the same address. */
  readonly deployment: string | null;
}

/** One queue entry: consecutive rows of a run, with all that a worker on another machine needs. No address, no key. */
export interface Chunk {
  readonly run: string;
  readonly execution: number;
  readonly first: number;
  readonly endpoint: EndpointSpec;
  /** Rows that may share one request. */
  readonly promptsPerRequest: number;
  readonly parameters: Parameters;
  /** Null where the job has none. */
  readonly budget: ChunkBudget | null;
  /** A row of whose call nobody knows the end is not called again: it ends `failed`. */
  readonly hold: boolean;
  /** Null where an answer that does not fit stays as it is. */
  readonly asks: Asks | null;
  readonly rows: readonly ChunkRow[];
}

/** What BullMQ stores of a chunk. */
export interface ChunkData {
  readonly v: 1;
  readonly run: string;
  readonly x: number;
  readonly first: number;
  /**
   * Everything else as one encoded string: PostgreSQL's jsonb refuses NUL and lone surrogates and reorders
   * keys (fault 8), and inside a JSON string both are plain ASCII escapes.
   */
  readonly body: string;
}

type BodyRow = readonly [row: number, prompt: string, parameters: Parameters | null];

/** Checked by hand: there is one for each row, and zod would take as long for them as all else here together. */
const isRow = (each: unknown): boolean =>
  Array.isArray(each) &&
  each.length === 3 &&
  Number.isSafeInteger(each[0]) &&
  each[0] > 0 &&
  typeof each[1] === 'string' &&
  (each[2] === null || parametersSchema.safeParse(each[2]).success);

const budgetSchema = z
  .strictObject({
    tokens: z.int().positive().nullable(),
    cost: z.number().positive().nullable(),
    prices: z
      .strictObject({ prompt: z.number().nonnegative(), completion: z.number().nonnegative() })
      .nullable(),
    unheard: z.int().nonnegative(),
  })
  .transform(({ unheard, ...budget }): ChunkBudget => ({ ...budget, orphaned: unheard }));

/** In entries of every version the orphaned calls have this name. */
const encodeBudget = ({ orphaned, ...budget }: ChunkBudget) => ({ ...budget, unheard: orphaned });

const asksSchema = z.strictObject({
  // What it means is for the reader of answers to say, which refuses what it does not know.
  answer: z.looseObject({ kind: z.string() }).transform((spec) => spec as unknown as AnswerSpec),
  again: z.int().nonnegative(),
  prompt: z.string().nullable(),
  deployment: z.string().min(1).nullable(),
});

const dataSchema = z.strictObject({
  v: z.literal(1),
  run: z.string().min(1),
  x: z.int().positive(),
  first: z.int().positive(),
  body: z.string(),
});

const bodySchema = z.strictObject({
  // Flat, as versions of before read and write it.
  ...endpointSpecSchema.shape,
  promptsPerRequest: z.int().min(1).max(2048),
  parameters: requestParametersSchema,
  budget: budgetSchema.nullable(),
  // Only where it is meant: workers of versions that did not know it take the rows of the other runs.
  hold: z.boolean().default(false),
  asks: asksSchema.nullable().default(null),
  rows: z.custom<readonly BodyRow[]>((rows) => Array.isArray(rows) && rows.length > 0 && rows.every(isRow)),
});

export function encodeChunk(chunk: Chunk): ChunkData {
  const { run, execution, first, endpoint, rows, hold, asks, budget, ...rest } = chunk;
  const body = {
    ...endpoint,
    ...rest,
    budget: budget && encodeBudget(budget),
    ...(hold && { hold }),
    ...(asks && { asks }),
    rows: rows.map(({ row, prompt, parameters }) => [row, prompt, parameters]),
  };
  return { v: 1, run, x: execution, first, body: JSON.stringify(body) };
}

/** Reads a queue entry, trusting nothing in it (fault 58). Null when it is no chunk of ours. */
export function decodeChunk(data: unknown): Chunk | null {
  const outer = dataSchema.safeParse(data);
  if (!outer.success) return null;
  const body = bodySchema.safeParse(parseJson(outer.data.body));
  if (!body.success) return null;
  const { run, x: execution, first } = outer.data;
  const { promptsPerRequest, parameters, budget, hold, asks, rows, ...endpoint } = body.data;
  return {
    ...{ run, execution, first, endpoint, promptsPerRequest, parameters, budget, hold, asks },
    // Of the parameters only what was checked: JSON may have a `__proto__` that zod passes over.
    rows: rows.map(([row, prompt, own]) => ({ row, prompt, parameters: own && parametersSchema.parse(own) })),
  };
}
