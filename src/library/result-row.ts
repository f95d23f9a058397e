import type { AnswerSource, Filters, Json, Outcome, Problem, Usage } from '../core/model.js';
import type { AnswerRead } from './answer-schema.js';

/** How a row ended: its record in a JSONL output, with the answer in the job's type. */
export interface ResultRow<A = Json, Input = { readonly [column: string]: Json }> {
  /** Position in the input, from 1. */
  readonly row: number;
  /** The row as it was given. Empty for a line that is not a JSON object. */
  readonly input: Input;
  /** `completed`: an answer that no filter blocked. `skipped`: a required field is empty. */
  readonly status: Outcome['status'];
  /** `null` without an answer: then `error` says why, or the row abstained. */
  readonly answer: A | null;
  /** The model's text; `null` when there is none. */
  readonly text: string | null;
  /** As the service reports it: `stop`, `length`, `content_filter`. */
  readonly finish_reason: string | null;
  /** Tokens billed for the row; `null` when the service did not say. */
  readonly usage: Usage | null;
  /** The content filter's results for both sides. */
  readonly filters: Filters;
  readonly model: string | null;
  readonly completion_id: string | null;
  /** ISO 8601. */
  readonly created: string | null;
  /** Calls of the row; waits for a quota do not count. */
  readonly attempts: number | null;
  /** Milliseconds of the last call. */
  readonly latency_ms: number | null;
  /** Why the row failed, was filtered, or has an invalid answer. */
  readonly error: Problem | null;
  /** With `input.dedupe`: the row from which the outcome was copied. */
  readonly copied_from?: number | null;
  /** With `input.only_new`: the run from which the outcome was taken. */
  readonly carried_from?: string | null;
  /** With `answer.on_invalid` or `answer.votes`: where the answer comes from. */
  readonly answer_source?: AnswerSource | null;
  /** With `answer.confidence` or `answer.votes`: from 0 to 1. */
  readonly confidence?: number | null;
  /** With `output.probabilities`, by label. */
  readonly answer_probabilities?: { readonly [label: string]: number } | null;
  /** Whether the label was left out for low confidence. */
  readonly abstained?: boolean | null;
  /** As the service sends them, when the job asks for them. */
  readonly logprobs?: Json;
}

/** @param line a record of a JSONL output */
export async function resultRow<A>(line: string, read: AnswerRead<A>): Promise<ResultRow<A>> {
  const record: Omit<ResultRow<A>, 'answer' | 'input'> & {
    input: ResultRow['input'] | string;
    answer: Json;
  } = JSON.parse(line);
  const input = typeof record.input === 'string' ? {} : record.input;
  if (record.answer === null) return { ...record, input, answer: null };
  const found = await read(record.answer);
  if ('answer' in found) return { ...record, input, answer: found.answer };
  return { ...record, input, answer: null, error: { code: 'answer_invalid', message: found.problem } };
}
