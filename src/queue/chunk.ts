import * as z from 'zod';
import { type AnswerSpec, answerSpecSchema } from '../core/answer-spec.js';
import { parseJson } from '../core/json.js';
import type { Parameters, Prompt } from '../core/model.js';
import type { Budget } from '../pace/budget.js';
import { type EndpointSpec, endpointSpecSchema, type Several } from '../service/endpoint-spec.js';
import {
  type ByOperation,
  commonOperation,
  type Operation,
  type OperationName,
  operationOf,
} from '../service/operation.js';
import { type Tier, TIERS } from '../service/response.js';

/** A row in the queue: what is sent to the service, and nothing else of the input. */
export interface ChunkRow {
  readonly row: number;
  readonly prompt: Prompt;
  /** Overrides the chunk's parameters. */
  readonly parameters: Parameters | null;
}

export interface ChunkBudget extends Budget {
  /** Calls orphaned by an earlier execution, hardly ever heard of again: waited for only while sums move. */
  readonly orphaned: number;
}

/** What to do about invalid answers (`answer.on_invalid`). */
export interface OnInvalid {
  readonly answer: AnswerSpec;
  readonly again: number;
  /** Template of the follow-up prompt; null for the default. */
  readonly prompt: string | null;
  /** Asked last, with the original prompt, at the same address; null for none. */
  readonly deployment: string | null;
}

/** One queue entry: consecutive rows of a run and all that a remote worker needs. No address, no key. */
export interface Chunk {
  readonly run: string;
  readonly execution: number;
  readonly first: number;
  /** Any of them may be called for a row. */
  readonly endpoints: Several<EndpointSpec>;
  /** Maximum rows in one request. */
  readonly promptsPerRequest: number;
  /** As each operation of the endpoints has them. */
  readonly parameters: ByOperation<Parameters>;
  /** Asked for, as long as the run does not go online. @default none: answers do not tell theirs */
  readonly tier?: Tier | undefined;
  readonly budget: ChunkBudget | null;
  /** A row whose call has an unknown end is not called again: it ends `failed`. */
  readonly hold: boolean;
  /** Null: an invalid answer stays as it is. */
  readonly asks: OnInvalid | null;
  readonly rows: readonly ChunkRow[];
}

/** A chunk at the endpoint that is called for its rows. */
export interface ChunkAt extends Omit<Chunk, 'parameters'> {
  readonly endpoint: EndpointSpec;
  readonly parameters: Parameters;
}

/** Names the execution that the chunk belongs to. */
export const executionOf = ({ run, execution }: ChunkAt | Chunk): string => `${run} ${execution}`;

export interface ChunkData {
  readonly v: 1;
  readonly run: string;
  readonly x: number;
  readonly first: number;
  /**
   * The part common to all chunks of an execution. A string, so that a worker that has seen it before knows it
   * by its text, and reads and checks it once.
   */
  readonly common: string;
  readonly rows: string;
}

type EncodedRow = readonly [row: number, prompt: Prompt, parameters: Parameters | null];

/** Checked by hand, like {@link isData}: zod would take longer than everything else done with an entry. */
const isRow =
  ({ isPrompt, parameters }: Operation) =>
  (each: unknown): each is EncodedRow =>
    Array.isArray(each) &&
    each.length === 3 &&
    Number.isSafeInteger(each[0]) &&
    each[0] > 0 &&
    isPrompt(each[1]) &&
    (each[2] === null || parameters.safeParse(each[2]).success);

const pricesSchema = z.strictObject({
  prompt: z.number().nonnegative(),
  cached: z.number().nonnegative().optional(),
  completion: z.number().nonnegative(),
  flex: z.number().nonnegative().optional(),
  batch: z.number().nonnegative().optional(),
  currency: z.string().optional(),
});

const budgetSchema = z.strictObject({
  // Nothing is left where the variants of a try have spent it.
  tokens: z.int().nonnegative().nullable(),
  cost: z.number().nonnegative().nullable(),
  prices: pricesSchema.nullable(),
  byEndpoint: z.record(z.string(), pricesSchema).optional(),
  batches: z
    .strictObject({ prompt_tokens: z.int().nonnegative(), completion_tokens: z.int().nonnegative() })
    .optional(),
  orphaned: z.int().nonnegative(),
});

const asksSchema = z.strictObject({
  answer: answerSpecSchema,
  again: z.int().nonnegative(),
  prompt: z.string().nullable(),
  deployment: z.string().min(1).nullable(),
});

const commonSchema = z
  .strictObject({
    endpoints: z.tuple([endpointSpecSchema], endpointSpecSchema),
    promptsPerRequest: z.int().min(1).max(2048),
    parameters: z.record(z.string(), z.unknown()),
    tier: z.enum(TIERS).optional(),
    budget: budgetSchema.nullable(),
    hold: z.boolean(),
    asks: asksSchema.nullable(),
  })
  .transform(({ parameters, ...common }, context) => {
    const checked: { [name in OperationName]?: Parameters } = {};
    for (const endpoint of common.endpoints) {
      const { operation } = endpoint;
      const ofIt = operationOf(endpoint).requests.safeParse(parameters[operation]);
      if (ofIt.success) checked[operation] = ofIt.data;
      else context.addIssue('no parameters of the operation');
    }
    return { ...common, parameters: checked };
  });
type Common = Omit<Chunk, 'run' | 'execution' | 'first' | 'rows'>;

/** Executions whose common part is cached; a worker has chunks of few at a time. */
const REMEMBERED = 16;
const commons = new Map<string, Common>();

export function encodeChunk({ run, execution, first, rows, ...common }: Chunk): ChunkData {
  const encoded = rows.map(({ row, prompt, parameters }): EncodedRow => [row, prompt, parameters]);
  return { v: 1, run, x: execution, first, common: JSON.stringify(common), rows: JSON.stringify(encoded) };
}

/** Trusts nothing in a queue entry (fault 58). Null when it is not a chunk of ours. */
export function decodeChunk(data: unknown): Chunk | null {
  if (!isData(data)) return null;
  const common = commonOf(data.common);
  const rows = parseJson(data.rows);
  if (common === null || !Array.isArray(rows) || rows.length === 0) return null;
  const operation = commonOperation(common.endpoints.map((each) => each.operation));
  if (!rows.every(isRow(operation))) return null;
  const { run, x: execution, first } = data;
  const { endpoints, promptsPerRequest, parameters, tier, budget, hold, asks } = common;
  return {
    ...{ run, execution, first, endpoints, promptsPerRequest, parameters, tier, budget, hold, asks },
    // Only the checked parameters: JSON may have a `__proto__` that zod passes over.
    rows: rows.map(([row, prompt, own]) => ({
      row,
      prompt,
      parameters: own && operation.parameters.parse(own),
    })),
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

/** One object for all chunks of an execution. Null when it is not ours. */
function commonOf(text: string): Common | null {
  const known = commons.get(text);
  if (known !== undefined) return known;
  const { data: common } = commonSchema.safeParse(parseJson(text));
  if (common === undefined) return null;
  if (commons.size >= REMEMBERED) commons.clear();
  commons.set(text, common);
  return common;
}
