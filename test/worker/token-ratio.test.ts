import { describe, expect, it } from 'vitest';
import { TokenRatio } from '../../src/worker/token-ratio.js';

const english = (words: number): string => Array(words).fill('review').join(' ');
const russian = (words: number): string => Array(words).fill('отзыв').join(' ');
/** Learned from texts of 20 words and more, each word two tokens. */
function learned(texts: number, text = english): TokenRatio {
  const ratio = new TokenRatio();
  for (let i = 0; i < texts; i++) ratio.saw(text(20 + i), 2 * (20 + i));
  return ratio;
}

describe('the ratio of a tokenizer that nobody knows', () => {
  it('is learned from three texts on; until then a token has a byte', () => {
    const text = english(50);
    expect([learned(2).likely(text), learned(2).most(text)]).toEqual([null, text.length + 2]);
    const ratio = learned(3);
    expect(ratio.likely(text)).toBeGreaterThan(95);
    expect(ratio.likely(text)).toBeLessThan(105);
    expect(ratio.most(text)).toBeGreaterThanOrEqual(100);
    expect(ratio.most(text)).toBeLessThan(135);
  });

  it('is one for each kind of script', () => {
    const ratio = learned(20);
    expect(ratio.likely(russian(50))).toBeNull();
    for (let i = 0; i < 3; i++) ratio.saw(russian(20 + i), 5 * (20 + i));
    expect(ratio.likely(russian(50))).toBeGreaterThan(240);
    expect(ratio.likely(english(50))).toBeLessThan(105);
  });

  it('bounds a text by the largest that was seen, and never above its bytes', () => {
    const ratio = learned(20);
    ratio.saw(english(30), 150);
    expect(ratio.most(english(50))).toBeGreaterThanOrEqual(250);
    ratio.saw(english(30), 100_000);
    expect(ratio.most(english(50))).toBe(english(50).length + 2);
  });

  it('counts each digit and each sign of a text as a token that it may be', () => {
    const ratio = learned(20);
    const table = '|-1-|-2-|\n'.repeat(50);
    expect(ratio.most(table)).toBe(table.length + 2);
    expect(ratio.most(english(50))).toBeLessThan(135);
  });
});
