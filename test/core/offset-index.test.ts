import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { OffsetIndex } from '../../src/core/offset-index.js';

const key = (n: number): string =>
  createHash('sha256').update(String(n)).digest().subarray(0, 12).toString('base64url');

describe('the index of keys', () => {
  it('knows the first row of a key, and its offset once that is told', () => {
    const index = new OffsetIndex();
    expect(index.find(key(1))).toBeNull();
    expect(index.add(key(1), 7, null)).toBe(true);
    expect(index.add(key(2), 8, 0)).toBe(true);
    expect(index.add(key(1), 9, 5)).toBe(true);
    expect(index.find(key(1))).toEqual({ row: 7, at: null });
    expect(index.find(key(2))).toEqual({ row: 8, at: 0 });
    index.settle(key(1), 2 ** 40);
    expect(index.find(key(1))).toEqual({ row: 7, at: 2 ** 40 });
    index.settle(key(3), 1);
    expect(index.find(key(3))).toBeNull();
    expect(index.size).toBe(2);
  });

  it('tells keys apart that differ in one bit, wherever it is', () => {
    const index = new OffsetIndex();
    const bits = Array.from({ length: 96 }, (_, bit) => {
      const bytes = Buffer.alloc(12);
      bytes[bit >> 3] = 1 << (bit & 7);
      return bytes.toString('base64url');
    });
    for (const [i, each] of bits.entries()) index.add(each, i + 1, i);
    expect(bits.map((each) => index.find(each)?.row)).toEqual(bits.map((_, i) => i + 1));
  });

  it('forgets none when it grows', () => {
    const index = new OffsetIndex();
    const keys = Array.from({ length: 20_000 }, (_, i) => key(i));
    for (const [i, each] of keys.entries()) index.add(each, i + 1, i % 3 === 0 ? null : i * 1_000);
    const found = keys.filter((each, i) => {
      const entry = index.find(each);
      return entry?.row === i + 1 && entry.at === (i % 3 === 0 ? null : i * 1_000);
    });
    expect(found.length).toBe(keys.length);
  });

  it('goes on finding what it remembers when it is full, and says that it is', () => {
    const index = new OffsetIndex(2);
    index.add(key(1), 1, 0);
    index.add(key(2), 2, 0);
    expect(index.isFull).toBe(false);
    expect(index.add(key(3), 3, 0)).toBe(false);
    expect(index.isFull).toBe(true);
    expect(index.find(key(3))).toBeNull();
    expect(index.find(key(2))?.row).toBe(2);
    expect(index.add(key(1), 9, 0)).toBe(true);
  });
});
