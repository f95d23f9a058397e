import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { CalledOutcome, Counters } from '../../src/model.js';
import { type Announced, type Entry, type Ledger, OUTCOME_UNKNOWN } from '../../src/store/ledger.js';
import type { Store } from '../../src/store/store.js';
import { describeEachStore } from '../support/stores.js';
import { leftovers } from './leftovers.js';
import { entry, NO_CALLS, NOTHING, outcome } from './samples.js';

describeEachStore('the ledger', (underTest) => {
  let store: Store;
  let ledger: Ledger;
  let run: string;
  let runs = 0;

  beforeAll(async () => {
    store = await underTest().open();
    ledger = store.ledger;
  });
  beforeEach(() => {
    run = `run-${++runs}`;
  });

  const calls = async (): Promise<Counters> => (await ledger.progress(run, [])).calls;
  const count = (counts: Partial<Counters>) => new Map([[run, counts]]);

  test('a chunk of a run that nobody has opened is not wanted', async () => {
    expect(await ledger.standing({ run, first: 1 }, 1)).toEqual({
      wanted: false,
      known: new Set(),
      inFlight: new Map(),
    });
  });

  test('a chunk of an open run is wanted, and its recorded rows are known', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await ledger.record([entry(run, 1, 2), entry(run, 1, 3), entry(run, 11, 11)], NOTHING);
    expect(await ledger.standing({ run, first: 1 }, 1)).toMatchObject({
      wanted: true,
      known: new Set([2, 3]),
    });
    expect(await ledger.standing({ run, first: 21 }, 1)).toMatchObject({ wanted: true, known: new Set() });
  });

  test('outcomes come back by their rows', async () => {
    await ledger.record([entry(run, 1, 1, 'one'), entry(run, 1, 10, 'ten')], NOTHING);
    const found = await ledger.outcomes({ run, first: 1 });
    expect(found).toEqual(
      new Map([
        [1, outcome('one')],
        [10, outcome('ten')],
      ]),
    );
    expect(await ledger.outcomes({ run, first: 2 })).toEqual(new Map());
  });

  test('fault 8: NUL, lone surrogates, emoji and right-to-left text come back unchanged', async () => {
    const text = '\u0000 \ud800 \udfff 😀 שלום \u202e "\\ \u2028 __proto__';
    await ledger.record([entry(run, 1, 1, text)], NOTHING);
    expect((await ledger.outcomes({ run, first: 1 })).get(1)).toEqual(outcome(text));
    await ledger.stop(run, 1, { code: 'c', message: text });
    expect((await ledger.progress(run, [])).stop).toEqual({ code: 'c', message: text });
  });

  test('the first outcome of a row wins, and a later one is counted as repeated', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await ledger.record([entry(run, 1, 1, 'first')], count({ sent: 1 }));
    await ledger.record([entry(run, 1, 1, 'second'), entry(run, 1, 2, 'new')], count({ sent: 2 }));
    expect((await ledger.outcomes({ run, first: 1 })).get(1)).toEqual(outcome('first'));
    expect(await calls()).toEqual({ ...NO_CALLS, sent: 3, repeated: 1 });
  });

  test('a row that comes twice in one batch is kept once and counted as repeated', async () => {
    await ledger.record([entry(run, 1, 1, 'first'), entry(run, 1, 1, 'second')], NOTHING);
    expect((await ledger.outcomes({ run, first: 1 })).size).toBe(1);
    expect((await calls()).repeated).toBe(1);
  });

  test('of writers that record the same rows at the same time one wins each row', async () => {
    const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
    const rows = Array.from({ length: 40 }, (_, i) => i + 1);
    await Promise.all([
      ledger.record(
        rows.map((row) => entry(run, 1, row, 'a')),
        count({ sent: 40 }),
      ),
      other.record(
        rows.toReversed().map((row) => entry(run, 1, row, 'b')),
        count({ sent: 40 }),
      ),
    ]);
    expect((await ledger.outcomes({ run, first: 1 })).size).toBe(40);
    expect(await calls()).toMatchObject({ sent: 80, repeated: 40 });
  });

  test('an outcome of a row that is on disk is refused and counted as repeated', async () => {
    await ledger.open(run, 1, 10, NO_CALLS);
    await ledger.record([entry(run, 1, 10), entry(run, 11, 11)], NOTHING);
    expect((await ledger.progress(run, [1, 11])).counts).toEqual([0, 1]);
    expect((await calls()).repeated).toBe(1);
  });

  test('one batch may have outcomes and counters of several runs', async () => {
    const other = `${run}-other`;
    await ledger.record(
      [entry(run, 1, 1), entry(other, 1, 1), entry(run, 1, 2)],
      new Map([
        [other, { retried: 2 }],
        [`${run}-third`, { rate_limited: 1 }],
      ]),
    );
    expect((await ledger.progress(run, [1])).counts).toEqual([2]);
    expect(await ledger.progress(other, [1])).toMatchObject({ counts: [1], calls: { retried: 2 } });
    expect((await ledger.progress(`${run}-third`, [])).calls.rate_limited).toBe(1);
  });

  test('progress counts the chunks in the order asked, those without outcomes included', async () => {
    await ledger.record([entry(run, 21, 21), entry(run, 1, 1), entry(run, 1, 2)], NOTHING);
    const progress = await ledger.progress(run, [21, 11, 1]);
    expect(progress).toEqual({ counts: [1, 0, 2], calls: NO_CALLS, opened: false, stop: null });
  });

  test('a later execution fences the earlier one', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await ledger.open(run, 2, 0, NO_CALLS);
    expect((await ledger.standing({ run, first: 1 }, 1)).wanted).toBe(false);
    expect((await ledger.standing({ run, first: 1 }, 2)).wanted).toBe(true);
  });

  test('an earlier execution that opens the run late changes nothing', async () => {
    await ledger.open(run, 2, 20, NO_CALLS);
    await ledger.open(run, 1, 30, NO_CALLS);
    expect((await ledger.standing({ run, first: 21 }, 2)).wanted).toBe(true);
    expect((await ledger.standing({ run, first: 21 }, 1)).wanted).toBe(false);
  });

  test('opening again never moves the committed mark back', async () => {
    await ledger.open(run, 1, 20, NO_CALLS);
    await ledger.open(run, 1, 10, NO_CALLS);
    expect((await ledger.standing({ run, first: 11 }, 1)).wanted).toBe(false);
  });

  test('opening forgets outcomes of rows that are on disk, and only those', async () => {
    await ledger.record(
      [1, 2, 3, 4].map((row) => entry(run, row < 3 ? 1 : 3, row)),
      NOTHING,
    );
    await ledger.open(run, 1, 3, NO_CALLS);
    expect((await ledger.progress(run, [1, 3])).counts).toEqual([0, 1]);
    expect([...(await ledger.outcomes({ run, first: 3 })).keys()]).toEqual([4]);
  });

  test('counters are seeded once, also when a worker was there before the collector', async () => {
    const seed = {
      ...NO_CALLS,
      sent: 10,
      retried: 2,
      rate_limited: 1,
      repeated: 3,
      in_flight: 4,
      prompt_tokens: 500,
    };
    await ledger.record([], count({ sent: 1 }));
    await ledger.open(run, 1, 0, seed);
    await ledger.open(run, 1, 0, { ...seed, sent: 99 });
    expect(await calls()).toEqual({ ...seed, sent: 11 });
  });

  test('what is reserved for calls is in the sums of every writer until it is settled', async () => {
    const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
    await ledger.open(run, 1, 0, { ...NO_CALLS, prompt_tokens: 100, completion_tokens: 10 });
    await ledger.record([], count({ in_flight: 1, prompt_tokens: 40, completion_tokens: 16 }));
    await other.record([], count({ in_flight: 2, prompt_tokens: 7, completion_tokens: 32 }));
    expect(await calls()).toEqual({ ...NO_CALLS, in_flight: 3, prompt_tokens: 147, completion_tokens: 58 });
    await ledger.record([entry(run, 1, 1)], count({ in_flight: -1, completion_tokens: 3 - 16 }));
    expect(await calls()).toEqual({ ...NO_CALLS, in_flight: 2, prompt_tokens: 147, completion_tokens: 45 });
  });

  test('a run counts as opened from its first opening to its end, whatever was recorded before', async () => {
    const opened = async (): Promise<boolean> => (await ledger.progress(run, [])).opened;
    await ledger.record([], count({ sent: 1 }));
    expect(await opened()).toBe(false);
    await ledger.open(run, 1, 0, NO_CALLS);
    expect(await opened()).toBe(true);
    await ledger.close(run);
    expect(await opened()).toBe(false);
  });

  test('fault 35: in a store that came back empty, opening again brings run and counters back', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await ledger.record([entry(run, 1, 1)], count({ sent: 7 }));
    const before = await calls();
    await ledger.close(run);
    expect(await calls()).toEqual(NO_CALLS);
    await ledger.forget(run, 5, [1]);
    expect((await ledger.standing({ run, first: 11 }, 1)).wanted).toBe(false);
    await ledger.open(run, 1, 5, before);
    expect(await calls()).toEqual(before);
    expect((await ledger.standing({ run, first: 6 }, 1)).wanted).toBe(true);
  });

  test('the first reason to stop wins, and ends with the execution it was meant for', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await ledger.stop(run, 1, { code: 'unauthorized', message: 'no key works' });
    await ledger.stop(run, 1, { code: 'other', message: 'later' });
    expect((await ledger.progress(run, [])).stop).toEqual({ code: 'unauthorized', message: 'no key works' });
    await ledger.open(run, 1, 0, NO_CALLS);
    expect((await ledger.progress(run, [])).stop?.code).toBe('unauthorized');
    await ledger.open(run, 2, 0, NO_CALLS);
    expect((await ledger.progress(run, [])).stop).toBeNull();
    await ledger.stop(run, 1, { code: 'late', message: 'of a worker that was frozen' });
    expect((await ledger.progress(run, [])).stop).toBeNull();
    await ledger.stop(run, 2, { code: 'forbidden', message: 'now' });
    expect((await ledger.progress(run, [])).stop?.code).toBe('forbidden');
  });

  test('forgetting moves the mark, and leaves nothing of the chunks', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await ledger.record(
      [1, 2, 3].map((row) => entry(run, row, row)),
      NOTHING,
    );
    await ledger.forget(run, 2, [1, 2]);
    expect((await ledger.progress(run, [1, 2, 3])).counts).toEqual([0, 0, 1]);
    expect((await ledger.standing({ run, first: 2 }, 1)).wanted).toBe(false);
    expect((await ledger.standing({ run, first: 3 }, 1)).wanted).toBe(true);
    await ledger.record([entry(run, 2, 2)], NOTHING);
    expect(await ledger.progress(run, [2])).toMatchObject({ counts: [0], calls: { repeated: 1 } });
  });

  describe('knows the rows in flight by name', () => {
    const announced = (row: number, call: string, more: Partial<Announced> = {}): Announced => ({
      run,
      first: 1,
      row,
      execution: 1,
      call,
      hold: false,
      ...more,
    });
    const announce = (...rows: readonly Announced[]) =>
      ledger.record([], NOTHING, { announced: rows, settled: [] });
    const settle = (row: number, call: string, ...outcomes: readonly Entry[]) =>
      ledger.record(outcomes, NOTHING, { announced: [], settled: [{ run, row, call }] });
    const flying = async (...rows: readonly number[]): Promise<[number, string][]> => {
      const { inFlight } = await ledger.standing({ run, first: 1 }, 1, rows);
      return [...inFlight].map(([row, { call }]): [number, string] => [row, call]).sort(([a], [b]) => a - b);
    };
    const unknown: CalledOutcome = {
      status: 'failed',
      error: { code: OUTCOME_UNKNOWN, message: '"code":"outcome_unknown"' },
      attempts: 1,
      latency_ms: null,
    };

    test('from their announcement until what came of the call', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      expect(await announce(announced(1, 'a'), announced(2, 'a'), announced(3, 'b'))).toEqual([
        true,
        true,
        true,
      ]);
      expect(await flying(1, 2, 3, 4)).toEqual([
        [1, 'a'],
        [2, 'a'],
        [3, 'b'],
      ]);
      expect((await calls()).in_flight).toBe(3);
      expect(
        [...(await ledger.standing({ run, first: 1 }, 1, [1])).inFlight.values()][0]?.ageMs,
      ).toBeGreaterThanOrEqual(0);
      await settle(1, 'a', { ...entry(run, 1, 1), call: 'a' });
      await settle(3, 'b');
      await settle(3, 'b');
      expect(await flying(1, 2, 3)).toEqual([[2, 'a']]);
      expect(await calls()).toEqual({ ...NO_CALLS, in_flight: 1 });
    });

    test('and lets rows be called of a run that is open for that execution, and that have no outcome', async () => {
      expect(await announce(announced(1, 'a'))).toEqual([false]);
      await ledger.open(run, 2, 3, NO_CALLS);
      await ledger.record([entry(run, 1, 5)], NOTHING);
      const x2 = { execution: 2 };
      expect(
        await announce(
          announced(4, 'a'),
          announced(3, 'a', x2),
          announced(4, 'b', x2),
          announced(5, 'b', x2),
        ),
      ).toEqual([false, false, true, false]);
      expect(await flying(1, 3, 4, 5)).toEqual([[4, 'b']]);
    });

    test('fault 89: with hold, a row goes to one call only, which may ask again', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      const hold = { hold: true };
      expect(await announce(announced(1, 'a', hold))).toEqual([true]);
      expect(await announce(announced(1, 'b', hold), announced(2, 'b', hold))).toEqual([false, true]);
      expect(await announce(announced(1, 'a', hold))).toEqual([true]);
      expect(await flying(1, 2)).toEqual([
        [1, 'a'],
        [2, 'b'],
      ]);
      await settle(1, 'b');
      expect(await announce(announced(1, 'b', hold))).toEqual([false]);
      await settle(1, 'a');
      expect(await announce(announced(1, 'b', hold))).toEqual([true]);
    });

    test('fault 89: of calls that ask for the same rows at the same time with hold, one gets each', async () => {
      const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
      await ledger.open(run, 1, 0, NO_CALLS);
      const rows = Array.from({ length: 30 }, (_, i) => i + 1);
      const ask = (by: Ledger, call: string, order: readonly number[]) =>
        by.record([], NOTHING, {
          announced: order.map((row) => announced(row, call, { hold: true })),
          settled: [],
        });
      const [a, b] = await Promise.all([ask(ledger, 'a', rows), ask(other, 'b', rows.toReversed())]);
      expect(rows.map((_, i) => Number(a[i]) + Number(b[rows.length - 1 - i]))).toEqual(rows.map(() => 1));
    });

    test('another call for a row counts as repeated once its outcome is there, and once in all', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await announce(announced(1, 'killed'), announced(2, 'slow'));
      expect(await announce(announced(1, 'next'), announced(2, 'next'))).toEqual([true, true]);
      expect((await calls()).repeated).toBe(0);
      await settle(1, 'next', { ...entry(run, 1, 1), call: 'next' });
      expect(await calls()).toMatchObject({ repeated: 1, in_flight: 1 });
      await settle(2, 'slow', { ...entry(run, 1, 2), call: 'slow' });
      expect(await calls()).toMatchObject({ repeated: 2, in_flight: 0 });
      await settle(2, 'next', { ...entry(run, 1, 2), call: 'next' });
      expect(await calls()).toMatchObject({ repeated: 2, in_flight: 0 });
    });

    test('a row that ends in the write that settles its call, and not of it, is not repeated', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await announce(announced(1, 'a'));
      await settle(1, 'a', entry(run, 1, 1));
      expect(await calls()).toEqual(NO_CALLS);
    });

    test('calls of the process before count as repeated when a later execution opens, unless they hold', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      const own = [announced(1, 'own:1:a'), announced(2, 'own:1:a'), announced(3, 'any:1:b')];
      await announce(...own);
      await ledger.open(run, 1, 0, NO_CALLS);
      expect(await calls()).toMatchObject({ repeated: 0, in_flight: 3 });
      await ledger.open(run, 2, 0, NO_CALLS, false);
      expect(await calls()).toMatchObject({ repeated: 0, in_flight: 3 });
      await ledger.open(run, 3, 0, NO_CALLS);
      expect(await calls()).toMatchObject({ repeated: 2, in_flight: 1 });
      expect(await flying(1, 2, 3)).toEqual([[3, 'any:1:b']]);
    });

    test('those that an earlier version counted without names count as repeated likewise', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await ledger.record([], count({ in_flight: 5, repeated: 1 }));
      await ledger.record([], count({ in_flight: -2 }));
      await ledger.open(run, 2, 0, NO_CALLS);
      expect(await calls()).toEqual({ ...NO_CALLS, repeated: 4 });
      await ledger.open(run, 3, 0, NO_CALLS);
      expect(await calls()).toEqual({ ...NO_CALLS, repeated: 4 });
    });

    test('fault 89: a real outcome takes the place of an unknown one, until that is written', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await announce(announced(1, 'a'), announced(2, 'a'));
      const given = [1, 2].map((row) => ({ run, first: 1, row, outcome: unknown }));
      await ledger.record(given, NOTHING);
      expect((await ledger.progress(run, [1])).counts).toEqual([2]);
      expect(await ledger.waiting(run)).toBe(2);
      await settle(1, 'a', { ...entry(run, 1, 1, '"code":"outcome_unknown"'), call: 'a' });
      await ledger.record(given, NOTHING);
      expect(await ledger.outcomes({ run, first: 1 })).toEqual(
        new Map<number, CalledOutcome>([
          [1, outcome('"code":"outcome_unknown"')],
          [2, unknown],
        ]),
      );
      await ledger.forget(run, 2, [1]);
      await settle(2, 'a', { ...entry(run, 1, 2), call: 'a' });
      // Given twice, and once for a row with a real outcome; no call was made twice.
      expect(await calls()).toMatchObject({ repeated: 2, in_flight: 0 });
    });

    test('fault 89: a run that must not begin anew is opened only where it is known', async () => {
      expect(await ledger.open(run, 2, 5, null)).toBe(false);
      expect((await ledger.progress(run, [])).opened).toBe(false);
      expect((await ledger.standing({ run, first: 6 }, 2)).wanted).toBe(false);
      expect(await ledger.open(run, 2, 5, NO_CALLS)).toBe(true);
      expect(await ledger.open(run, 3, 5, null)).toBe(true);
      expect((await ledger.standing({ run, first: 6 }, 3)).wanted).toBe(true);
    });
  });

  describe('with a short lease', () => {
    let hasty: Store;
    beforeAll(async () => {
      if (underTest().server === null) await store.close();
      hasty = await underTest().open({ leaseMs: 300, outcomeTtlMs: 600_000 });
    });
    afterAll(async () => {
      await hasty.close();
      if (underTest().server === null) store = await underTest().open();
      ledger = store.ledger;
    });

    test('a run whose lease is not renewed is not wanted, and outcomes that arrive then are kept', async () => {
      const { ledger } = hasty;
      await ledger.open(run, 1, 0, NO_CALLS);
      await vi.waitFor(async () => expect((await ledger.standing({ run, first: 1 }, 1)).wanted).toBe(false));
      await ledger.record([entry(run, 1, 1)], NOTHING);
      expect((await ledger.progress(run, [1])).counts).toEqual([1]);
      // On a slow machine the lease may end again before it is looked at.
      await vi.waitFor(async () => {
        await ledger.open(run, 2, 0, NO_CALLS);
        expect(await ledger.standing({ run, first: 1 }, 2)).toMatchObject({
          wanted: true,
          known: new Set([1]),
        });
      });
    });

    test('after the lease, the committed mark and the fence still stand', async () => {
      const { ledger } = hasty;
      await ledger.open(run, 2, 5, NO_CALLS);
      await vi.waitFor(async () => expect((await ledger.standing({ run, first: 6 }, 2)).wanted).toBe(false));
      await ledger.record([entry(run, 1, 5)], NOTHING);
      expect((await ledger.progress(run, [1])).counts).toEqual([0]);
      await ledger.open(run, 1, 0, NO_CALLS);
      expect((await ledger.standing({ run, first: 6 }, 1)).wanted).toBe(false);
    });

    test('forgetting renews the lease', async () => {
      const { ledger } = hasty;
      await ledger.open(run, 1, 0, NO_CALLS);
      await vi.waitFor(async () => expect((await ledger.standing({ run, first: 1 }, 1)).wanted).toBe(false));
      await vi.waitFor(async () => {
        await ledger.forget(run, 0, []);
        expect((await ledger.standing({ run, first: 1 }, 1)).wanted).toBe(true);
      });
    });
  });

  test('a closed run leaves nothing behind, and forgotten chunks neither', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await ledger.record(
      [1, 2, 3].map((row) => entry(run, row, row)),
      count({ sent: 3 }),
    );
    await ledger.stop(run, 1, { code: 'c', message: 'm' });
    await ledger.forget(run, 2, [1, 2]);
    await ledger.close(`${run}-never-opened`);
    const closed = `${run}-closed`;
    await ledger.open(closed, 1, 0, NO_CALLS);
    await ledger.record([entry(closed, 1, 1)], new Map([[closed, { sent: 1 }]]));
    await ledger.stop(closed, 1, { code: 'c', message: 'm' });
    const row = { run: closed, first: 1, row: 2, execution: 1, call: 'a', hold: false };
    await ledger.record([], NOTHING, { announced: [row], settled: [] });
    await ledger.close(closed);
    expect(await leftovers(underTest(), store, closed)).toEqual([]);
    expect(await leftovers(underTest(), store, run)).not.toEqual([]);
    expect(
      (await leftovers(underTest(), store, run)).filter((left) => /rows:[12]$|first [12]$/.test(left)),
    ).toEqual([]);
  });
});
