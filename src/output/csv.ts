import { stringify } from 'csv-stringify/sync';
import { valueText } from '../core/json.js';
import { escapeFormula } from './formula.js';
import { inputNames, type OutputFormat, type RecordFormat, type RecordLayout } from './record.js';
import { answerFacts, REVIEWED, recordFacts } from './result-columns.js';

export const csv: OutputFormat = {
  name: 'csv',
  endings: ['.csv'],
  hasQuotes: true,
  hasHeader: true,
  records: csvRecords,
  values(header) {
    const names = namesIn(header);
    const index = new Map(names.map((name, i) => [name, i]));
    return (record) => {
      const starts = startsIn(record);
      const cells = starts.length - 1;
      return {
        names: () => names,
        flaw: cells === names.length ? null : `it has ${cells} cells, and the header has ${names.length}`,
        placeOf(name) {
          const cell = index.get(name);
          const [start, next] = cell === undefined ? [] : [starts[cell], starts[cell + 1]];
          return start === undefined || next === undefined ? null : { start, end: next - 1 };
        },
      };
    };
  },
  value: unquoted,
};

const QUOTED = /[",\r\n]/;

/** Above this, csv-stringify formats the whole record: 24 KB for 38 columns, which cost a tenth of a run. */
const FEW = 3;

/**
 * RFC 4180, UTF-8 without a byte-order mark, `\n`.
 * @param formulas `protect` makes the header inert as well
 */
function csvRecords({ columns, parts }: RecordLayout, formulas: 'protect' | 'raw'): RecordFormat {
  const cell = formulas === 'raw' ? (text: string): string => text : escapeFormula;
  const options = {
    record_delimiter: '\n',
    quote_record_delimiter: true,
    // A single empty cell would be a blank line, which readers skip.
    quoted_empty: columns.length === 1,
  };
  const whole = (cells: readonly string[]): string => stringify([cells], options);
  const alone = { ...options, eof: false };
  const quoted = (text: string): string => stringify([[text]], alone);
  const quotedIfNeeded = (text: string): string => (QUOTED.test(text) ? quoted(text) : text);
  const line = (cells: string[]): string => {
    const toQuote: number[] = [];
    for (let i = 0; i < cells.length; i++) if (QUOTED.test(cells[i] ?? '')) toQuote.push(i);
    if (cells.length === 1 || toQuote.length > FEW) return whole(cells);
    for (const i of toQuote) cells[i] = quoted(cells[i] ?? '');
    return `${cells.join(',')}\n`;
  };
  return {
    header: line(columns.map(({ name }) => cell(name))),
    reviewed: columns.filter(({ part }) => REVIEWED.has(part)).map(({ name }) => cell(name)),
    names: columns.map(({ name }) => name),
    parts,
    inputs: inputNames(columns),
    format(row, outcome, answer) {
      const facts = recordFacts(row, outcome, answer);
      return line(columns.map(({ value }) => cell(valueText(value(facts)))));
    },
    values(changed, answer) {
      const facts = answerFacts(answer);
      return new Map(
        columns
          .filter(({ part }) => changed.has(part))
          .map(({ name, value }) => [cell(name), quotedIfNeeded(cell(valueText(value(facts))))]),
      );
    },
  };
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const LF = 0x0a;
const CR = 0x0d;

/**
 * Where each cell begins, and where one more would. These bytes are never part of another UTF-8 character.
 * Numbers, not objects: an output of a million rows has some 40 million cells.
 */
function startsIn(record: Buffer): number[] {
  const starts = [0];
  let isQuoted = false;
  let length = record.length;
  if (record[length - 1] === LF) length -= record[length - 2] === CR ? 2 : 1;
  for (let at = 0; at < length; at++) {
    const byte = record[at];
    if (byte === QUOTE) isQuoted = !isQuoted;
    else if (byte === COMMA && !isQuoted) starts.push(at + 1);
  }
  starts.push(length + 1);
  return starts;
}

function namesIn(header: Buffer): string[] {
  const starts = startsIn(header);
  return starts.slice(1).map((next, i) => unquoted(header.toString('utf8', starts[i], next - 1)));
}

function unquoted(cell: string): string {
  return cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell;
}
