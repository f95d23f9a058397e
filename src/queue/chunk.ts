import * as z from 'zod';
import { type AnswerSpec, answerSpecSchema } from '../answer/answer-spec.js';
import type { Budget } from '../budget/budget.js';
import { parseJson } from '../json.js';
import type { Parameters } from '../model.js';
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
   * What all chunks of an execution have in common, encoded, and the rows. As strings: PostgreSQL's jsonb refuses NUL and lone
   * surrogates and reorders keys (fault 8), and inside a JSON string both are plain ASCII escapes.
   */
  readonly common: string;
  readonly rows: string;
}

type EncodedRow = readonly [row: number, prompt: string, parameters: Parameters | null];

/** Checked by hand, as {@link isData}: zod takes longer for these than all else that is done with an entry. */
const isRow = (each: unknown): each is EncodedRow =>
  Array.isArray(each) &&
  each.length === 3 &&
  Number.isSafeInteger(each[0]) &&
  each[0] > 0 &&
  typeof each[1] === 'string' &&
  (each[2] === null || parametersSchema.safeParse(each[2]).success);

const budgetSchema = z.strictObject({
  tokens: z.int().positive().nullable(),
  cost: z.number().positive().nullable(),
  prices: z
    .strictObject({ prompt: z.number().nonnegative(), completion: z.number().nonnegative() })
    .nullable(),
  orphaned: z.int().nonnegative(),
});

const asksSchema = z.strictObject({
  answer: answerSpecSchema,
  again: z.int().nonnegative(),
  prompt: z.string().nullable(),
  deployment: z.string().min(1).nullable(),
});

const commonSchema = z.strictObject({
  endpoint: endpointSpecSchema,
  promptsPerRequest: z.int().min(1).max(2048),
  parameters: requestParametersSchema,
  budget: budgetSchema.nullable(),
  hold: z.boolean(),
  asks: asksSchema.nullable(),
});
type Common = Omit<Chunk, 'run' | 'execution' | 'first' | 'rows'>;

/** Executions whose common part is remembered; a worker has chunks of few at a time. */
const REMEMBERED = 16;
const commons = new Map<string, Common>();

export function encodeChunk({ run, execution, first, rows, ...common }: Chunk): ChunkData {
  const encoded = rows.map(({ row, prompt, parameters }): EncodedRow => [row, prompt, parameters]);
  return { v: 1, run, x: execution, first, common: JSON.stringify(common), rows: JSON.stringify(encoded) };
}

/** Reads a queue entry, trusting nothing in it (fault 58). Null when it is no chunk of ours. */
export function decodeChunk(data: unknown): Chunk | null {
  if (!isData(data)) return null;
  const common = commonOf(data.common);
  const rows = parseJson(data.rows);
  if (common === null || !Array.isArray(rows) || rows.length === 0 || !rows.every(isRow)) return null;
  const { run, x: execution, first } = data;
  const { endpoint, promptsPerRequest, parameters, budget, hold, asks } = common;
  return {
    ...{ run, execution, first, endpoint, promptsPerRequest, parameters, budget, hold, asks },
    // Of the parameters only what was checked: JSON may have a `__proto__` that zod passes over.
    rows: rows.map(([row, prompt, own]) => ({ row, prompt, parameters: own && parametersSchema.parse(own) })),
  };
}

function isData(data: unknown): data is ChunkData {
  if (typeof data !== 'object' || data === null) return false;
  const { v, run, x, first, common, rows, ...others }: { [name: string]: unknown } = { ...data };
  return (
    v === 1 &&
    typeof run === 'string' &&
    run !== '' &&
    isNumber(x) &&
    isNumber(first) &&
    typeof common === 'string' &&
    typeof rows === 'string' &&
    Object.keys(others).length === 0
  );
}

const isNumber = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) > 0;

/** One object for all chunks of an execution. Null when it is none of ours. */
function commonOf(text: string): Common | null {
  const known = commons.get(text);
  if (known !== undefined) return known;
  const { data: common } = commonSchema.safeParse(parseJson(text));
  if (common === undefined) return null;
  if (commons.size >= REMEMBERED) commons.clear();
  commons.set(text, common);
  return common;
}
