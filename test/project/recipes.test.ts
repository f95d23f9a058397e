import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'csv-stringify/sync';
import { afterAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { Workplace } from '../support/promptmill.js';

const page = readFileSync(join(import.meta.dirname, '../../docs/recipes.md'), 'utf8');
const blocks = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text = '']) => text);
const jobs = blocks.flatMap((text) => {
  const [, name] = /^# (jobs\/[\w-]+\.yaml)\n/.exec(text) ?? [];
  return name === undefined ? [] : [{ name, text, job: parse(text) }];
});

const work = new Workplace();
afterAll(() => work.remove());

/** What a recipe needs of its input: the columns of its templates, and those that it names. */
function columnsOf({ input, system = '', prompt, answer = {} }: (typeof jobs)[number]['job']): string[] {
  const inTemplates = [...`${system}\n${prompt}`.matchAll(/\{\{ (\w+) \}\}/g)].map(([, column]) => column);
  const named = [...(input.require ?? []), input.id, answer.gold];
  return [...new Set([...inTemplates, ...named])].filter((column) => column !== undefined);
}

it.each(jobs)('$name passes `check` as it is on the page', async ({ name, text, job }) => {
  const columns = columnsOf(job);
  const right = job.answer?.labels?.[0] ?? job.answer?.number?.max;
  const row = (n: number): unknown[] =>
    columns.map((column) => (column === job.answer?.gold ? right : `${column} ${n}`));
  work.write(job.input.path, stringify([columns, row(1), row(2), row(3)]));
  const { code, stderr } = await work.call(['check', work.write(name, text)]);
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('3 rows = 3 to send');
  expect(stderr).not.toContain('mistakes?');
});

it('the commands of the page name jobs of the page, and options that exist', async () => {
  const commands = page.replaceAll('", "', ' ').matchAll(/promptmill"? run (jobs\/[\w-]+\.yaml)([^`"&\n]*)/g);
  const { stdout } = await work.call(['run', '--help']);
  let seen = 0;
  for (const [, job, options = ''] of commands) {
    expect(jobs.map(({ name }) => name)).toContain(job);
    for (const [option] of options.matchAll(/--[\w-]+/g)) expect(stdout).toContain(` ${option} `);
    seen += 1;
  }
  expect(seen).toBeGreaterThan(2);
});
