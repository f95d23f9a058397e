import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { adviceOn } from '../../src/render/advice.js';

const src = join(import.meta.dirname, '../../src');
/** The folders and files that say how a row ended. */
const SAYING = [
  ...['answer', 'service', 'worker', 'prompt']
    .flatMap((folder) => readdirSync(join(src, folder)).map((file) => `${folder}/${file}`))
    .filter((file) => file !== 'service/quirks.ts'),
  ...['source/csv.ts', 'source/jsonl.ts', 'output/result-columns.ts', 'run/requeuer.ts', 'store/ledger.ts'],
];
/** How a fault is written there: in an object, as an argument of what makes one, in a table, as a constant. */
const WRITTEN = /(?:\bcode: |unusable\(\s*|invalid\(\s*|OUTCOME_UNKNOWN = )'([a-z_0-9]+)'/g;
/** Those that end a command or a run, or have a row wait: no row ends with them. */
const OF_RUNS = ['column_unknown', 'template_name_unknown', 'service_unreachable', 'no_capacity'];

it('there is advice for each error that a row can have', () => {
  const codes = new Set<string>();
  for (const file of SAYING) {
    for (const [, code = ''] of readFileSync(join(src, file), 'utf8').matchAll(WRITTEN)) codes.add(code);
  }
  const verdicts = readFileSync(join(src, 'service/verdict.ts'), 'utf8');
  const [, failures = ''] = /const FAILURES.*?= \{(.*?)\n\}/s.exec(verdicts) ?? [];
  for (const [, code = ''] of failures.matchAll(/\[\s*'([a-z_]+)'/g)) codes.add(code);
  // The last cell of the table of verdicts.
  for (const [, cell = ''] of verdicts.matchAll(/^ \* \|.*\| ([^|]*) \|$/gm))
    for (const [, code = ''] of cell.matchAll(/`([a-z_]+)`/g)) codes.add(code);

  for (const known of ['timeout', 'no_text', 'answer_out_of_range', 'outcome_unknown', 'bad_json', 'aborted'])
    expect(codes).toContain(known);
  expect([...codes].filter((code) => !OF_RUNS.includes(code) && adviceOn(code) === null)).toEqual([]);
});

it('nothing is said of a code that is not known', () => {
  expect([adviceOn('(other)'), adviceOn('__proto__'), adviceOn('constructor')]).toEqual([null, null, null]);
});
