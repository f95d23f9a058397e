import { describe, expect, it } from 'vitest';
import { Duplicates } from '../../../src/run/check/inspection.js';

const TOKENS = { prompt_tokens: 3, most_completion_tokens: 5 };

describe('the rows that ask what was asked before', () => {
  it('are known by the line on which the request was first seen', () => {
    const duplicates = new Duplicates();
    const asked = ['a', 'b', 'a', 'a', 'b'].map((request, i) => duplicates.add(request, i + 2, TOKENS));
    expect(asked).toEqual([false, false, true, true, true]);
    expect(duplicates.result()).toEqual({
      rows: 3,
      at_least: false,
      prompt_tokens: 9,
      most_completion_tokens: 15,
      examples: [
        { line: 4, same_as_line: 2 },
        { line: 5, same_as_line: 2 },
        { line: 6, same_as_line: 3 },
      ],
    });
  });

  it('are all found when there are many', () => {
    const duplicates = new Duplicates();
    const requests = Array.from({ length: 50_000 }, (_, i) => `request ${i}`);
    for (const request of [...requests, ...requests]) duplicates.add(request, 1, TOKENS);
    expect(duplicates.result()).toMatchObject({ rows: requests.length, at_least: false });
  });

  it('are still found when no more can be remembered, and the figures say that there may be more', () => {
    const duplicates = new Duplicates(2);
    const added = (request: string): boolean => duplicates.add(request, 1, TOKENS);
    expect(['a', 'b', 'a'].map(added)).toEqual([false, false, true]);
    expect(duplicates.result().at_least).toBe(false);
    expect(['c', 'b', 'c'].map(added)).toEqual([false, true, false]);
    expect(duplicates.result().at_least).toBe(true);
  });
});
