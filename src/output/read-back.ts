import * as z from 'zod';
import { isObject, parseJson, valueText } from '../json.js';
import type { AnswerSource, FilterResults, FilterVerdict, Json, Origin, Outcome, Row } from '../model.js';
import { inert, uninert } from './formula.js';
import { type Fields, hasInput, recordLayout } from './record.js';
import { damageOf, type OriginColumn, RESULTS } from './result-columns.js';

/** What a tally needs of a record, in the shape that JSONL has. */
const sums = z.object({ prompt_tokens: z.number(), completion_tokens: z.number(), total_tokens: z.number() });
const verdicts = z.record(
  z.string(),
  z.object({
    filtered: z.boolean().exactOptional(),
    severity: z.string().exactOptional(),
    detected: z.boolean().exactOptional(),
  }),
);
const record = z.object({
  status: z.enum(['completed', 'filtered', 'failed', 'skipped']),
  text: z.string().nullable(),
  finish_reason: z.string().nullable(),
  usage: sums.nullable(),
  filters: z.object({ prompt: verdicts.nullable(), completion: verdicts.nullable() }),
  latency_ms: z.number().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  copied_from: z.coerce.number().nullable().exactOptional(),
  carried_from: z.string().nullable().exactOptional(),
  answer_source: z
    .enum(['read', 'repaired', 'asked_again', 'voted', 'escalated'] satisfies AnswerSource[])
    .nullable()
    .exactOptional(),
});

/** Columns of a record by which a tally counts, and which only some jobs have. */
type AskedColumn = OriginColumn | 'answer_source';

/**
 * How a row ended, as far as its record in the output says it, for a tally that has to be made again. CSV has no
 * columns for filter categories beyond the four of the service's documentation; they are not counted then.
 * @param row a record of the output, read as if it were an input
 * @param asked the columns of the job's own, which the record must have
 * @param formulas `protect`: the cells of a CSV record were made inert, which is undone here
 * @returns null when `output.columns` leaves out what a tally counts, or the record is none of ours
 */
export function outcomeOf(
  row: Row,
  asked: readonly AskedColumn[],
  formulas: 'protect' | 'raw',
): Outcome | null {
  const parsed = record.safeParse(
    row.source === undefined ? fromCells(row, asked, formulas) : parseJson(row.source),
  );
  if (!parsed.success || asked.some((name) => parsed.data[name] === undefined)) return null;
  const { status, text, finish_reason, usage, filters, latency_ms, error } = parsed.data;
  if (status === 'skipped') return { status };
  const has = (name: AskedColumn): boolean => asked.includes(name);
  const origin = has('copied_from') || has('carried_from') ? originOf(parsed.data) : null;
  const source = has('answer_source') ? parsed.data.answer_source : null;
  const called = {
    ...{ attempts: 1, latency_ms },
    ...(origin && { origin }),
    ...(source && source !== 'read' && source !== 'repaired' && { answer_source: source }),
  };
  const said = { text, finish_reason, usage, model: null, id: null, created: null };
  if (status === 'completed') {
    const damaged = damageOf(error?.code);
    return { status, completion: { ...said, ...(damaged && { damaged }) }, filters, ...called };
  }
  if (error === null) return null;
  if (status === 'failed') return { status, error, ...called };
  const blockedPrompt = text === null && finish_reason === null && usage === null;
  return { status, completion: blockedPrompt ? null : said, filters, error, ...called };
}

/** Whether the code of an error says that the row itself could not be read: then nobody knows which cells it has. */
export const isUnreadable = (code: string): boolean => code === 'ragged_record' || code === 'bad_json';

/** Whether the error of a record says that its answer is none. */
export function isAnswerInvalid(fields: Fields): boolean {
  const error = fields.get('error') ?? null;
  const code = isObject(error) ? error['code'] : fields.get('error_code');
  return valueText(code).startsWith('answer_');
}

