import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Encoding, loadTokenizer, promptCounter } from '../../src/prompt/tokens.js';

const ENCODINGS: Encoding[] = ['cl100k_base', 'p50k_base', 'o200k_base'];

/** Pieces that tokens like to cross: white space of all kinds, contractions, digits, punctuation before line ends. */
const piece = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(' ', '  ', '\n', ' \n ', '\t', '\u00a0', '\u3000', '\r\n') },
  {
    weight: 3,
    arbitrary: fc.constantFrom('word', "n't", "'s", 'Über', '12345', '...', '!?', ':', '中文', '😀', '_'),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
);
const text = (maxLength: number) => fc.array(piece, { maxLength }).map((pieces) => pieces.join(''));

describe.each(ENCODINGS)('counting prompts with %s', (encoding) => {
  it('gives each the tokens that it has alone, whatever came before it', async () => {
    const tokenizer = loadTokenizer(encoding);
    fc.assert(
      fc.property(fc.array(text(12), { minLength: 1, maxLength: 3 }), fc.array(text(8)), (heads, rests) => {
        const count = promptCounter(tokenizer, () => 0);
        for (const [i, rest] of rests.entries()) {
          const prompt = `${heads[i % heads.length]}${rest}`;
          expect(count(prompt), JSON.stringify(prompt)).toBe(tokenizer.count(prompt));
        }
      }),
      { seed: 11, numRuns: 500 },
    );
  });

  it('is right where the head ends in the middle of a token or of a run of spaces', async () => {
    const tokenizer = loadTokenizer(encoding);
    const count = promptCounter(tokenizer, () => 0);
    for (const prompt of [
      'a b unhappy',
      'a b unhappily',
      'a b   c',
      'a b    c',
      'a b \n c',
      'a b ',
      'a b',
      '',
    ]) {
      expect(count(prompt), JSON.stringify(prompt)).toBe(tokenizer.count(prompt));
    }
  });
});

it('reads the common head of a template once', () => {
  let read = 0;
  const count = promptCounter(
    {
      count: (text) => {
        read += text.length;
        return 1;
      },
    },
    () => 0,
  );
  const head = 'x '.repeat(5_000);
  for (let row = 0; row < 100; row++) count(`${head}row ${row}`);
  // The first prompt whole, its head once more when the second shows what they share, and the ends.
  expect(read).toBeLessThan(3 * head.length);
});
