import { valueText } from '../json.js';
import { compileTemplate, type TemplateInput } from '../prompt/template.js';
import { firstRows } from '../source/source.js';

/** What the first rows of a data file show. `name` also says which rows were read, for messages. */
export interface DataFile extends TemplateInput {
  readonly path: string;
  /** The column that the prompt is probably about, and the tag for it; null when no column can be named. */
  readonly text: { readonly column: string; readonly tag: string } | null;
  readonly hasPrompts: boolean;
}

const ROWS = 200;

/** @throws UsageError for a file that a run could not read either */
export async function lookAt(path: string): Promise<DataFile> {
  const { format, columns, rows } = await firstRows({ path }, ROWS);
  const lengths = new Map(columns.map((column) => [column, 0]));
  for (const { fields } of rows)
    for (const [column, value] of fields)
      lengths.set(column, (lengths.get(column) ?? 0) + valueText(value).length);
  const longestFirst = columns.toSorted((a, b) => (lengths.get(b) ?? 0) - (lengths.get(a) ?? 0));
  // Unless all columns come first in the file, later rows may have more.
  const isPart = !format.hasHeader && rows.length === ROWS;
  const input = { name: isPart ? `${path}, in its first ${ROWS} rows,` : path, columns, format };
  return {
    ...input,
    path,
    text: firstNamed(longestFirst, input),
    hasPrompts: columns.includes('prompt') || columns.includes('body'),
  };
}

/** Braces in a name, for example, keep a template from naming a column. */
function firstNamed(names: readonly string[], input: TemplateInput): DataFile['text'] {
  for (const column of names) {
    for (const tag of [`{{ ${column} }}`, `{{& ${column} }}`]) {
      try {
        const template = compileTemplate(tag, input);
        if (template.names.length === 1 && template.names[0] === column) return { column, tag };
      } catch {
        // Try the next tag.
      }
    }
  }
  return null;
}
