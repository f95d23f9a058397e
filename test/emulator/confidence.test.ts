import { readFileSync } from 'node:fs';
import { parse } from 'csv-parse/sync';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { randomFrom } from '../../src/core/random.js';
import { sharesOf, term } from '../../src/emulator/answers/labels.js';
import { sharesAlong } from '../../src/emulator/logprobs.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { call, SENTIMENT } from './call.js';

let emulator: Emulator;
beforeAll(async () => {
  emulator = await startEmulator();
});
afterAll(() => emulator.close());

const about = (review: string) => SENTIMENT.replace('I love it!', review);
const MIXED = about('The warm one is great, the other one broke and leaks.');
const TOPIC = 'Is the message about billing, technical support or shipping?\n\nMessage: $\nCategory:';

/** Probabilities of the likeliest tokens at one place of the first choice. */
async function listedAt(place: number, prompt: string, more: object = {}) {
  const { body } = await call(emulator, { prompt, temperature: 0, max_tokens: 5, logprobs: 5, ...more });
  const top: Record<string, number> = body.choices[0].logprobs.top_logprobs[place];
  return new Map(Object.entries(top).map(([token, logprob]) => [token, Math.exp(logprob)]));
}

const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, number) => total + number, 0);

describe('the probabilities of a label', () => {
  it('are high after a plain review, closer together after a mixed one, even after one that says nothing', async () => {
    const [plain, mixed, open] = await Promise.all([
      listedAt(0, about('I love it, perfect, great, comfortable!')),
      listedAt(0, MIXED),
      listedAt(0, about('Das ist Satz 1.')),
    ]);
    expect(plain.get(' positive')).toBeGreaterThan(0.75);
    expect(mixed.get(' neutral')).toBeGreaterThan(0.35);
    expect(mixed.get(' neutral')).toBeLessThan(0.5);
    expect(mixed.get(' negative')).toBeGreaterThan(0.2);
    const labels = [' positive', ' negative', ' neutral'].map((label) => open.get(label) ?? 0);
    expect(Math.min(...labels)).toBeGreaterThan(0.28);
    expect(Math.max(...labels)).toBeLessThan(0.35);
  });

  it('go to its other spellings, too, and leave some that is not seen', async () => {
    const listed = await listedAt(0, SENTIMENT);
    expect([...listed.keys()].slice(0, 3)).toEqual([' positive', ' neutral', ' negative']);
    expect([...listed.keys()].slice(3).sort()).toEqual([' Positive', 'positive']);
    expect(sum(listed.values())).toBeGreaterThan(0.9);
    expect(sum(listed.values())).toBeLessThan(0.99);
  });

  it('are the same whatever the temperature, and for every candidate', async () => {
    const listed = await listedAt(0, MIXED);
    const { body } = await call(emulator, { prompt: MIXED, logprobs: 5, n: 8, temperature: 1.5 });
    for (const { text, logprobs } of body.choices) {
      const [top] = logprobs.top_logprobs;
      expect(text.startsWith(logprobs.tokens[0])).toBe(true);
      for (const [token, share] of listed) expect(Math.exp(top[token])).toBeCloseTo(share, 7);
    }
  });

  it('are those of the words that it shares with the text where it is no sentiment', async () => {
    const listed = await listedAt(0, TOPIC.replace('$', 'The support line is dead.'));
    expect([...listed.keys()][0]).toBe(' technical');
    expect(listed.get(' technical')).toBeGreaterThan(0.6);
    const second = await listedAt(1, TOPIC.replace('$', 'The support line is dead.'));
    expect(second.get(' support')).toBeCloseTo(0.999, 5);
    expect(second.size).toBe(5);
  });

  it('meet in the token with which several labels begin', () => {
    const possible = [
      { pieces: [' very', ' good'], share: 0.3 },
      { pieces: [' very', ' bad'], share: 0.1 },
      { pieces: [' neutral'], share: 0.6 },
    ];
    const [first, second, ...rest] = sharesAlong([' very', ' good', '.'], possible);
    expect([...(first ?? [])]).toEqual([
      [' very', 0.4],
      [' neutral', 0.6],
    ]);
    expect(second?.get(' good')).toBeCloseTo(0.75, 12);
    expect(rest).toEqual([]);
    expect(sharesAlong([' other'], possible)).toEqual([]);
  });
});

