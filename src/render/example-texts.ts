import type { Scores } from '../account/scores.js';
import { clipped } from '../core/figures.js';
import { valueText } from '../core/json.js';
import { type OutputRecord, outputAt, readOutput } from '../output/reader.js';
import { columnsInTags } from '../prompt/template.js';

/** By row number: the columns of the row that the prompt uses. Absent if its record has none of them. */
export type ExampleTexts = { readonly [row: number]: string };

/** Characters. */
const LONGEST = 200;

/** Reads the output up to the last example of the scores. @param prompt its template; `null`: rows have their own */
export async function exampleTexts(
  output: string,
  scores: Scores | undefined,
  prompt: string | null,
): Promise<ExampleTexts> {
  const scored = scores === undefined ? [] : [scores, ...Object.values(scores.properties)];
  const rows = new Set(scored.flatMap(({ confusions }) => confusions.flatMap(({ examples }) => examples)));
  const last = Math.max(0, ...rows);
  const columns = prompt === null ? ['prompt'] : columnsInTags(prompt);
  const texts: { [row: number]: string } = {};
  if (last === 0) return texts;
  for await (const records of readOutput(outputAt(output))) {
    for (const record of records) {
      const text = rows.has(record.number) ? textOf(record, columns) : '';
      if (text !== '') texts[record.number] = text;
      if (record.number === last) return texts;
    }
  }
  return texts;
}

function textOf(record: OutputRecord, columns: readonly string[]): string {
  const texts = columns.map((name) => valueText(record.input(name)).trim().replaceAll(/\s+/g, ' '));
  return clipped(texts.filter(Boolean).join(' · '), LONGEST);
}