/** What decides under which names and in which form a record has its values. */
export interface RecordOptions extends Omit<Parameters<typeof recordLayout>[0], 'inputColumns'> {
  /** `protect`: the cells of a CSV record were made inert, which is undone here */
  readonly formulas: 'protect' | 'raw';
}

/**
 * The value that a row had in a column of the input.
 * @param options of the records, whose columns take names away from those of the input
 * @returns gives `undefined` when the record does not have the column, or another one may stand under its name
 */
export function inputColumn(
  column: string,
  { select, formulas, ...options }: RecordOptions,
): (row: Row) => Json | undefined {
  const name = recordLayout({ ...options, inputColumns: [column] }).columns[0]?.name ?? column;
  const isThere = select === undefined || hasInput(select, name);
  return (row) => {
    if (row.source !== undefined) {
      const input = row.fields.get('input');
      if (!isThere || input === undefined) return undefined;
      return isObject(input) && Object.hasOwn(input, column) ? (input[column] ?? null) : null;
    }
    // An input that has this name already moves the column on.
    if (name !== column && row.fields.has(`input_${name}`)) return undefined;
    const value = row.fields.get(formulas === 'protect' ? inert(name) : name);
    return typeof value === 'string' && formulas === 'protect' ? uninert(value) : value;
  };
}

function originOf({ copied_from, carried_from }: z.output<typeof record>): Origin | null {
  if (typeof copied_from === 'number') return { copied_from };
  return typeof carried_from === 'string' ? { carried_from } : null;
}

/** The cells of a CSV record in the shape of JSONL; `undefined` where the record has no such column. */
function fromCells({ fields }: Row, asked: readonly AskedColumn[], formulas: 'protect' | 'raw'): unknown {
  const cell = (name: string): string | null | undefined => {
    const value = fields.get(name);
    if (typeof value !== 'string') return undefined;
    return (formulas === 'protect' ? uninert(value) : value) || null;
  };
  const number = (name: string): number | null | undefined => {
    const value = cell(name);
    return value == null ? value : Number(value);
  };
  const names = ['prompt_tokens', 'completion_tokens', 'total_tokens'] as const;
  const usage = Object.fromEntries(names.map((name) => [name, number(name)]));
  const code = cell('error_code');
  return {
    status: cell('status'),
    text: cell('text'),
    finish_reason: cell('finish_reason'),
    usage: Object.values(usage).every((value) => value === null) ? null : usage,
    filters: { prompt: verdictsOf('prompt', cell), completion: verdictsOf('completion', cell) },
    latency_ms: number('latency_ms'),
    error: code == null ? code : { code, message: '' },
    ...Object.fromEntries(asked.flatMap((name) => (cell(name) === undefined ? [] : [[name, cell(name)]]))),
  };
}

/** The columns of a side of the filter, each with its category and what it says of it. */
const filterColumns = (side: 'prompt' | 'completion') =>
  RESULTS.flatMap(({ name }) => {
    const [, of, category, field] = /^(prompt|completion)_(.+)_(filtered|severity)$/.exec(name) ?? [];
    return of === side && category !== undefined
      ? [{ name, category, isFiltered: field === 'filtered' }]
      : [];
  });
const FILTER_COLUMNS = { prompt: filterColumns('prompt'), completion: filterColumns('completion') };

/** @returns null where the service did not say anything of this side, `undefined` without the columns */
function verdictsOf(
  side: 'prompt' | 'completion',
  cell: (name: string) => string | null | undefined,
): FilterResults | null | undefined {
  const results: { [category: string]: FilterVerdict } = {};
  for (const { name, category, isFiltered } of FILTER_COLUMNS[side]) {
    const value = cell(name);
    if (value === undefined) return undefined;
    if (value === null) continue;
    const verdict = isFiltered ? { filtered: value === 'true' } : { severity: value };
    results[category] = { ...results[category], ...verdict };
  }
  return Object.keys(results).length === 0 ? null : results;
}
