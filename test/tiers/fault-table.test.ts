import { describe, expect, it } from 'vitest';
import { FAULTS } from '../faults/catalogue.js';
import { claimedFaults, storeNamed } from './claims.js';
import { contradictions, linesOf, type Shown } from './rows.js';
import { tableText } from './fault-text.js';

// Numbers are joined to names here, so that these tests claim none.
const named = (what: string, rest = 'x'): string => `fault${what}: ${rest}`;

function shown(name: string, rest: Partial<Shown> = {}): Shown {
  return { suites: [], name, state: 'passed', figures: undefined, ...rest };
}

/** The lines of tests that ran in one tier. */
const lines = (...faults: readonly Shown[]) => linesOf([{ tier: 'faults', faults }]);

describe('the numbers in a name', () => {
  it.each([
    [named(' 7'), [7]],
    [`a suite ${named(' 54', 'a cell')} is inert`, [54]],
    [named('s 9 and 56'), [9, 56]],
    [named('s 1, 3 and 20 to 23'), [1, 3, 20, 21, 22, 23]],
    ['half a body (fault 23)', []],
    ['no fault 900; there are', []],
    ['{fault: 900}', []],
  ])('%#: a name claims its numbers', (name, numbers) => {
    expect(claimedFaults(name)).toEqual(numbers);
  });

  it('come with the store that the suites name', () => {
    expect(storeNamed(['a run on redis', 'in parts'])).toBe('redis');
    expect(storeNamed(['when Redis is away'])).toBe('redis');
    expect(storeNamed(['the same on embedded and Redis'])).toBe('several');
    expect(storeNamed(['a scattered thing'])).toBe('-');
  });
});

describe('the lines of the table', () => {
  it('are one for each number, tier and store, with sums and the worst result', () => {
    const redis = { suites: ['a run on redis'] };
    const slow = [shown(named(' 30'), { state: 'skipped' }), shown('of no fault')];
    const faults = [
      shown(named(' 30'), { ...redis, figures: { rows: 10, calls: 12, repeated: 2 } }),
      shown(named('s 4 and 30'), { ...redis, state: 'failed', figures: { rows: 5 } }),
    ];
    expect(
      linesOf([
        { tier: 'slow', faults: slow },
        { tier: 'faults', faults },
      ]),
    ).toEqual([
      { fault: 4, tier: 'faults', store: 'redis', tests: 1, state: 'failed', rows: 5 },
      { fault: 30, tier: 'slow', store: '-', tests: 1, state: 'skipped' },
      {
        fault: 30,
        tier: 'faults',
        store: 'redis',
        tests: 2,
        state: 'failed',
        rows: 15,
        calls: 12,
        repeated: 2,
      },
    ]);
  });

  it('contradict a list that is out of date', () => {
    const catalogue = [
      { number: 1, title: 'shown' },
      { number: 2, title: 'listed', absent: 'why' },
      { number: 3, title: 'both', absent: 'why' },
      { number: 4, title: 'neither' },
      { number: 5, title: 'skipped' },
    ];
    const ran = lines(
      ...[' 1', ' 3', ' 91'].map((what) => shown(named(what))),
      shown(named(' 5'), { state: 'skipped' }),
    );
    expect(contradictions(ran, catalogue).map((text) => text.split(' is ')[0])).toEqual([
      'fault 3',
      'fault 4',
      'fault 5',
      'fault 91',
    ]);
    expect(contradictions(ran.slice(0, 1), catalogue.slice(0, 2))).toEqual([]);
  });

  it('are aligned, and followed by what is not covered and why', () => {
    const ran = lines(
      shown(named(' 9'), { suites: ['on embedded'], figures: { rows: 1_000_000 } }),
      shown(named(' 9'), { suites: ['on redis'] }),
      shown(named(' 10')),
    );
    const catalogue = [
      { number: 9, title: 'names' },
      { number: 10, title: 'numbers', missing: 'dates' },
      { number: 11, title: 'lines', absent: 'no reader' },
    ];
    expect(tableText(ran, catalogue).split('\n')).toEqual([
      'fault           tier    store     tests       rows  calls  repeated  result',
      '    9  names    faults  embedded      1  1,000,000      -         -  passed',
      '    9           faults  redis         1          -      -         -  passed',
      '   10  numbers  faults  -             1          -      -         -  passed',
      '',
      'not covered:',
      '   11  lines: no reader',
      '',
      'covered in part; what is missing:',
      '   10  numbers: dates',
      '',
      '3 faults: 2 covered, 1 not covered',
    ]);
  });
});

it('the catalogue has all 114 numbers, once each and in order', () => {
  expect(FAULTS.map(({ number }) => number)).toEqual(Array.from({ length: 114 }, (_, i) => i + 1));
});
