import { describe, expect, it, test } from 'vitest';
import { nearest, unknownNames } from '../../src/core/nearest.js';

describe('the nearest word', () => {
  test.each([
    ['reveiw', 'review'],
    ['Review', 'review'],
    ['revew', 'review'],
    ['reviews', 'review'],
    ['review_txt', 'review_text'],
    ['i', 'id'],
  ])('to %j is %j', (word, near) => {
    expect(nearest(word, ['id', 'review', 'review_text', 'rating'])).toBe(near);
  });

  test.each([['status'], [''], ['x'.repeat(100_000)]])('to %.10j is none', (word) => {
    expect(nearest(word, ['review', 'rating'])).toBeNull();
  });

  it('is the first of several that are as near', () => {
    expect(nearest('cat', ['car', 'bat'])).toBe('car');
    expect(nearest('cat', ['bat', 'cat'])).toBe('cat');
  });
});

describe('an error about unknown names', () => {
  const use = {
    code: 'x',
    user: 'prompt uses',
    owner: 'in.csv has',
    quote: (name: string) => `{{ ${name} }}`,
  };

  it('names all of them, and the nearest known ones', () => {
    expect(unknownNames(use, ['reveiw'], ['id', 'review'])).toMatchObject({
      code: 'x',
      message: 'prompt uses {{ reveiw }}, but in.csv has no such column; did you mean {{ review }}?',
      hint: 'Columns: id, review.',
    });
    expect(unknownNames(use, ['a', 'b', 'c'], ['long']).message).toBe(
      'prompt uses {{ a }}, {{ b }} and {{ c }}, but in.csv has no such columns',
    );
  });

  it('fault 16: lists the first of 500 columns', () => {
    const columns = Array.from({ length: 500 }, (_, i) => `c${i}`);
    expect(unknownNames(use, ['price'], columns).hint).toMatch(/^Columns: c0, c1, .*, c19 and 480 more\.$/);
  });
});
