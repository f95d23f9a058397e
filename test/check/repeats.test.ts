import { describe, expect, it } from 'vitest';
import { RepeatIndex } from '../../src/check/repeats.js';

describe('the index of requests', () => {
  it('knows the line on which a request was first seen', () => {
    const index = new RepeatIndex();
    expect(index.firstLine('a', 2)).toBe(null);
    expect(index.firstLine('b', 3)).toBe(null);
    expect(index.firstLine('a', 4)).toBe(2);
    expect(index.firstLine('a', 5)).toBe(2);
    expect(index.firstLine('b', 6)).toBe(3);
    expect(index.isFull).toBe(false);
  });

  it('forgets none when it grows', () => {
    const index = new RepeatIndex();
    const requests = Array.from({ length: 100_000 }, (_, i) => `request ${i}`);
    const lines = requests.map((_, i) => i + 1);
    expect(new Set(requests.map((request, i) => index.firstLine(request, i + 1)))).toEqual(new Set([null]));
    expect(requests.map((request) => index.firstLine(request, 1))).toEqual(lines);
  });

  it('goes on finding repeats of what it remembers when it is full, and says that it is', () => {
    const index = new RepeatIndex(2);
    index.firstLine('a', 1);
    index.firstLine('b', 2);
    expect(index.firstLine('a', 3)).toBe(1);
    expect(index.isFull).toBe(false);
    expect(index.firstLine('c', 4)).toBe(null);
    expect(index.isFull).toBe(true);
    expect(index.firstLine('b', 5)).toBe(2);
    expect(index.firstLine('c', 6)).toBe(null);
  });
});
