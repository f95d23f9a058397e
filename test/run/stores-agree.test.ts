import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { Workplace } from '../support/promptmill.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

const REVIEWS = join(import.meta.dirname, '../../../shared/data/clothing-reviews.csv');
/** Rows that are called on each store. */
const PART = 250;
/** What may differ between two runs over the same rows. */
const VOLATILE = ['latency_ms', 'attempts', 'created', 'completion_id'];

const suite = 'a thousand real reviews on embedded and Redis';
const missing = [
  ...(existsSync(REVIEWS) ? [] : ['../shared/data/clothing-reviews.csv']),
  ...(haveRedis() ? [] : ['redis-server']),
];

if (missing.length === 1 && missing[0]?.startsWith('..')) {
  console.warn(`NOT RUN: ${suite}. Needs ${missing[0]}, which is not part of the project.`);
  describe.skip(`${suite} (needs ${missing[0]})`, () => {});
} else if (missing.length > 0) {
  describeMissing(suite, missing.join(', '));
} else {
  describe(suite, () => {
    const work = new Workplace();
    const stateDir = mkdtempSync(join(tmpdir(), 'promptmill-state-'));
    let redis: Server;
    let emulator: Emulator;
    let stores: string[] = [];

    beforeAll(async () => {
      [redis, emulator] = await Promise.all([startRedis(), startEmulator()]);
      stores = ['embedded', redis.url];
    });
    afterAll(async () => {
      await Promise.all([redis.stop(), emulator.close()]);
      rmSync(stateDir, { recursive: true, force: true });
      work.remove();
    });

    async function runOn(store: string, job: string, ...flags: readonly string[]): Promise<string> {
      const { code, stderr } = await work.call(['run', job, ...flags], {
        PROMPTMILL_BASE_URL: emulator.url,
        PROMPTMILL_API_KEY: emulator.keys[0],
        PROMPTMILL_QUEUE: store,
        PROMPTMILL_STATE_DIR: stateDir,
      });
      expect(code, stderr).toBe(0);
      return stderr;
    }
    const ALL = '1,000 rows = 958 completed + 0 filtered + 0 failed + 42 skipped';

    const job = (input: string, output: string): string =>
      work.job(
        {
          input: { path: input, require: ['Review Text'] },
          prompt: 'Is this review positive, negative or neutral?\nReview: {{ Review Text }}\nSentiment:',
          parameters: { max_tokens: 5, temperature: 0 },
          answer: { labels: ['positive', 'negative', 'neutral'] },
          output: { path: output, formulas: 'raw' },
        },
        `${output}.yaml`,
      );

    it('gives equal CSV records in input order, with the input cells unchanged to the byte', async () => {
      const input = parse(readFileSync(REVIEWS), { columns: false });
      const outputs: string[][][] = [];
      for (const [i, store] of stores.entries()) {
        // All of them on one store; on the other enough for several chunks.
        const flags = i === 0 ? [] : ['--limit', `${PART}`];
        const said = await runOn(store, job(REVIEWS, `out-${i}.csv`), ...flags);
        if (i === 0) expect(said).toContain(ALL);
        outputs.push(parse(work.read(`out-${i}.csv`), { columns: false }));
      }
      const [header = [], ...records] = outputs[0] ?? [];
      expect(records.map((record) => record.slice(0, 11))).toEqual(input.slice(1));
      expect(header.slice(0, 11)).toEqual(['column_1', ...(input[0] ?? []).slice(1)]);
      const stable = header.flatMap((name, i) => (VOLATILE.includes(name) ? [] : i));
      const compared = outputs.map((rows) => rows.map((row) => stable.map((i) => row[i])));
      expect(compared[1]).toEqual(compared[0]?.slice(0, PART + 1));
    });

    it('gives the same answers for the same rows as JSONL, with the input lines unchanged to the byte', async () => {
      const rows: Record<string, string>[] = parse(readFileSync(REVIEWS), {
        columns: (names: string[]) => names.map((name, i) => name || `column_${i + 1}`),
      });
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
}
