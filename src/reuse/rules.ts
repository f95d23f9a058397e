import { UsageError } from '../errors.js';
import type { Json, Parameters, Row } from '../model.js';
import { unknownNames } from '../nearest.js';
import type { OriginColumn } from '../output/result-columns.js';
import { isRepeatable } from './keys.js';

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
  readonly format: 'csv' | 'tsv' | 'jsonl';
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
  const bodies = input.format === 'jsonl' && input.columns.includes('body');
  if (rowParameters.includes('temperature') || bodies) return;
  const { temperature } = parameters;
  throw new UsageError(
    'dedupe_needs_temperature_0',
    `input.dedupe is true, and parameters.temperature is ${temperature ?? 'not set, for which the service takes 1'}: ` +
      'only at 0 does the same request ask for the same answer',
    'Set parameters.temperature: 0, or leave input.dedupe out.',
  );
}

/** The column of `input.id`. By default the first of a CSV; of a JSONL row `custom_id`, else `id`, else none. */
export function idReader(
  id: string | null,
  { format, columns }: Omit<InputColumns, 'name'>,
): (row: Row) => Json {
  const names = id !== null ? [id] : format === 'jsonl' ? ['custom_id', 'id'] : columns.slice(0, 1);
  return ({ fields }) => {
    for (const name of names) {
      const value = fields.get(name);
      if (value !== undefined && value !== null) return value;
    }
    return null;
  };
}
