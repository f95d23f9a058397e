import type { Row } from '../model.js';
import { parseObject } from './json.js';
import { LineCutter } from './lines.js';

/**
 * Rows of a file with one JSON object a line, in batches. A blank line is no row; a line that is anything else
 * is a row with the fault `bad_json` (fault 11).
 *
 * @param bytes sound UTF-8 without a byte-order mark
 * @param name how messages call the input
 * @throws UsageError `record_too_large`
 */
export async function* readJsonl(bytes: AsyncIterable<Buffer>, name: string): AsyncGenerator<Row[]> {
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
    return { number, line, fields: parseObject(source), bytes, source };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const fault = { code: 'bad_json', message: `line ${line} is no JSON object: ${error.message}` };
    return { number, line, fields: new Map(), bytes, source, fault };
  }
}
