import { readFileSync } from 'node:fs';
import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const textOf = (path: string): string =>
  // Refuses bytes that are no UTF-8, and leaves a byte-order mark in the text to be seen.
  new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(path));

const distinct = (values: readonly string[]): number => new Set(values).size;

describe.each(['samples/reviews.csv', 'samples/messages.jsonl'])('%s', (path) => {
  it('is UTF-8 without a byte-order mark, in LF lines, and ends with one', () => {
    const text = textOf(path);
    expect(text).not.toMatch(/[\uFEFF\uFFFD\r\0]/);
    expect(text).toMatch(/[^\n]\n$/);
  });
});

describe('the review sample', () => {
  const header = ['review_id', 'product', 'language', 'rating', 'review', 'sentiment_true'] as const;
  const [first, ...records] = parse(textOf('samples/reviews.csv'), { record_delimiter: '\n' });
  const all = z
    .array(z.tuple([z.string(), z.string(), z.string(), z.string(), z.string(), z.string()]))
    .parse(records)
    .map(([id, product, language, rating, review, gold]) => ({
      id,
      product,
      language,
      rating,
      review,
      gold,
    }));
  const written = all.map(({ review }) => review).filter((review) => review !== '');

  it('has its header and at least 300 records', () => {
    expect(first).toEqual(header);
    expect(all.length).toBeGreaterThanOrEqual(300);
  });

  it('numbers the reviews without gaps, with leading zeros', () => {
    expect(all.map(({ id }) => id)).toEqual(all.map((_, i) => `R${String(i + 1).padStart(4, '0')}`));
  });

  it('names a product in each, and rates from 1 to 5 or not at all', () => {
    expect(all.filter(({ product, rating }) => product === '' || !/^[1-5]?$/.test(rating))).toEqual([]);
    expect(all.some(({ rating }) => rating === '')).toBe(true);
  });

  it('has the right answer for every sixth review, whatever its language', () => {
    const read = all.filter((_, i) => i % 6 === 0 && all[i]?.review !== '');
    expect(all.filter(({ gold }) => gold !== '')).toEqual(read);
    expect(distinct(read.map(({ language }) => language))).toBeGreaterThan(7);
    for (const label of ['positive', 'negative', 'neutral']) {
      expect(read.filter(({ gold }) => gold === label).length).toBeGreaterThanOrEqual(8);
    }
  });

  it('repeats no review', () => {
    expect(distinct(written.map((review) => review.toLowerCase()))).toBe(written.length);
  });

  it('leaves 8 to 12 reviews empty, to be skipped', () => {
    const empty = all.length - written.length;
    expect(empty).toBeGreaterThanOrEqual(8);
    expect(empty).toBeLessThanOrEqual(12);
  });

  it('is English for the most part, and has ten more languages', () => {
    const languages = ['ar', 'de', 'en', 'es', 'fr', 'it', 'ja', 'nl', 'pl', 'pt', 'tr'];
    expect([...new Set(all.map(({ language }) => language))].sort()).toEqual(languages);
    const english = all.filter(({ language }) => language === 'en').length / all.length;
    expect(english).toBeGreaterThan(0.5);
    expect(english).toBeLessThan(0.7);
  });

  it.each([
    ['quotes', /"/, 10],
    ['commas', /,/, 100],
    ['line breaks', /\n/, 15],
    ['empty lines', /\n\n/, 2],
    ['emoji', /\p{Emoji_Presentation}/u, 5],
    ['text that a spreadsheet would run (fault 54)', /^[=+@-]/, 5],
    ['markup (fault 55)', /<\w+>/, 2],
    ['a placeholder of a template (fault 56)', /\{\{.+\}\}/, 1],
  ])('has reviews with %s', (_, pattern, least) => {
    expect(written.filter((review) => pattern.test(review)).length).toBeGreaterThanOrEqual(least);
  });
});

describe('the message sample', () => {
  const messageSchema = z.strictObject({
    id: z.string(),
    channel: z.enum(['email', 'chat', 'phone note', 'form']),
    received: z.iso.datetime(),
    message: z.string(),
    customer: z.strictObject({ name: z.string().min(1), tier: z.string().min(1) }).optional(),
  });
  const all = textOf('samples/messages.jsonl')
    .trimEnd()
    .split('\n')
    .map((line) => messageSchema.parse(JSON.parse(line)));
  const written = all.map(({ message }) => message).filter((message) => message !== '');

  it('has 150 messages, numbered without gaps, in the order received', () => {
    expect(all.map(({ id }) => id)).toEqual(
      Array.from({ length: 150 }, (_, i) => `m-${String(i + 1).padStart(4, '0')}`),
    );
    const times = all.map(({ received }) => received);
    expect(times).toEqual(times.toSorted());
  });

  it('leaves 3 messages empty and repeats none', () => {
    expect(all.length - written.length).toBe(3);
    expect(distinct(written)).toBe(written.length);
  });

  it('names the customer in a part of the messages, some beyond ASCII', () => {
    const names = all.flatMap(({ customer }) => customer?.name ?? []);
    expect(names.length).toBeGreaterThan(30);
    expect(names.length).toBeLessThan(100);
    expect(names.some((name) => /[^\0-\x7F]/.test(name))).toBe(true);
  });

  it('has messages of several lines', () => {
    expect(written.filter((message) => message.includes('\n')).length).toBeGreaterThanOrEqual(10);
  });

  it('writes only to addresses that are reserved for examples (RFC 2606)', () => {
    const domains = written.flatMap((message) => message.match(/(?<=\S@)\w[\w.-]*\w/g) ?? []);
    expect(domains.length).toBeGreaterThan(15);
    expect(domains.filter((domain) => !/^example\.(com|net|org)$/.test(domain))).toEqual([]);
  });
});
