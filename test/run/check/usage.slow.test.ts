import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { type Emulator, startEmulator } from '../../../src/emulator/server.js';
import { Workplace } from '../../support/promptmill.js';
import { oneStore } from '../../support/stores.js';

const ROOT = join(import.meta.dirname, '../../..');
const REVIEWS = join(ROOT, '../shared/data/clothing-reviews.csv');

/** A job that takes its input from anywhere, without the limits that would make it slow. */
const sample = (name: string, input: string): object => {
  const { limits, ...job } = parse(readFileSync(join(ROOT, 'jobs', name), 'utf8'));
  return { ...job, input: { ...job.input, path: input } };
};

describe('what check says before is what the service bills after', () => {
  const store = oneStore();
  const work = new Workplace();
  let emulator: Emulator;
  beforeAll(async () => {
    // A blocked prompt is not billed, and nobody knows beforehand which ones are.
    emulator = await startEmulator({
      filter: { prompts: { threshold: 'off' }, completions: { threshold: 'off' } },
    });
  });
  afterAll(async () => {
    await emulator.close();
    work.remove();
  });

  async function compare(name: string, job: object, ...flags: readonly string[]): Promise<void> {
    const file = work.job({ ...job, output: { path: `out-${name}.jsonl` } }, `${name}.yaml`);
    const check = await work.call(['check', file, '--json', ...flags]);
    expect(check.code, check.stderr).toBe(0);
    const report = JSON.parse(check.stdout);

    const env = { PROMPTMILL_BASE_URL: emulator.url, PROMPTMILL_API_KEY: emulator.keys[0], ...store() };
    const run = await work.call(['run', file, '--json', ...flags], env);
    expect(run.code, run.stderr).toBe(0);
    const { rows, usage, cost, calls, input, reused } = JSON.parse(run.stdout);

    expect(report.tokens.prompt_tokens).toBe(usage.prompt_tokens);
    expect(usage.completion_tokens).toBeGreaterThan(0);
    expect(usage.completion_tokens).toBeLessThanOrEqual(report.tokens.completion_tokens.most);
    expect(report.requests).toBe(calls.sent);
    expect(report.input).toEqual(input);
    const copied = reused?.copied ?? 0;
    expect(report.rows).toMatchObject({
      total: rows.total,
      to_send: rows.completed - copied,
      skipped: rows.skipped,
    });
    expect(report.rows.copied ?? 0).toBe(copied);
    if (cost !== null) {
      expect(cost).toBeGreaterThan(report.cost.least);
      expect(cost).toBeLessThanOrEqual(report.cost.most);
    }
  }

  it('for labels of reviews, cl100k_base', () =>
    compare('sentiment', sample('sentiment.yaml', join(ROOT, 'samples/reviews.csv'))));

  it('for topics of reviews by the older model, p50k_base', () =>
    compare('nightly', sample('nightly.yaml', join(ROOT, 'samples/reviews.csv'))));

  it('for JSON out of messages', () =>
    compare('extraction', sample('extraction.yaml', join(ROOT, 'samples/messages.jsonl'))));

  it('for rows with parameters of their own that share requests, a third of them copies', {
    timeout: 120_000,
  }, () => {
    const lines = Array.from({ length: 90 }, (_, i) =>
      JSON.stringify({
        custom_id: `r${i}`,
        body: {
          prompt: `Tell me about ${i % 60}`,
          max_tokens: (i % 3) + 3,
          best_of: (i % 2) + 1,
          suffix: ' The end.',
        },
      }),
    );
    const input = work.write('bodies.jsonl', `${lines.join('\n')}\n`);
    return compare('bodies', {
      input: { path: input, dedupe: true },
      prompt: undefined,
      parameters: { temperature: 0 },
      limits: { prompts_per_request: 7, chunk_size: 20 },
    });
  });

  it('for rows whose label is voted on, several of them in a request', () => {
    const reviews = ['I love it!', 'Broke on day one.', 'Good but it leaks.', 'Das ist Satz 1.'];
    const rows = Array.from({ length: 40 }, (_, i) => `${i},${reviews[i % 4]}`);
    const input = work.write('votes.csv', `id,review\n${rows.join('\n')}\n`);
    return compare('votes', {
      input: { path: input },
      prompt: 'Is review {{ id }} positive, negative or neutral?\nReview: {{ review }}\nAnswer:',
      parameters: { max_tokens: 5 },
      answer: { labels: ['positive', 'negative', 'neutral'], votes: 5 },
      prices: { prompt: 0.0015, completion: 0.002 },
      limits: { prompts_per_request: 3, chunk_size: 10 },
    });
  });

  const there = existsSync(REVIEWS);
  if (!there) console.warn(`NOT RUN: ${REVIEWS} is not there, so check is not held against real reviews`);
  it.skipIf(!there)('for real reviews', { timeout: 180_000 }, () => {
    const job = {
      input: { path: REVIEWS, require: ['Review Text'] },
      prompt: 'Is this review positive, negative or neutral?\nReview: {{ Review Text }}\nAnswer:',
      parameters: { max_tokens: 5, temperature: 0 },
      prices: { prompt: 0.0015, completion: 0.002 },
      limits: { concurrency: 50 },
    };
    return compare('clothing', job, '--limit', '300');
  });
});
