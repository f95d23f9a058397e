import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readJobFile } from '../../src/config/job-file.js';
import type { Row } from '../../src/model.js';
import { compileTemplate } from '../../src/prompt/template.js';
import { rows, survey } from '../../src/source/source.js';

/** The job, and each row of its input with the prompt that would be sent for it. */
async function prompts(path: string): Promise<{ row: Row; prompt: string }[]> {
  const job = readJobFile(path);
  const input = await survey({ path: job.input.path });
  expect(input.columns).toEqual(expect.arrayContaining(job.input.require));
  const template = compileTemplate(job.prompt ?? '', {
    name: job.input.path,
    columns: input.columns,
    format: input.format,
  });
  const rendered = [];
  for await (const row of rows({ path: job.input.path }, input)) {
    rendered.push({ row, prompt: template.render(row) });
  }
  return rendered;
}

const files = readdirSync('jobs').map((file) => join('jobs', file));

it('there are three sample jobs', () => {
  expect(files.sort()).toEqual(['jobs/extraction.yaml', 'jobs/nightly.yaml', 'jobs/sentiment.yaml']);
});

describe.each(files)('%s', (path) => {
  it('begins with the schema for editors', () => {
    expect(readFileSync(path, 'utf8').split('\n', 1)).toEqual([
      '# yaml-language-server: $schema=../docs/job.schema.json',
    ]);
  });

  it('writes under out/ and leaves the inputs alone', () => {
    expect(readJobFile(path).output.path).toMatch(/^out\/[\w{}-]+\.(csv|jsonl)$/);
  });

  it('puts the text of each row into its prompt as it is, and ends where the answer begins', async () => {
    const job = readJobFile(path);
    const [column = ''] = job.input.require;
    for (const { row, prompt } of await prompts(path)) {
      expect(prompt).toContain(String(row.fields.get(column)));
      expect(prompt).toMatch(/\n\w+:$/);
    }
  });

  it('names every label or property of its answer in the prompt', () => {
    const { answer, prompt } = readJobFile(path);
    const properties = answer.kind === 'json' ? answer.schema['properties'] : {};
    const names =
      answer.kind === 'labels'
        ? [answer.labels, answer.synonyms ?? []].flat(2)
        : Object.keys(properties ?? {});
    expect(names.length).toBeGreaterThan(1);
    for (const name of names) expect(prompt).toContain(name);
  });
});

it('the extraction job names the customer where the row has one, and leaves no gap where it has none', async () => {
  const rendered = await prompts('jobs/extraction.yaml');
  const named = rendered.filter(({ row }) => row.fields.has('customer'));
  expect(named[0]?.prompt).toContain('(email)\nKnown customer: Hannah Whitlock\nMessage:\n');
  const unnamed = rendered.filter(({ row }) => !row.fields.has('customer'));
  expect(unnamed.length).toBeGreaterThan(0);
  for (const { prompt } of unnamed) expect(prompt).toMatch(/Received: \S+ \(.+\)\nMessage:\n/);
});

it('the nightly job writes a file for each day, at two in the morning', () => {
  const job = readJobFile('jobs/nightly.yaml');
  expect(job.schedule).toEqual({ cron: '0 2 * * *', timezone: 'Europe/Berlin' });
  expect(job.output.path).toContain('{{date}}');
});
