import { stringify } from 'csv-stringify/sync';
import { valueText } from '../core/json.js';
import { escapeFormula } from './formula.js';
import { type Output, readOutput } from './reader.js';

/**
 * The rows of an output that a person should see, as CSV: abstained and invalid ones. `row` is the first
 * column, an input column of that name becomes `input_row`, and the answer is left to fill in.
 * @param formulas `protect`: cells that a spreadsheet would run are made inert
 */
export async function* review(
  output: Output,
  reviewed: readonly string[],
  formulas: 'protect' | 'raw',
): AsyncGenerator<string> {
  const lines = (cells: string[][]): string =>
    stringify(cells, { record_delimiter: '\n', quote_record_delimiter: true });
  // A CSV output has inert cells already.
  const cell =
    !output.format.hasHeader && formulas === 'protect' ? escapeFormula : (text: string): string => text;
  yield lines([['row', ...reviewed.map((name) => (name === 'row' ? freeName(name, reviewed) : name))]]);
  for await (const batch of readOutput(output)) {
    // Row n of the output is row n of the input.
    const shown = batch
      .filter((record) => record.isAbstained || record.isInvalid)
      .map((record) => [String(record.number), ...reviewed.map((name) => cell(valueText(record.get(name))))]);
    if (shown.length > 0) yield lines(shown);
  }
}

/** As in records, for an input column whose name is taken. */
function freeName(name: string, used: readonly string[]): string {
  const free = `input_${name}`;
  return used.includes(free) ? freeName(free, used) : free;
}
