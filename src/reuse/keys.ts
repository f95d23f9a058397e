import { createHash } from 'node:crypto';
import { UsageError } from '../errors.js';
import type { Json, Parameters, Row } from '../model.js';
import { unknownNames } from '../nearest.js';
import type { OriginColumn } from '../output/result-columns.js';
import type { InputFormat } from '../source/input.js';

/** 96 bits of a SHA-256 as 16 characters of base64url: among 1,500,000, two alike are one chance in 10^16. */
export type Key = string;

/** Bytes of a hash that make a key. */
export const KEY_BYTES = 12;

/** What a row is known by. `null` where nothing is to be found under the key, or kept. */
export interface RowKeys {
  /** The request that would be sent. Rows with the same one have the same outcome. */
  readonly request: Key | null;
  /** The row's id and its request. A row of a later run with the same one need not be called again. */
  readonly row: Key | null;
}

/** What is the same for all requests of a run. */
export interface KeyRules {
  readonly dedupe: boolean;
  readonly onlyNew: boolean;
  /** Gives the id of a row; `null` where its content alone is what it is known by. */
  readonly idOf: (row: Row) => Json;
  /** The job's parameters, which a row's override. */
  readonly parameters: Parameters;
  /** What is called, and where: an answer of another service, or of a rehearsal, is none to take over. */
  readonly service: Json;
}

/**
 * The keys of rows, made of all that would be sent for them. A request has a key only where the service is asked for
 * its likeliest answer, at temperature 0: at any other the same request may be meant to get several answers.
 */
export function rowKeys(rules: KeyRules): (row: Row, prompt: string, own: Parameters | null) => RowKeys {
  const service = JSON.stringify(rules.service);
  return (row, prompt, own) => {
    const parameters = own === null ? rules.parameters : { ...rules.parameters, ...own };
    const request = `${service}\0${requestText(prompt, parameters)}`;
    return {
      request: rules.dedupe && isRepeatable(parameters) ? keyOf(request) : null,
      row: rules.onlyNew ? keyOf(`${JSON.stringify(rules.idOf(row))}\0${request}`) : null,
    };
  };
}

/** All of a request that differs from row to row, as text: equal for equal requests, whatever the order of the parameters. */
export function requestText(prompt: string, parameters: Parameters): string {
  const sorted = Object.entries(parameters).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([sorted, prompt]);
}

/** The service's own default is 1, also for `null`. */
export const isRepeatable = ({ temperature }: Parameters): boolean => temperature === 0;

/** The key of a text. */
export const keyOf = (text: string): Key =>
  createHash('sha256').update(text).digest().subarray(0, KEY_BYTES).toString('base64url');

/** What of a job decides on what is taken over. */
export interface ReuseSettings {
  /** Identical requests are called once in a run. */
  readonly dedupe: boolean;
  /** Rows that the job's last run answered are not called again. */
  readonly onlyNew: boolean;
  /** Column that identifies a row, for `onlyNew`; `null` is the default for the format. */
  readonly id: string | null;
}

/** What is known of the input. */
interface InputColumns {
  readonly name: string;
  readonly format: Pick<InputFormat, 'hasHeader' | 'hasJson'>;
  readonly columns: readonly string[];
}

export function originColumns({ dedupe, onlyNew }: ReuseSettings): readonly OriginColumn[] {
  return [...(dedupe ? (['copied_from'] as const) : []), ...(onlyNew ? (['carried_from'] as const) : [])];
}

/**
 * Checks `input.dedupe` against the parameters, and `input.id` against the input's columns.
 * @throws UsageError when no request of the job can be at temperature 0, or no column has the name
 */
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

/** The column of `input.id`. By default the first of a header; of a row without one `custom_id`, else `id`, else none. */
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
