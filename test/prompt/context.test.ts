import { describe, expect, it, test } from 'vitest';
import { contextCheck, estimateTokens, loadTokenizer } from '../../src/prompt/tokens.js';

const tokenizer = loadTokenizer('cl100k_base');

/** Counts like the real one, and remembers how much text it was given. */
function watched() {
  const seen: number[] = [];
  const count = (text: string): number => {
    seen.push(text.length);
    return tokenizer.count(text);
  };
  return { seen, count };
}

describe('the context window', () => {
  it('is kept to the token: prompt and max_tokens together', () => {
    const check = contextCheck(100, () => tokenizer);
    const prompt = 'word '.repeat(90).trim();
    expect(tokenizer.count(prompt)).toBe(90);
    expect(check(prompt, 10)).toBeNull();
    expect(check(prompt, 11)).toEqual({
      code: 'context_length_exceeded',
      message:
        'the prompt has at least 90 tokens, and with max_tokens 11 does not fit the context window of 100 tokens',
    });
    // The service's default of 16.
    expect(check(prompt, undefined)?.code).toBe('context_length_exceeded');
    expect(check('word '.repeat(84).trim(), null)).toBeNull();
  });

  it('is never large enough for more max_tokens than it has', () => {
    expect(contextCheck(100, () => tokenizer)('', 101)?.code).toBe('context_length_exceeded');
    expect(contextCheck(100, () => tokenizer)('', 100)).toBeNull();
  });

  it('needs no tokenizer for a prompt that is short or very long in bytes', () => {
    const check = contextCheck(4097, () => {
      throw new Error('asked for a tokenizer');
    });
    expect(check('€'.repeat(1360), 16)).toBeNull();
    expect(check('x'.repeat(4081), 16)).toBeNull();
    expect(() => check('x'.repeat(4082), 16)).toThrow('asked for a tokenizer');
    expect(check('x'.repeat(128 * 4097), 16)?.code).toBe('context_length_exceeded');
  });

  test.each([
    ['words', 'the quick brown fox '],
    ['letters', 'qzjxkv'],
    ['digits', '0123456789'],
    ['Chinese', '数据处理'],
    ['spaces and lines', ' \n'],
    ['emoji', '👩‍👩‍👧'],
  ])('fault 7: a cell of 10 MB of %s costs no more than a short one', (_, unit) => {
    const { seen, count } = watched();
    const check = contextCheck(4097, () => ({ count }));
    expect(check(unit.repeat(10_000_000 / unit.length), 16)?.code).toBe('context_length_exceeded');
    expect(check(unit.repeat(400_000 / unit.length), 16)?.code).toBe('context_length_exceeded');
    expect(Math.max(0, ...seen)).toBeLessThanOrEqual(8 * 4097);
  });

  it('lets a long prompt of few tokens pass', () => {
    expect(contextCheck(4097, () => tokenizer)(' '.repeat(400_000), 16)).toBeNull();
  });

  it('counts the names of special tokens as text', () => {
    const prompt = '<|endoftext|>'.repeat(10);
    const tokens = tokenizer.count(prompt);
    expect(tokens).toBeGreaterThan(10);
    expect(contextCheck(tokens, () => tokenizer)(prompt, 0)).toBeNull();
    expect(contextCheck(tokens, () => tokenizer)(prompt, 1)?.code).toBe('context_length_exceeded');
  });
});

describe('the estimate of tokens', () => {
  test.each([
    ['English', 'The dress fits well and the fabric is soft, but the colour faded after the first wash.'],
    [
      'German',
      'Das Kleid passt gut und der Stoff ist weich, aber die Farbe war nach dem ersten Waschen weg.',
    ],
    ['Russian', 'Платье хорошо сидит, ткань мягкая, но после первой стирки цвет поблёк.'],
    ['Chinese', '裙子很合身,面料也很柔软,但是洗了一次之后颜色就褪了。'],
  ])('is within a third of the count for %s', (_, text) => {
    const ratio = estimateTokens(text) / tokenizer.count(text);
    expect(ratio).toBeGreaterThan(0.66);
    expect(ratio).toBeLessThan(1.5);
  });

  it('is nothing for nothing', () => {
    expect(estimateTokens('')).toBe(0);
  });
});
