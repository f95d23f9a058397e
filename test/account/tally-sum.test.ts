import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Ended, emptyTally, fold, sumOf, type Tally } from '../../src/account/tally.js';
import { namesOf, without, withRows } from '../../src/account/tally-sum.js';
import { anyEnded } from './outcomes.js';

const seeded = { seed: 20_261_123, numRuns: 300 };
/** So few that nothing is counted under another name. */
const few = fc.array(anyEnded, { maxLength: 5 });
const tallyOf = (ended: readonly Ended[]): Tally => fold(emptyTally(), ended);

/** What is counted of rows, without what comes to nothing. */
function counted({ usage: _u, latency: _l, samples: _s, estimated: _e, ...tally }: Tally): unknown {
  return JSON.parse(JSON.stringify(tally), (_, value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    const members = Object.entries(value).filter(
      ([, each]) => each !== 0 && !(typeof each === 'object' && each !== null && isEmpty(each)),
    );
    return Object.fromEntries(members);
  });
}

const isEmpty = (value: object): boolean => Object.keys(value).length === 0;

/** Pairs of labels by name, because their places depend on which came first. */
function byName(tally: Tally): unknown {
  const { gold, ...others } = tally;
  if (!gold?.confusion) return counted(tally);
  const { labels, counts } = gold.confusion;
  const named = Object.entries(counts).filter(([, rows]) => rows > 0);
  const pairs = named.map(([pair, rows]) => [
    JSON.stringify(pair.split(',').map((place) => (place === '' ? null : labels[Number(place)]))),
    rows,
  ]);
  const { confusion: _, ...rest } = gold;
  const all = Object(counted({ ...others, gold: rest }));
  return pairs.length === 0 ? all : { ...all, pairs: Object.fromEntries(pairs) };
}

test('rows that are taken out of a tally leave what the others count', () => {
  fc.assert(
    fc.property(few, few, (stay, go) => {
      expect(byName(without(tallyOf([...stay, ...go]), tallyOf(go)))).toEqual(byName(tallyOf(stay)));
    }),
    seeded,
  );
});

test('two tallies together are that of all their rows', () => {
  fc.assert(
    fc.property(few, few, (a, b) => {
      const both = withRows(tallyOf(a), tallyOf(b));
      const all = tallyOf([...a, ...b]);
      expect(byName(both)).toEqual(byName(all));
      expect([both.usage, both.samples, both.estimated]).toEqual([all.usage, all.samples, all.estimated]);
      expect(both.latency?.max).toBe(all.latency?.max);
      expect(both.latency?.histogram).toBe(all.latency?.histogram);
    }),
    seeded,
  );
});

test('what the calls took stays, though their rows are taken out', () => {
  fc.assert(
    fc.property(few, few, (stay, go) => {
      const all = tallyOf([...stay, ...go]);
      const { usage, latency } = without(all, tallyOf(go));
      expect({ usage, latency }).toEqual({ usage: all.usage, latency: all.latency });
    }),
    seeded,
  );
});

test('answers of which there are too many kinds add up, whatever rows are taken out and added', () => {
  const saying = (name: number): Ended => ({
    outcome: {
      status: 'completed',
      completion: { text: '', finish_reason: null, usage: null, model: null, id: null, created: null },
      filters: { prompt: null, completion: null },
      attempts: 1,
      latency_ms: null,
    },
    answer: { values: [name], counted: [`n${name}`], fault: null },
  });
  const names = Array.from({ length: 150 }, (_, i) => i + 1);
  const all = tallyOf(names.map(saying));
  const gone = names.slice(39).reverse().map(saying);
  const rest = without(all, fold({ ...emptyTally(), ...namesOf(all) }, gone));
  expect(sumOf(rest.answers)).toBe(39);
  const mended = withRows(rest, tallyOf([1, 120, 120].map(saying)));
  expect(mended.answers).toEqual({
    ...Object.fromEntries(names.slice(0, 39).map((name) => [`n${name}`, name === 1 ? 2 : 1])),
    '(other)': 2,
  });
});
