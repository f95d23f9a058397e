import { valueText } from '../json.js';
import { compileTemplate, type TemplateInput } from '../prompt/template.js';
import { firstRows } from '../source/source.js';

/** What the first rows of a data file tell. As `name` a message has also which of its rows were looked at. */
export interface DataFile extends TemplateInput {
  readonly path: string;
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
  const input = { name: isPart ? `${path}, in its first ${ROWS} rows,` : path, columns, format };
  return {
    ...input,
    path,
    text: firstNamed(longestFirst, input),
    hasPrompts: columns.includes('prompt') || columns.includes('body'),
  };
}

/** The first column that a template can name: one whose name has braces, for example, it cannot. */
function firstNamed(names: readonly string[], input: TemplateInput): DataFile['text'] {
  for (const column of names) {
    for (const tag of [`{{ ${column} }}`, `{{& ${column} }}`]) {
      try {
        const template = compileTemplate(tag, input);
        if (template.names.length === 1 && template.names[0] === column) return { column, tag };
      } catch {
        // Not in this way.
      }
    }
  }
  return null;
}
