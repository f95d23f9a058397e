import { parseFields } from '../core/json.js';
import type { Json, Row } from '../core/model.js';
import { toUtf8 } from './encoding.js';
import { type InputFormat, nameOf } from './input.js';
import { readBeginning, refuseOtherThanLines } from './kind.js';
import { LineCutter } from './lines.js';

export const jsonl: InputFormat = {
  name: 'jsonl',
  endings: ['.jsonl', '.ndjson', '.json'],
  hasHeader: false,
  hasJson: true,
  async *read(bytes, spec) {
    const name = nameOf(spec);
    const text = await readBeginning(toUtf8(bytes, name, spec.encoding));
    try {
      refuseOtherThanLines(text, name);
      yield* readJsonl(text.from(0), name);
    } finally {
      await text.close();
    }
  },
};

/** Heap bytes of a value besides its text: its name and its place in an object, about. */
const VALUE_BYTES = 100;

/**
 * A blank line is no row; another line that is no JSON object is a row with the problem `bad_json` (fault 11).
 * @param bytes valid UTF-8 without a byte-order mark
 * @throws UsageError `record_too_large`
 */
async function* readJsonl(bytes: AsyncIterable<Buffer>, name: string): AsyncGenerator<Row[]> {
  const cutter = new LineCutter(name);
  let number = 0;
  const rowsOf = (lines: Iterable<Buffer>): Row[] => {
    const rows: Row[] = [];
    for (const line of lines) {
      const source = line.toString('utf8');
      if (source.trim() !== '') rows.push(toRow(source, ++number, cutter.line, line.length));
    }
    return rows;
  };
  for await (const chunk of bytes) yield rowsOf(cutter.cut(chunk));
  yield rowsOf(cutter.end());
}

function toRow(source: string, number: number, line: number, bytes: number): Row {
  try {
    const fields = parseFields(source);
    // The text is held twice: in the source and in the values.
    const held = 2 * bytes + valuesIn([...fields.values()]) * VALUE_BYTES;
    return { number, line, fields, bytes, memoryBytes: held, source };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const problem = { code: 'bad_json', message: `line ${line} is no JSON object: ${error.message}` };
    return { number, line, fields: new Map(), bytes, source, problem };
  }
}

/** Includes nested values. */
function valuesIn(list: readonly Json[]): number {
  let sum = list.length;
  for (const value of list) {
    if (typeof value === 'object' && value !== null) sum += valuesIn(Object.values(value));
  }
  return sum;
}
