import { valueText } from '../json.js';
import { compileTemplate } from '../prompt/template.js';
import type { InputFormat } from '../source/input.js';
import { type Beginning, firstRows } from '../source/source.js';

/** What the first rows of a data file tell. */
export interface DataFile extends Pick<Beginning, 'columns'> {
  readonly path: string;
  /** What a message calls it that misses a column: also which of its rows were looked at. */
  readonly seen: string;
  readonly format: InputFormat;
  /** The column that a prompt is most likely about, and the tag that puts it there; null where none can be named. */
  readonly text: { readonly column: string; readonly tag: string } | null;
  /** Its rows bring their own prompts. */
  readonly hasPrompts: boolean;
}

/** Rows that are looked at. */
const ROWS = 200;

/** @throws UsageError for a file that a run could not read either */
export async function lookAt(path: string): Promise<DataFile> {
  const { format, columns, rows } = await firstRows({ path }, ROWS);
  const lengths = new Map(columns.map((column) => [column, 0]));
  for (const { fields } of rows)
    for (const [column, value] of fields)
      lengths.set(column, (lengths.get(column) ?? 0) + valueText(value).length);
  const longestFirst = columns.toSorted((a, b) => (lengths.get(b) ?? 0) - (lengths.get(a) ?? 0));
  // Columns of later rows are not known where the file does not begin with them all.
  const isPart = !format.hasHeader && rows.length === ROWS;
  return {
    path,
    seen: isPart ? `${path}, in its first ${ROWS} rows,` : path,
    format,
    columns,
    text: firstNamed(longestFirst, { path, format, columns }),
    hasPrompts: columns.includes('prompt') || columns.includes('body'),
  };
}

/** The first column that a template can name: one whose name has braces, for example, it cannot. */
function firstNamed(
  names: readonly string[],
  { path, format, columns }: Pick<DataFile, 'path' | 'format' | 'columns'>,
): DataFile['text'] {
  for (const column of names) {
    for (const tag of [`{{ ${column} }}`, `{{& ${column} }}`]) {
      try {
        const template = compileTemplate(tag, { name: path, format, columns });
        if (template.names.length === 1 && template.names[0] === column) return { column, tag };
      } catch {
        // Not in this way.
      }
    }
  }
  return null;
}
