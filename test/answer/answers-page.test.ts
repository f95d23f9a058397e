import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { answerReader } from '../../src/answer/answer.js';
import { readEnvironment } from '../../src/config/environment.js';
import { jobSchema } from '../../src/config/job-schema.js';
import { settle } from '../../src/config/settings.js';
import { said } from './said.js';

const page = readFileSync(join(import.meta.dirname, '../../docs/answers.md'), 'utf8');
const sections = page.split(/^## /m).slice(1);

/** The examples of a section, and the rows of its table: texts, and what they are read as. */
const examplesOf = (section: string) =>
  [...section.matchAll(/```yaml part\n([^`]+)```/g)].map(([, yaml]) => parse(yaml ?? ''));
const rowsOf = (section: string) =>
  [...section.matchAll(/^\| (`.+`) \| ([^|:]+?)(?::[^|]*)? \|$/gm)].map(([, texts = '', answer = '']) => ({
    texts: [...texts.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text.replaceAll('\\n', '\n')),
    answer,
  }));

function specOf(example: object) {
  const job = jobSchema.parse({ service: { deployment: 'd' }, input: { path: 'a.csv' }, ...example });
  return settle({ ...job, name: 'job' }, readEnvironment({}), {}).answer;
}

describe('docs/answers.md', () => {
  it('has examples for each kind of answer', () => {
    expect(sections.map((section) => examplesOf(section).map((example) => specOf(example).kind))).toEqual([
      // What is asked of them.
      ['labels'],
      ['labels', 'labels'],
      ['labels'],
      ['number'],
      ['json'],
      // What is done where it does not fit.
      ['json'],
      // How sure the model is, and what follows from it.
      ['labels'],
      ['labels'],
      ['labels', 'labels', 'labels'],
      // What people say.
      [],
    ]);
  });

  const cases = sections.flatMap((section) => {
    const example = examplesOf(section).at(-1);
    return rowsOf(section).flatMap(({ texts, answer }) => texts.map((text) => ({ example, text, answer })));
  });

  it.each(cases)('says what is read out of $text: $answer', ({ example, text, answer }) => {
    const [value] = answerReader(specOf(example)).read(said(text)).values;
    const shown = Array.isArray(value) ? value.join(', ') || 'none' : String(value ?? 'nothing');
    expect(shown).toBe(answer);
  });

  it('has a table of texts for each kind of answer but JSON', () => {
    const rows = sections.map((section) => rowsOf(section).length);
    expect(rows.map((count) => count > 5)).toEqual([false, true, true, true, ...Array(6).fill(false)]);
  });
});
