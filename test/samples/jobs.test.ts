import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import { readJobFile } from '../../src/config/job-file.js';
import type { Row } from '../../src/core/model.js';
import { randomFrom } from '../../src/core/random.js';
import { answer } from '../../src/emulator/answers/answer.js';
import { readPrompt } from '../../src/emulator/answers/read-prompt.js';
import { askedText } from '../../src/prompt/row-request.js';
import { compileTemplate } from '../../src/prompt/template.js';
import { rows, survey } from '../../src/source/source.js';
import { said } from '../answer/said.js';

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

it('there are four sample jobs', () => {
  expect(files.sort()).toEqual([
    'jobs/chat.yaml',
    'jobs/extraction.yaml',
    'jobs/nightly.yaml',
    'jobs/sentiment.yaml',
  ]);
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
      if (job.endpoint.operation === 'completions') expect(prompt).toMatch(/\n\w+:$/);
    }
  });

  it('names every label or property of its answer in the prompt', () => {
    const job = readJobFile(path);
    const { answer } = job;
    const prompt = askedText(job);
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

describe('a rehearsal looks like a run', () => {
  /** What the emulator answers for each row that has a text, as the job reads it. */
  async function rehearse(name: string, text: string) {
    const path = `jobs/${name}.yaml`;
    const { answer: spec } = readJobFile(path);
    const reader = answerReader(spec);
    return (await prompts(path)).flatMap(({ row: { fields }, prompt }) => {
      if (String(fields.get(text)).trim() === '') return [];
      const given = reader.read(said(answer(readPrompt(prompt, spec), randomFrom(1, prompt), 0)));
      return [{ fields, given, values: new Map(reader.columns.map((name, at) => [name, given.values[at]])) }];
    });
  }
  const share = <T>(some: readonly T[], has: (one: T) => boolean) => some.filter(has).length / some.length;

  it('of the sentiment job: its labels, all of them, and as the reviews are rated', async () => {
    const results = (await rehearse('sentiment', 'review')).map(({ fields, given }) => ({
      rating: Number(fields.get('rating')),
      label: given.values[0],
    }));
    for (const label of ['positive', 'negative', 'neutral']) {
      expect(share(results, (result) => result.label === label)).toBeGreaterThan(0.1);
    }
    const opinions = results.filter(({ rating }) => rating > 0 && rating !== 3);
    const agrees = ({ rating, label }: { rating: number; label: unknown }) =>
      label === (rating > 3 ? 'positive' : 'negative');
    expect(share(opinions, agrees)).toBeGreaterThan(0.9);
  });

  it('of the extraction job: valid JSON, with what the messages say in so many characters', async () => {
    const results = await rehearse('extraction', 'message');
    expect(new Set(results.map(({ given }) => given.problem?.message ?? 'valid'))).toEqual(
      new Set(['valid']),
    );
    const withOrder = results.filter(({ fields }) => /\bW-\d{6}\b/.test(String(fields.get('message'))));
    expect(
      share(withOrder, ({ fields, values }) =>
        String(fields.get('message')).includes(String(values.get('order_number'))),
      ),
    ).toBeGreaterThan(0.95);
    expect(new Set(results.map(({ values }) => values.get('category'))).size).toBe(9);
    expect(new Set(results.map(({ values }) => values.get('urgency'))).size).toBe(3);
    expect(results[0]?.given.values.slice(0, 3)).toEqual([
      'W-104826',
      'Hannah Whitlock',
      'hannah.whitlock@example.com',
    ]);
  });

  it('of the nightly job: nothing but its topics, and all of them', async () => {
    const results = (await rehearse('nightly', 'review')).flatMap(({ given }) => given.counted);
    for (const topic of ['quality', 'price', 'delivery', 'size', 'service', 'other'])
      expect(share(results, (counted) => counted === topic)).toBeGreaterThan(0.02);
    expect(results).not.toContain('(none)');
  });
});
