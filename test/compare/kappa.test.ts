import { describe, expect, it } from 'vitest';
import { Pairs } from '../../src/compare/comparison.js';

const pairs = (from: readonly string[], to: readonly string[], most = 100): Pairs => {
  const counted = new Pairs(most);
  for (const [i, name] of from.entries()) counted.add(name, to[i] ?? '');
  return counted;
};
const times = (...runs: readonly (readonly [name: string, times: number])[]): string[] =>
  runs.flatMap(([name, n]) => Array<string>(n).fill(name));

describe('kappa of two outputs', () => {
  it('is that of the example in the documentation of scikit-learn', () => {
    const a = ['negative', 'positive', 'negative', 'neutral', 'positive'];
    const b = ['negative', 'positive', 'negative', 'neutral', 'negative'];
    expect(pairs(a, b).kappa()).toBeCloseTo(0.6875, 12);
  });

  it('is that of the examples in its tests: Bonnini et al., and table 4 of Artstein and Poesio', () => {
    const two = pairs(times(['0', 40], ['1', 60]), times(['0', 20], ['1', 20], ['0', 10], ['1', 50]));
    expect(two.kappa()).toBeCloseTo(0.348, 3);
    const three = pairs(times(['0', 46], ['1', 44], ['2', 10]), times(['0', 52], ['1', 32], ['2', 16]));
    expect(three.kappa()).toBeCloseTo(0.8013, 4);
  });

  it('is the same the other way round, and none where there is but one answer, or nothing', () => {
    expect(pairs(['x', 'y', 'y'], ['x', 'x', 'y']).kappa()).toBe(
      pairs(['x', 'x', 'y'], ['x', 'y', 'y']).kappa(),
    );
    expect(pairs(['x', 'x'], ['x', 'x']).kappa()).toBeNull();
    expect(pairs([], []).kappa()).toBeNull();
  });
});

describe('transitions', () => {
  it('have the names in their order, with words in brackets behind them', () => {
    const counted = pairs(['10', '9', '(failed)', '9'], ['9', '(failed)', '10', '9']);
    expect(JSON.stringify(counted.transitions())).toBe(
      '{"9":{"9":1,"(failed)":1},"10":{"9":1},"(failed)":{"10":1}}',
    );
  });

  it('keep names such as __proto__, and no more of them than they may', () => {
    const counted = pairs(['__proto__', 'a', 'b', 'c'], ['constructor', 'a', 'c', 'd'], 3);
    expect(counted.kappa()).toBeNull();
    expect(Object.entries(counted.transitions())).toEqual([
      ['__proto__', { constructor: 1 }],
      ['a', { a: 1 }],
      ['(other)', { '(other)': 2 }],
    ]);
  });
});
