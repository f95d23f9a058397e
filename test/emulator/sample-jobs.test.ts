import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse as parseCsv } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { answerReader } from '../../src/answer/answer.js';
import { answer } from '../../src/emulator/answers/answer.js';
import { sharesOf, term } from '../../src/emulator/answers/labels.js';
import { randomFrom } from '../../src/emulator/random.js';
import type { Json } from '../../src/model.js';
import { compileTemplate } from '../../src/prompt/template.js';
import { said } from '../answer/said.js';

type Fields = { readonly [name: string]: Json };

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

const REVIEWS: Fields[] = parseCsv(read('samples/reviews.csv'), { columns: true });
const MESSAGES: Fields[] = read('samples/messages.jsonl')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));

/** What the emulator answers to a sample job's prompt for each row that has a text, as the job reads it. */
function rehearse(job: string, rows: readonly Fields[], text: string) {
  const { prompt, answer: asked } = parseYaml(read(`jobs/${job}.yaml`));
  const format = { hasJson: text !== 'review' };
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const template = compileTemplate(prompt, { name: job, columns, format });
  const reader = answerReader(
    asked.labels ? { kind: 'labels', labels: asked.labels } : { kind: 'json', schema: asked.json },
  );
  return rows
    .filter((row) => String(row[text] ?? '').trim() !== '')
    .map((row) => {
      const rendered = template.render({ fields: new Map(Object.entries(row)) });
      const given = reader.read(said(answer(rendered, randomFrom(1, rendered), 0)));
      const values = new Map(reader.columns.map((name, column) => [name, given.values[column]]));
      return { row, given, values };
    });
}

const share = <T>(some: readonly T[], has: (one: T) => boolean) => some.filter(has).length / some.length;

describe('a rehearsal looks like a run', () => {
  it('of the sentiment job: its labels, all of them, and more often than not as English reviews are rated', () => {
    const results = rehearse('sentiment', REVIEWS, 'review').map(({ row, given }) => ({
      language: row['language'],
      rating: Number(row['rating']),
      label: given.values[0],
    }));
    for (const label of ['positive', 'negative', 'neutral']) {
      expect(share(results, (result) => result.label === label)).toBeGreaterThan(0.2);
    }
    const opinions = results.filter(
      ({ language, rating }) => language === 'en' && rating > 0 && rating !== 3,
    );
    const agrees = ({ rating, label }: { rating: number; label: unknown }) =>
      label === (rating > 3 ? 'positive' : 'negative');
    expect(share(opinions, agrees)).toBeGreaterThan(0.5);
  });

  it('of the extraction job: valid JSON, with what the messages say in so many characters', () => {
    const results = rehearse('extraction', MESSAGES, 'message');
    expect(new Set(results.map(({ given }) => given.fault?.message ?? 'valid'))).toEqual(new Set(['valid']));

    const withOrder = results.filter(({ row }) => /\bW-\d{6}\b/.test(String(row['message'])));
    expect(
      share(withOrder, ({ row, values }) =>
        String(row['message']).includes(String(values.get('order_number'))),
      ),
    ).toBeGreaterThan(0.95);
    expect(new Set(results.map(({ values }) => values.get('category'))).size).toBe(9);
    expect(new Set(results.map(({ values }) => values.get('urgency')))).toEqual(
      new Set(['low', 'normal', 'high']),
    );
    expect(results[0]?.given.values.slice(0, 3)).toEqual([
      'W-104826',
      'Hannah Whitlock',
      'hannah.whitlock@example.com',
    ]);
  });

  it('of the nightly job: nothing but its topics, and all of them', () => {
    const results = rehearse('nightly', REVIEWS, 'review').flatMap(({ given }) => given.counted);
    expect(share(results, (counted) => counted !== '(none)')).toBeGreaterThan(0.95);
    const topics = ['quality', 'price', 'delivery', 'size', 'service', 'other'];
    for (const topic of topics) expect(share(results, (counted) => counted === topic)).toBeGreaterThan(0.02);
  });
});

describe('the confidence of a rehearsal', () => {
  /** For each review: how sure the reading is of its label, and whether the stars agree. */
  const READINGS = REVIEWS.flatMap((row) => {
    const [review, stars] = [String(row['review']).trim(), Number(row['rating'])];
    if (review === '' || stars === 0) return [];
    const labels = ['positive', 'negative', 'neutral'].map((name) => term(name));
    const [first] = sharesOf(review, labels, randomFrom(1, review));
    const gold = stars < 3 ? 'negative' : stars === 3 ? 'neutral' : 'positive';
    return [{ confidence: first?.share ?? 0, isRight: first?.text === gold }];
  });
  const accuracyOf = (some: typeof READINGS) => share(some, ({ isRight }) => isRight);

  it('is about how often the stars of the sample reviews agree', () => {
    const groups = new Map<number, typeof READINGS>();
    for (const reading of READINGS) {
      const tenth = Math.floor(10 * reading.confidence);
      groups.set(tenth, [...(groups.get(tenth) ?? []), reading]);
    }
    expect(groups.size).toBeGreaterThan(4);
    let error = 0;
    for (const group of groups.values()) {
      const mean = group.reduce((sum, { confidence }) => sum + confidence, 0) / group.length;
      error += (group.length / READINGS.length) * Math.abs(mean - accuracyOf(group));
    }
    // Expected calibration error; one that says 1 of every answer would have 0.6.
    expect(error).toBeLessThan(0.08);
  });

  it('makes abstaining worth while: the surer, the more often right', () => {
    const above = (least: number) => READINGS.filter(({ confidence }) => confidence >= least);
    expect(accuracyOf(above(0.5))).toBeGreaterThan(accuracyOf(READINGS) + 0.1);
    expect(accuracyOf(above(0.6))).toBeGreaterThan(accuracyOf(above(0.5)) + 0.03);
    expect(above(0.6).length).toBeGreaterThan(40);
  });
});
