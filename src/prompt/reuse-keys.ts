import { createHash } from 'node:crypto';
import { UsageError } from '../core/errors.js';
import type { Json, Parameters, Prompt, Row } from '../core/model.js';
import { unknownNames } from '../core/nearest.js';
import { KEY_BYTES } from '../core/offset-index.js';
import type { InputFormat } from '../source/input.js';

/** 96 bits of a SHA-256 in base64url: a collision among 1,500,000 has a chance of one in 10^16. */
export type Key = string;

/** Null when nothing is looked up or kept under the key. */
export interface RowKeys {
  /** The request to be sent: equal ones have the same outcome. */
  readonly request: Key | null;
  /** Row id and request: a row of a later run with the same key need not be called. */
  readonly row: Key | null;
  /** Line of the input and request, for runs over the same input. */
  readonly place: Key | null;
}

export interface KeyRules {
  readonly dedupe: boolean;
  readonly onlyNew: boolean;
  readonly places: boolean;
  /** Null: only its content identifies the row. */
  readonly idOf: (row: Row) => Json;
  /** A row's own parameters override these. */
  readonly parameters: Parameters;
  /** What is called, and where: answers of another service, or of a rehearsal, are not reused. */
  readonly service: Json;
}

/** A request has a key only at temperature 0: otherwise equal requests may be meant to differ. */
export function rowKeys(rules: KeyRules): (row: Row, prompt: Prompt, own: Parameters | null) => RowKeys {
  const service = JSON.stringify(rules.service);
  return (row, prompt, own) => {
    const parameters = own === null ? rules.parameters : { ...rules.parameters, ...own };
    const request = `${service}\0${requestText(prompt, parameters)}`;
    return {
      request: rules.dedupe && isRepeatable(parameters) ? keyOf(request) : null,
      row: rules.onlyNew ? keyOf(`${JSON.stringify(rules.idOf(row))}\0${request}`) : null,
      // No id in JSON begins like this.
      place: rules.places ? keyOf(`line ${row.line}\0${request}`) : null,
    };
  };
}

/** The parts that differ from row to row; independent of the parameters' order. */
export function requestText(prompt: Prompt, parameters: Parameters): string {
  const sorted = Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([sorted, prompt]);
}

/** The service's default is 1, also for null. */
export const isRepeatable = ({ temperature }: Parameters): boolean => temperature === 0;

export const keyOf = (text: string): Key =>
  createHash('sha256').update(text).digest().subarray(0, KEY_BYTES).toString('base64url');

export interface ReuseSettings {
  readonly dedupe: boolean;
  readonly onlyNew: boolean;
  /** Column that identifies a row, for `onlyNew`; null for the format's default. */
  readonly id: string | null;
}

/** What runs over the same input know of each other. No setting of a job. */
export interface SharedOutcomes {
  /** Whose answers are taken over where line and request are the same; the first that has a row counts. */
  readonly known: readonly {
    /** @see outcomesPath */
    readonly path: string;
    /** In messages: `the sample`. */
    readonly name: string;
  }[];
  /** Whether the run's outcomes stay for others to know, in `outcomesPath` of its name. */
  readonly keeps: boolean;
}

interface InputColumns {
  readonly name: string;
  readonly format: Pick<InputFormat, 'hasHeader' | 'hasJson'>;
  readonly columns: readonly string[];
}

/** @throws UsageError when no request can be at temperature 0, or the column `input.id` is unknown */
export function checkReuse(
  { dedupe, onlyNew, id }: ReuseSettings,
  parameters: Parameters,
  rowParameters: readonly (keyof Parameters)[],
  input: InputColumns,
): void {
  if (onlyNew && id !== null && !input.columns.includes(id)) {
    const use = { code: 'column_unknown', user: 'input.id names', owner: `${input.name} has` };
    throw unknownNames(use, [id], input.columns);
  }
  if (!dedupe || isRepeatable(parameters)) return;
  const bodies = input.format.hasJson && input.columns.includes('body');
  if (rowParameters.includes('temperature') || bodies) return;
  const { temperature } = parameters;
  throw new UsageError(
    'dedupe_needs_temperature_0',
    `input.dedupe is true, and parameters.temperature is ${temperature ?? 'not set, for which the service takes 1'}: ` +
      'only at 0 does the same request ask for the same answer',
    'Set parameters.temperature: 0, or leave input.dedupe out.',
  );
}

/** `input.id`, else the first column of a header; without a header `custom_id`, else `id`, else none. */
export function idReader(
  id: string | null,
  { format, columns }: Omit<InputColumns, 'name'>,
): (row: Row) => Json {
  const names = id !== null ? [id] : format.hasHeader ? columns.slice(0, 1) : ['custom_id', 'id'];
  return ({ fields }) => {
    for (const name of names) {
      const value = fields.get(name);
      if (value !== undefined && value !== null) return value;
    }
    return null;
  };
}
