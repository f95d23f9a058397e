import { stringify } from 'csv-stringify/sync';
import { valueText } from '../json.js';
import type { Json, Row } from '../model.js';
import { inert } from './formula.js';

/**
 * The rows of an output that a person should see, as CSV: those for which the model was not sure enough, and those whose
 * text is no answer. `row` stands in front, and the answer is left to be filled in.
 * @param records the output, read back
 * @param reviewed names of what is shown of each record
 * @param formulas `protect`: cells that a spreadsheet would run are made inert
 */
export async function* review(
  records: AsyncIterable<readonly Row[]>,
  reviewed: readonly string[],
  formulas: 'protect' | 'raw',
): AsyncGenerator<string> {
  const lines = (cells: string[][]): string =>
    stringify(cells, { record_delimiter: '\n', quote_record_delimiter: true });
  // Cells of a CSV were made inert when they were written.
  const cell = ({ source }: Row, value: Json | undefined): string =>
    source !== undefined && formulas === 'protect' ? inert(valueText(value)) : valueText(value);
  yield lines([['row', ...reviewed]]);
  for await (const batch of records) {
    const unsure = batch.filter(({ fields }) => isForReview(fields));
    // Row n of the output is row n of the input.
    const shown = unsure.map((row) => [
      String(row.number),
      ...reviewed.map((name) => cell(row, row.fields.get(name))),
    ]);
    if (shown.length > 0) yield lines(shown);
  }
}

function isForReview(fields: Row['fields']): boolean {
  if (String(fields.get('abstained')) === 'true') return true;
  const error = fields.get('error');
  const code =
    typeof error === 'object' && error !== null && 'code' in error ? error.code : fields.get('error_code');
  return String(code).startsWith('answer_');
}
