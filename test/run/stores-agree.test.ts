import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { Workplace } from '../support/promptmill.js';
import { describeOn } from '../support/stores.js';

const REVIEWS = join(import.meta.dirname, '../../samples/reviews.csv');
/** Rows that are called on Redis. */
const PART = 250;
const ALL = '348 rows = 336 completed + 2 filtered + 0 failed + 10 skipped';
/** What may differ between two runs over the same rows. */
const VOLATILE = ['latency_ms', 'attempts', 'created', 'completion_id'];

describeOn('redis', 'the sample of reviews, on the embedded store and', (store) => {
  const work = new Workplace();
  let emulator: Emulator;

  beforeAll(async () => {
    emulator = await startEmulator();
  });
  afterAll(async () => {
    await emulator.close();
    work.remove();
  });

  async function runOn(queue: string, job: string, ...flags: readonly string[]): Promise<string> {
    const { code, stderr } = await work.call(['run', job, ...flags], {
      ...store().env,
      PROMPTMILL_BASE_URL: emulator.url,
      PROMPTMILL_API_KEY: emulator.keys[0],
      PROMPTMILL_QUEUE: queue,
    });
    expect(code, stderr).toBe(0);
    return stderr;
  }

  const job = (input: string, output: string): string =>
    work.job(
      {
        input: { path: input, require: ['review'] },
        prompt: 'Is this review positive, negative or neutral?\nReview: {{ review }}\nSentiment:',
        parameters: { max_tokens: 5, temperature: 0 },
        answer: { labels: ['positive', 'negative', 'neutral'] },
        output: { path: output, formulas: 'raw' },
      },
      `${output}.yaml`,
    );

  it('gives equal CSV records in input order, with the input cells unchanged to the byte', async () => {
    const input: string[][] = parse(readFileSync(REVIEWS), { columns: false });
    expect(await runOn('embedded', job(REVIEWS, 'out-0.csv'))).toContain(ALL);
    // Enough for several chunks.
    await runOn(store().target, job(REVIEWS, 'out-1.csv'), '--limit', String(PART));
    const outputs = ['out-0.csv', 'out-1.csv'].map((name): string[][] =>
      parse(work.read(name), { columns: false }),
    );
    const [header = [], ...records] = outputs[0] ?? [];
    const columns = input[0]?.length;
    expect([header, ...records].map((record) => record.slice(0, columns))).toEqual(input);
    const stable = header.flatMap((name, i) => (VOLATILE.includes(name) ? [] : i));
    const compared = outputs.map((rows) => rows.map((row) => stable.map((i) => row[i])));
    expect(compared[1]).toEqual(compared[0]?.slice(0, PART + 1));
  });

  it('gives the same answers for the same rows as JSONL, with the input lines unchanged to the byte', async () => {
    const rows: Record<string, string>[] = parse(readFileSync(REVIEWS), { columns: true });
    const lines = rows.map((row) => JSON.stringify(row));
    work.write('reviews.jsonl', `${lines.join('\n')}\n`);
    expect(await runOn('embedded', job('reviews.jsonl', 'out.jsonl'))).toContain(ALL);
    const records = work.lines('out.jsonl');
    expect(records.map(({ row }) => row)).toEqual(lines.map((_, i) => i + 1));
    expect(records.map(({ input }) => JSON.stringify(input))).toEqual(lines);
    expect(records.map(({ answer }) => answer ?? '')).toEqual(
      work.records('out-0.csv').map(({ answer }) => answer),
    );
  });
});