describe('answers above temperature 0', () => {
  /** How often each text is answered, out of 1,280. */
  async function votes(temperature: number): Promise<Map<string, number>> {
    const bodies = await Promise.all(
      // Equal requests get equal answers; the penalty makes ten of one.
      Array.from({ length: 10 }, (_, request) =>
        call(emulator, { prompt: MIXED, temperature, n: 128, presence_penalty: request / 10 }),
      ),
    );
    const texts: string[] = bodies.flatMap(({ body }) =>
      body.choices.map(({ text }: { text: string }) => text),
    );
    const counts = new Map<string, number>();
    for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1 / texts.length);
    return counts;
  }

  it('are drawn as the probabilities say, at temperature 1', async () => {
    const [counts, listed] = [await votes(1), await listedAt(0, MIXED)];
    for (const [token, share] of listed) {
      const deviation = Math.sqrt((share * (1 - share)) / 1280);
      expect(Math.abs((counts.get(token) ?? 0) - share), token).toBeLessThan(3.5 * deviation);
    }
    expect(counts.size).toBeGreaterThan(9);
  });

  it('are more often the likeliest below 1, and less often above', async () => {
    const [low, one, high] = await Promise.all([0.2, 1, 2].map(votes));
    const often = (counts: Map<string, number> | undefined) => counts?.get(' neutral') ?? 0;
    expect(often(low)).toBeGreaterThan(often(one));
    expect(often(one)).toBeGreaterThan(often(high));
  });

  it('are the likeliest one at a temperature next to 0', async () => {
    const { body } = await call(emulator, { prompt: MIXED, temperature: 0.001, n: 20 });
    expect(new Set(body.choices.map(({ text }: { text: string }) => text))).toEqual(new Set([' neutral']));
  });

  it('differ inside of JSON as well, and are valid', async () => {
    const prompt = `Reply in JSON with the key sentiment.\n${MIXED.split('\n')[1]}\nJSON:`;
    const { body } = await call(emulator, { prompt, temperature: 1, n: 60 });
    const tones = body.choices.map(({ text }: { text: string }) => JSON.parse(text).sentiment);
    expect(new Set(tones)).toEqual(new Set(['positive', 'negative', 'neutral']));
    const { body: first } = await call(emulator, { prompt, temperature: 0 });
    expect(JSON.parse(first.choices[0].text)).toEqual({ sentiment: 'neutral' });
  });
});

describe('log probabilities of any answer', () => {
  it('come to at most 1 at each place, in as many tokens as are asked for, and the one that was answered', async () => {
    const prompts = [
      ...['I love it!', 'Broke on day one.', 'Good but it leaks.', 'Das ist Satz 1.', ''].map(about),
      TOPIC.replace('$', 'Where is my parcel?'),
      'Rate the review from 1 to 5 stars.\nReview: Awful.\nStars:',
      'Classify as very negative, negative, neutral, positive or very positive.\nText: Hm.\nLabel:',
      'Text: I love it.\n\nClassify the text above as positive, negative or neutral.',
      'Answer with JSON with the keys name and email.\nText: it rained all day\nJSON:',
      'Tell me about bridges 😀.',
    ];
    let places = 0;
    for (const temperature of [0, 1, 2]) {
      for (const logprobs of [0, 1, 2, 5]) {
        const { body } = await call(emulator, {
          prompt: prompts,
          n: 3,
          max_tokens: 30,
          temperature,
          logprobs,
        });
        for (const choice of body.choices) {
          const { tokens, token_logprobs, top_logprobs } = choice.logprobs;
          expect(tokens.join('')).toBe(choice.text);
          for (const [place, top] of top_logprobs.entries()) {
            const size = Object.keys(top).length;
            const isListed = size <= logprobs;
            expect(size).toBe(isListed ? logprobs : logprobs + 1);
            expect(top[tokens[place]]).toBe(token_logprobs[place]);
            if (!isListed) expect(token_logprobs[place]).toBe(Math.min(...Object.values<number>(top)));
            expect(sum(Object.values<number>(top).map(Math.exp))).toBeLessThanOrEqual(1 + 1e-7);
            places += 1;
          }
        }
      }
    }
    expect(places).toBeGreaterThan(2_000);
  });
});

describe('the confidence of a rehearsal', () => {
  /** For each review: how sure the reading is of its label, and whether the stars agree. */
  const reviews: Record<string, string>[] = parse(readFileSync('samples/reviews.csv'), { columns: true });
  const READINGS = reviews.flatMap((row) => {
    const [review, stars] = [String(row['review']).trim(), Number(row['rating'])];
    if (review === '' || stars === 0) return [];
    const labels = ['positive', 'negative', 'neutral'].map((name) => term(name));
    const [first] = sharesOf(review, labels, randomFrom(1, review));
    const gold = stars < 3 ? 'negative' : stars === 3 ? 'neutral' : 'positive';
    return [{ confidence: first?.share ?? 0, isRight: first?.text === gold }];
  });
  const share = <T>(some: readonly T[], has: (one: T) => boolean) => some.filter(has).length / some.length;
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
