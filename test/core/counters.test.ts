import { expect, it } from 'vitest';
import { added, countsOfEach, highest, NO_COUNTS, namesIn } from '../../src/core/counters.js';

it('counts of endpoints are added, and compared, by name', () => {
  const a = { ...NO_COUNTS, sent: 3, 'sent@west': 2 };
  const b = { ...NO_COUNTS, sent: 2, 'sent@west': 1, 'sent@east': 1 };
  expect(added(a, b)).toEqual({ ...NO_COUNTS, sent: 5, 'sent@west': 3, 'sent@east': 1 });
  const names = namesIn({ ...a, ...b });
  expect(highest(names, a, b)).toEqual({ ...NO_COUNTS, sent: 3, 'sent@west': 2, 'sent@east': 1 });
  expect(added(a, { ...a, in_flight: 7 } as typeof a)).not.toHaveProperty('in_flight');
});

it('those of all endpoints add up to those of the run: the first has the rest', () => {
  const counts = { ...NO_COUNTS, sent: 10, rate_limited: 3, 'sent@west': 3, 'sent@east': 6 };
  expect(countsOfEach(['west', 'east', 'idle'], { ...counts, 'rate_limited@east': 2 })).toEqual({
    west: { calls: 4, rate_limited: 1 },
    east: { calls: 6, rate_limited: 2 },
    idle: { calls: 0, rate_limited: 0 },
  });
});
