import { stringify } from 'csv-stringify/sync';
import { valueText } from '../json.js';
import { readCsv } from '../source/csv.js';
import { inert } from './formula.js';
import type { OutputFormat, RecordFormat, RecordLayout } from './record.js';
import { REVIEWED, recordFacts } from './result-columns.js';

export const csv: OutputFormat = {
  name: 'csv',
  endings: ['.csv'],
  hasQuotes: true,
  records: csvRecords,
  readBack: (bytes, name) => readCsv(bytes, { name, delimiter: ',', onColumns: () => {} }),
};

/** What csv-stringify puts into quotes. */
const QUOTED = /[",\r\n]/;

/**
 * A record with so many cells in need of quotes costs csv-stringify no more than each of them alone. Whole records take it
 * 24 KB of memory for 38 columns, which cost a tenth of a run.
 */
const FEW = 3;

/**
 * Records as CSV: RFC 4180, UTF-8 without a byte-order mark, `\n`.
 *
 * @param formulas `protect`: cells that a spreadsheet would run are made inert, the header's included
 */
function csvRecords({ columns }: RecordLayout, formulas: 'protect' | 'raw'): RecordFormat {
  const cell = formulas === 'raw' ? (text: string): string => text : inert;
  const options = {
    record_delimiter: '\n',
    quote_record_delimiter: true,
    // One empty cell would be a blank line, which readers skip.
    quoted_empty: columns.length === 1,
  };
  const whole = (cells: readonly string[]): string => stringify([cells], options);
  const alone = { ...options, eof: false };
  const quoted = (text: string): string => (QUOTED.test(text) ? stringify([[text]], alone) : text);
  const line = (cells: readonly string[]): string =>
    cells.length === 1 || cells.filter((text) => QUOTED.test(text)).length > FEW
      ? whole(cells)
      : `${cells.map(quoted).join(',')}\n`;
  return {
    header: line(columns.map(({ name }) => cell(name))),
    reviewed: columns.filter(({ part }) => REVIEWED.has(part)).map(({ name }) => cell(name)),
    format(row, outcome, answer) {
      const facts = recordFacts(row, outcome, answer);
      return line(columns.map(({ value }) => cell(valueText(value(facts)))));
    },
  };
}
