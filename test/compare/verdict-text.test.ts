import { describe, expect, it } from 'vitest';
import { paired } from '../../src/compare/paired.js';
import { verdictText } from '../../src/compare/verdict-text.js';

describe('the verdict over two answers to each row', () => {
  it.each([
    [
      [200, 31, 12],
      'b',
      'b.txt is right on 31 rows that the job has wrong, and wrong on 12 that the job has right (p = 0.0054): b.txt is better',
    ],
    [
      [2000, 1, 40],
      'a',
      'b.txt is right on 1 row that the job has wrong, and wrong on 40 that the job has right (p < 0.001): the job is better',
    ],
    [
      [200, 14, 9],
      'even',
      'b.txt is right on 14 rows that the job has wrong, and wrong on 9 that the job has right (p = 0.4): ' +
        'they cannot be told apart with these 200 rows, some 1,400 are needed',
    ],
    [
      [200, 9, 9],
      'even',
      'b.txt is right on 9 rows that the job has wrong, and wrong on 9 that the job has right (p = 1): ' +
        'they cannot be told apart with these 200 rows',
    ],
    [[1, 0, 0], 'even', 'of 1 row the job and b.txt have the same ones right: they cannot be told apart'],
    [[0, 0, 0], 'even', 'no row with a right answer is completed in both the job and b.txt'],
  ] as const)('of %s says %s', ([rows, better, worse], says, words) => {
    const test = paired(rows, better, worse);
    expect(test.says).toBe(says);
    expect(verdictText(test, 'the job', 'b.txt')).toBe(words);
  });
});
