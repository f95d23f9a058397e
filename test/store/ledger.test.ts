import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Counters, Counts } from '../../src/core/counters.js';
import type { CalledOutcome, Tokens } from '../../src/core/model.js';
import {
  type Answer,
  type Bounds,
  type Ledger,
  NOTHING,
  OUTCOME_UNKNOWN,
  type Reservation,
  type Settlement,
} from '../../src/store/ledger.js';
import type { Store } from '../../src/store/store.js';
import { describeEachStore } from '../support/stores.js';
import { leftovers } from './leftovers.js';
import { entry, isWanted, look, NO_CALLS, outcome, record, reserve, tokens } from './samples.js';

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

  const unknown: CalledOutcome = {
    status: 'failed',
    error: { code: OUTCOME_UNKNOWN, message: '"code":"outcome_unknown"' },
    attempts: 1,
    latency_ms: null,
  };
  const calls = async (): Promise<Counters> => (await ledger.progress(run, [])).calls;
  const count = (counts: Partial<Counts>) => new Map([[run, counts]]);

  test('a chunk of a run that nobody has opened is not wanted', async () => {
    expect(await look(ledger, run, 1, 1)).toEqual(['unwanted']);
  });

  test('a chunk of an open run is wanted, and its recorded rows are known', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await record(ledger, [entry(run, 1, 2), entry(run, 1, 3), entry(run, 11, 11)]);
    expect(await look(ledger, run, 1, 1, [1, 2, 3])).toEqual(['granted', 'known', 'known']);
    expect(await look(ledger, run, 21, 1)).toEqual(['granted']);
    expect((await calls()).in_flight, 'who looks reserves nothing').toBe(0);
  });

  test('outcomes come back by their rows', async () => {
    await record(ledger, [entry(run, 1, 1, 'one'), entry(run, 1, 10, 'ten')]);
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
    await record(ledger, [entry(run, 1, 1, text)]);
    expect((await ledger.outcomes({ run, first: 1 })).get(1)).toEqual(outcome(text));
    await ledger.stop(run, 1, { code: 'c', message: text });
    expect((await ledger.progress(run, [])).stop).toEqual({ code: 'c', message: text });
  });

  test('calls of several endpoints are counted by name, and begin with what the run had', async () => {
    await ledger.open(run, 1, 0, { ...NO_CALLS, sent: 5, 'sent@west': 2, 'rate_limited@west': 1 });
    await record(ledger, [], count({ sent: 2, 'sent@west': 1, 'sent@e-1.b_c': 1 }));
    await record(ledger, [], count({ 'sent@e-1.b_c': 3, 'rate_limited@west': 1 }));
    const expected = { 'sent@west': 3, 'rate_limited@west': 2, 'sent@e-1.b_c': 4 };
    expect(await calls()).toEqual({ ...NO_CALLS, sent: 7, ...expected });
    await ledger.open(run, 2, 0, { ...NO_CALLS, 'sent@west': 100 });
    expect(await calls()).toEqual({ ...NO_CALLS, sent: 7, ...expected });
    await ledger.close(run);
    expect(await calls()).toEqual(NO_CALLS);
  });

  test('the first outcome of a row wins, and a later one is counted as repeated', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await record(ledger, [entry(run, 1, 1, 'first')], count({ sent: 1 }));
    await record(ledger, [entry(run, 1, 1, 'second'), entry(run, 1, 2, 'new')], count({ sent: 2 }));
    expect((await ledger.outcomes({ run, first: 1 })).get(1)).toEqual(outcome('first'));
    expect(await calls()).toEqual({ ...NO_CALLS, sent: 3, repeated: 1 });
  });

  test('a row that comes twice in one batch is kept once and counted as repeated', async () => {
    await record(ledger, [entry(run, 1, 1, 'first'), entry(run, 1, 1, 'second')]);
    expect((await ledger.outcomes({ run, first: 1 })).size).toBe(1);
    expect((await calls()).repeated).toBe(1);
  });

  test('of writers that record the same rows at the same time one wins each row', async () => {
    const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
    const rows = Array.from({ length: 40 }, (_, i) => i + 1);
    await Promise.all([
      record(
        ledger,
        rows.map((row) => entry(run, 1, row, 'a')),
        count({ sent: 40 }),
      ),
      record(
        other,
        rows.toReversed().map((row) => entry(run, 1, row, 'b')),
        count({ sent: 40 }),
      ),
    ]);
    expect((await ledger.outcomes({ run, first: 1 })).size).toBe(40);
    expect(await calls()).toMatchObject({ sent: 80, repeated: 40 });
  });

  /** What the collector gets of a chunk, as it asks for it. */
  const texts = async (first = 1): Promise<(string | null)[]> => {
    const [known = 0] = (await ledger.progress(run, [first])).counts;
    const found = await ledger.outcomes({ run, first }, known);
    const inOrder = [...found].sort(([a], [b]) => a - b);
    return inOrder.map(([, each]) => (each.status === 'completed' ? each.completion.text : null));
  };

  test('whoever collects the run gets what the ledger has, whoever wrote it and however much of it', async () => {
    const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
    await ledger.open(run, 1, 0, NO_CALLS);
    await record(ledger, [entry(run, 1, 1, 'own')]);
    expect(await texts()).toEqual(['own']);
    await record(other, [entry(run, 1, 2, 'of another')]);
    await record(ledger, [entry(run, 1, 2, 'too late')]);
    expect(await texts()).toEqual(['own', 'of another']);
    await record(ledger, [{ ...entry(run, 1, 3), outcome: unknown }]);
    await record(other, [entry(run, 1, 3, 'real')]);
    expect(await texts()).toEqual(['own', 'of another', 'real']);
    const long = 'x'.repeat(1_000_000);
    for (const row of [4, 5, 6, 7, 8, 9]) await record(ledger, [entry(run, 1, row, long)]);
    expect((await texts()).slice(3)).toEqual(Array(6).fill(long));
    await ledger.forget(run, 9, [1]);
    expect(await texts()).toEqual([]);
  });

  test('fault 35: what the store has lost is not given out, whoever fills it again', async () => {
    const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
    const fill = (by: Ledger, text: string) =>
      record(by, [entry(run, 1, 1, text), entry(run, 1, 2, text), entry(run, 11, 11, text)]);
    await ledger.open(run, 1, 0, NO_CALLS);
    await fill(ledger, 'lost with the run');
    expect(await texts()).toEqual(['lost with the run', 'lost with the run']);
    await other.close(run);
    expect(await texts()).toEqual([]);
    await ledger.open(run, 1, 0, NO_CALLS);
    await fill(other, 'of another');
    expect(await texts()).toEqual(['of another', 'of another']);
    expect(await texts(11)).toEqual(['of another']);

    // A server that went back to an earlier state knows the run, and not all that was written.
    await other.forget(run, 0, [1, 11]);
    await fill(ledger, 'lost without the run');
    await other.forget(run, 0, [1, 11]);
    await record(other, [entry(run, 1, 1, 'of another')]);
    expect(await texts()).toEqual(['of another']);
    await fill(other, 'later');
    expect(await texts()).toEqual(['of another', 'later']);
    expect(await texts(11)).toEqual(['later']);
  });

  test('an outcome of a row that is on disk is refused and counted as repeated', async () => {
    await ledger.open(run, 1, 10, NO_CALLS);
    await record(ledger, [entry(run, 1, 10), entry(run, 11, 11)]);
    expect((await ledger.progress(run, [1, 11])).counts).toEqual([0, 1]);
    expect((await calls()).repeated).toBe(1);
  });

  test('one batch may have outcomes and counters of several runs', async () => {
    const other = `${run}-other`;
    await record(
      ledger,
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
    await record(ledger, [entry(run, 21, 21), entry(run, 1, 1), entry(run, 1, 2)]);
    const progress = await ledger.progress(run, [21, 11, 1]);
    expect(progress).toEqual({ counts: [1, 0, 2], calls: NO_CALLS, opened: false, stop: null });
  });

  test('a later execution fences the earlier one', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await ledger.open(run, 2, 0, NO_CALLS);
    expect(await isWanted(ledger, run, 1, 1)).toBe(false);
    expect(await isWanted(ledger, run, 1, 2)).toBe(true);
  });

  test('an earlier execution that opens the run late changes nothing', async () => {
    await ledger.open(run, 2, 20, NO_CALLS);
    await ledger.open(run, 1, 30, NO_CALLS);
    expect(await isWanted(ledger, run, 21, 2)).toBe(true);
    expect(await isWanted(ledger, run, 21, 1)).toBe(false);
  });

  test('opening again never moves the committed mark back', async () => {
    await ledger.open(run, 1, 20, NO_CALLS);
    await ledger.open(run, 1, 10, NO_CALLS);
    expect(await isWanted(ledger, run, 11, 1)).toBe(false);
  });

  test('opening forgets outcomes of rows that are on disk, and only those', async () => {
    await record(
      ledger,
      [1, 2, 3, 4].map((row) => entry(run, row < 3 ? 1 : 3, row)),
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
      prompt_tokens: 500,
    };
    await record(ledger, [], count({ sent: 1 }));
    await ledger.open(run, 1, 0, seed);
    await ledger.open(run, 1, 0, { ...seed, sent: 99 });
    expect(await calls()).toEqual({ ...seed, sent: 11 });
  });

  test('what is reserved for calls is in the sums of every writer until it is settled', async () => {
    const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
    await ledger.open(run, 1, 0, { ...NO_CALLS, prompt_tokens: 100, completion_tokens: 10 });
    await record(ledger, [], count({ prompt_tokens: 40, completion_tokens: 16 }));
    await record(other, [], count({ prompt_tokens: 7, completion_tokens: 32 }));
    expect(await calls()).toEqual({ ...NO_CALLS, prompt_tokens: 147, completion_tokens: 58 });
    await record(ledger, [entry(run, 1, 1)], count({ completion_tokens: 3 - 16 }));
    expect(await calls()).toEqual({ ...NO_CALLS, prompt_tokens: 147, completion_tokens: 45 });
  });

  test('a run counts as opened from its first opening to its end, whatever was recorded before', async () => {
    const opened = async (): Promise<boolean> => (await ledger.progress(run, [])).opened;
    await record(ledger, [], count({ sent: 1 }));
    expect(await opened()).toBe(false);
    await ledger.open(run, 1, 0, NO_CALLS);
    expect(await opened()).toBe(true);
    await ledger.close(run);
    expect(await opened()).toBe(false);
  });

  test('fault 35: in a store that came back empty, opening again brings run and counters back', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await record(ledger, [entry(run, 1, 1)], count({ sent: 7 }));
    const before = await calls();
    await ledger.close(run);
    expect(await calls()).toEqual(NO_CALLS);
    await ledger.forget(run, 5, [1]);
    expect(await isWanted(ledger, run, 11, 1)).toBe(false);
    await ledger.open(run, 1, 5, before);
    expect(await calls()).toEqual(before);
    expect(await isWanted(ledger, run, 6, 1)).toBe(true);
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
    await record(
      ledger,
      [1, 2, 3].map((row) => entry(run, row, row)),
    );
    await ledger.forget(run, 2, [1, 2]);
    expect((await ledger.progress(run, [1, 2, 3])).counts).toEqual([0, 0, 1]);
    expect(await isWanted(ledger, run, 2, 1)).toBe(false);
    expect(await isWanted(ledger, run, 3, 1)).toBe(true);
    await record(ledger, [entry(run, 2, 2)]);
    expect(await ledger.progress(run, [2])).toMatchObject({ counts: [0], calls: { repeated: 1 } });
  });

  describe('knows the rows in flight by name', () => {
    /** A request for one row. */
    const request = (row: number, call: string, more: Partial<Reservation> = {}): Reservation => ({
      ...{ run, first: 1, execution: 1, call, hold: false, bounds: null, looks: false },
      rows: [{ row, most: tokens(0) }],
      ...more,
    });
    const granted = (answers: readonly Answer[]): boolean[] =>
      answers.flatMap(({ rows }) => rows.map((state) => state === 'granted'));
    const ask = async (...requests: readonly Reservation[]): Promise<boolean[]> =>
      granted(await reserve(ledger, ...requests));
    const settle = (row: number, call: string, ...more: readonly Settlement[]) =>
      record(ledger, [{ run, first: 1, row, call, outcome: null }, ...more]);
    /** An outcome, in the write that says that its call has ended. */
    const end = (row: number, call: string, text?: string) =>
      record(ledger, [{ ...entry(run, 1, row, text), call }]);
    const flying = async (execution: number, ...rows: readonly number[]): Promise<[number, string][]> =>
      (await look(ledger, run, 1, execution, rows)).flatMap((state, i) =>
        typeof state === 'string' ? [] : [[rows[i] ?? 0, state.call]],
      );

    test('from their reservation until what came of the call', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      expect(await ask(request(1, 'a'), request(2, 'a'), request(3, 'b'))).toEqual([true, true, true]);
      expect(await flying(1, 1, 2, 3, 4)).toEqual([
        [1, 'a'],
        [2, 'a'],
        [3, 'b'],
      ]);
      expect((await calls()).in_flight).toBe(3);
      expect(
        (await look(ledger, run, 1, 1, [1])).map((state) => typeof state === 'object' && state.ageMs >= 0),
      ).toEqual([true]);
      await end(1, 'a');
      await settle(3, 'b');
      await settle(3, 'b');
      expect(await flying(1, 1, 2, 3)).toEqual([[2, 'a']]);
      expect(await calls()).toEqual({ ...NO_CALLS, sent: 3, in_flight: 1 });
    });

    test('and lets rows be called of a run that is open for that execution, and that have no outcome', async () => {
      expect(await ask(request(1, 'a'))).toEqual([false]);
      await ledger.open(run, 2, 3, NO_CALLS);
      await record(ledger, [entry(run, 1, 5)]);
      const x2 = { execution: 2 };
      expect(
        await ask(request(4, 'a'), request(3, 'a', x2), request(4, 'b', x2), request(5, 'b', x2)),
      ).toEqual([false, false, true, false]);
      expect(await flying(2, 1, 3, 4, 5)).toEqual([[4, 'b']]);
    });

    test('fault 89: with hold, a row goes to one call only, which may ask again', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      const hold = { hold: true };
      expect(await ask(request(1, 'a', hold))).toEqual([true]);
      expect(await ask(request(1, 'b', hold), request(2, 'b', hold))).toEqual([false, true]);
      expect(await ask(request(1, 'a', hold))).toEqual([true]);
      expect(await flying(1, 1, 2)).toEqual([
        [1, 'a'],
        [2, 'b'],
      ]);
      await settle(1, 'b');
      expect(await ask(request(1, 'b', hold))).toEqual([false]);
      await settle(1, 'a');
      expect(await ask(request(1, 'b', hold))).toEqual([true]);
    });

    test('fault 89: of calls that ask for the same rows at the same time with hold, one gets each', async () => {
      const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
      await ledger.open(run, 1, 0, NO_CALLS);
      const rows = Array.from({ length: 30 }, (_, i) => i + 1);
      const ask = async (by: Ledger, call: string, order: readonly number[]): Promise<boolean[]> =>
        granted(await reserve(by, ...order.map((row) => request(row, call, { hold: true }))));
      const [a, b] = await Promise.all([ask(ledger, 'a', rows), ask(other, 'b', rows.toReversed())]);
      expect(rows.map((_, i) => Number(a[i]) + Number(b[rows.length - 1 - i]))).toEqual(rows.map(() => 1));
    });

    test('in one batch calls that ended come first, so that their rows may go again', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await ask(request(1, 'a', { hold: true }), request(2, 'a', { hold: true }));
      const settled = [
        { run, first: 1, row: 1, call: 'a', outcome: null },
        { ...entry(run, 1, 2), call: 'a' },
      ];
      const reservations = [
        request(1, 'b', { hold: true, rows: [1, 2, 3].map((row) => ({ row, most: tokens(0) })) }),
      ];
      const [answer] = await ledger.write({ ...NOTHING, settled, reservations });
      expect(answer?.rows).toEqual(['granted', 'known', 'granted']);
      expect(await calls()).toEqual({ ...NO_CALLS, sent: 3, in_flight: 2 });
    });

    test('another call for a row counts as repeated once its outcome is there, and once in all', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await ask(request(1, 'killed'), request(2, 'slow'));
      expect(await ask(request(1, 'next'), request(2, 'next'))).toEqual([true, true]);
      expect((await calls()).repeated).toBe(0);
      await end(1, 'next');
      expect(await calls()).toMatchObject({ repeated: 1, in_flight: 1 });
      await end(2, 'slow');
      expect(await calls()).toMatchObject({ repeated: 2, in_flight: 0 });
      await end(2, 'next');
      expect(await calls()).toMatchObject({ repeated: 2, in_flight: 0 });
    });

    test('a row that ends in the write that settles its call, and not of it, is not repeated', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await ask(request(1, 'a'));
      await settle(1, 'a', entry(run, 1, 1));
      expect(await calls()).toEqual({ ...NO_CALLS, sent: 1 });
    });

    test('calls of the process before count as repeated when a later execution opens, unless they hold', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      const own = [request(1, 'own:1:a'), request(2, 'own:1:a'), request(3, 'any:1:b')];
      await ask(...own);
      await ledger.open(run, 1, 0, NO_CALLS);
      expect(await calls()).toMatchObject({ repeated: 0, in_flight: 3 });
      await ledger.open(run, 2, 0, NO_CALLS, false);
      expect(await calls()).toMatchObject({ repeated: 0, in_flight: 3 });
      await ledger.open(run, 3, 0, NO_CALLS);
      expect(await calls()).toMatchObject({ repeated: 2, in_flight: 1 });
      expect(await flying(3, 1, 2, 3)).toEqual([[3, 'any:1:b']]);
    });

    test('fault 89: a real outcome takes the place of an unknown one, until that is written', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await ask(request(1, 'a'), request(2, 'a'));
      const given = [1, 2].map((row) => ({ run, first: 1, row, call: null, outcome: unknown }));
      await record(ledger, given);
      expect((await ledger.progress(run, [1])).counts).toEqual([2]);
      expect(await ledger.waiting(run)).toBe(2);
      await end(1, 'a', '"code":"outcome_unknown"');
      await record(ledger, given);
      expect(await ledger.outcomes({ run, first: 1 })).toEqual(
        new Map<number, CalledOutcome>([
          [1, outcome('"code":"outcome_unknown"')],
          [2, unknown],
        ]),
      );
      await ledger.forget(run, 2, [1]);
      await end(2, 'a');
      // Given twice, and once for a row with a real outcome; no call was made twice.
      expect(await calls()).toMatchObject({ repeated: 2, in_flight: 0 });
    });

    test('fault 89: a run that must not begin anew is opened only where it is known', async () => {
      expect(await ledger.open(run, 2, 5, null)).toBe(false);
      expect((await ledger.progress(run, [])).opened).toBe(false);
      expect(await isWanted(ledger, run, 6, 2)).toBe(false);
      expect(await ledger.open(run, 2, 5, NO_CALLS)).toBe(true);
      expect(await ledger.open(run, 3, 5, null)).toBe(true);
      expect(await isWanted(ledger, run, 6, 3)).toBe(true);
    });
  });

  describe('keeps a budget', () => {
    const unlimited: Bounds = { tokens: 1e15, cost: 1, promptPrice: 0, completionPrice: 0 };
    const request = (row: number, most: Tokens, bounds: Partial<Bounds>, by = run): Reservation => ({
      ...{ run: by, first: row, execution: 1, call: `call ${row}`, hold: false, looks: false },
      rows: [{ row, most }],
      bounds: { ...unlimited, ...bounds },
    });
    const states = (answers: readonly Answer[]) => answers.map(({ rows }) => rows.join());
    const end = (row: number, billed: Tokens, most: Tokens) =>
      record(
        ledger,
        [{ ...entry(run, row, row), call: `call ${row}` }],
        count({
          prompt_tokens: billed.prompt_tokens - most.prompt_tokens,
          completion_tokens: billed.completion_tokens - most.completion_tokens,
        }),
      );

    test('of tokens: requests in their order, and a small one takes the room that a large one leaves', async () => {
      await ledger.open(run, 1, 0, { ...NO_CALLS, prompt_tokens: 60, completion_tokens: 40 });
      const asked = [tokens(10, 20), tokens(50), tokens(20), tokens(1)];
      const answers = await reserve(ledger, ...asked.map((most, i) => request(i + 1, most, { tokens: 150 })));
      expect(states(answers)).toEqual(['granted', 'no_room', 'granted', 'no_room']);
      expect(answers[1]).toMatchObject({ spent: tokens(90, 60), inFlight: 2 });
      expect(await calls()).toEqual({
        ...NO_CALLS,
        sent: 2,
        in_flight: 2,
        prompt_tokens: 90,
        completion_tokens: 60,
      });
      await end(1, tokens(10, 3), tokens(10, 20));
      const [again] = await reserve(ledger, request(4, tokens(1), { tokens: 150 }));
      expect(again?.rows).toEqual(['granted']);
      expect(await calls()).toMatchObject({ sent: 3, prompt_tokens: 91, completion_tokens: 43 });
    });

    test('of money, by the price of each kind', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      const bounds = { cost: 35.5, promptPrice: 1.5, completionPrice: 2 };
      const asked = [tokens(10, 10), tokens(1), tokens(0, 1)].map((most, i) => request(i + 1, most, bounds));
      const answers = await reserve(ledger, ...asked);
      expect(states(answers)).toEqual(['granted', 'no_room', 'no_room']);
      const [one] = await reserve(ledger, request(2, tokens(1), { ...bounds, cost: 36.5 }));
      expect(one?.rows).toEqual(['granted']);
    });

    test('and reserves for a whole request or for none of it, but for rows that are known', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      await record(ledger, [entry(run, 1, 2)]);
      const rows = [1, 2, 3].map((row) => ({ row, most: tokens(40) }));
      const pack = { ...request(1, tokens(0), { tokens: 79 }), rows };
      const [none] = await reserve(ledger, pack);
      expect(none?.rows).toEqual(['no_room', 'known', 'no_room']);
      expect(none).toMatchObject({ spent: tokens(0), inFlight: 0 });
      const [all] = await reserve(ledger, { ...pack, bounds: { ...unlimited, tokens: 80 } });
      expect(all?.rows).toEqual(['granted', 'known', 'granted']);
      expect(await calls()).toMatchObject({ sent: 1, in_flight: 2, prompt_tokens: 80 });
    });

    test('each run its own, in one batch', async () => {
      const other = `${run}-other`;
      await ledger.open(run, 1, 0, { ...NO_CALLS, prompt_tokens: 90 });
      await ledger.open(other, 1, 0, NO_CALLS);
      const answers = await reserve(
        ledger,
        request(1, tokens(20), { tokens: 100 }),
        request(1, tokens(20), { tokens: 100 }, other),
        { ...request(2, tokens(0), {}), bounds: null },
      );
      expect(states(answers)).toEqual(['no_room', 'granted', 'granted']);
      expect(answers[0]).toMatchObject({ spent: tokens(90), inFlight: 1 });
    });

    test('fault 35: by what a worker knows to be spent, where the store has forgotten it', async () => {
      await ledger.open(run, 1, 0, NO_CALLS);
      const reservations = [request(1, tokens(60), { tokens: 100 }), request(2, tokens(45), { tokens: 100 })];
      const answers = await ledger.write({ ...NOTHING, reservations, atLeast: new Map([[run, tokens(50)]]) });
      expect(states(answers)).toEqual(['no_room', 'granted']);
      expect(answers[0]?.spent.prompt_tokens).toBeGreaterThanOrEqual(50);
    });

    test('of workers that ask at the same time', async () => {
      const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
      await ledger.open(run, 1, 0, NO_CALLS);
      const answers = await Promise.all(
        Array.from({ length: 24 }, (_, i) =>
          reserve(i % 2 === 0 ? ledger : other, request(i + 1, tokens(7 + (i % 5)), { tokens: 100 })),
        ),
      );
      const taken = answers
        .flat()
        .reduce((sum, { rows }, i) => sum + (rows[0] === 'granted' ? 7 + (i % 5) : 0), 0);
      expect(taken).toBeLessThanOrEqual(100);
      expect(taken, 'hardly any of it is left over').toBeGreaterThan(100 - 11);
      expect((await calls()).prompt_tokens).toBe(taken);
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

    const PATIENCE = { timeout: 60_000 };
    /** Resolves when the lease is over. */
    const ended = ({ ledger }: Store, row: number, execution: number): Promise<void> =>
      vi.waitFor(async () => expect(await isWanted(ledger, run, row, execution)).toBe(false), PATIENCE);

    test('a run whose lease is not renewed is not wanted, and outcomes that arrive then are kept', async () => {
      const { ledger } = hasty;
      await ledger.open(run, 1, 0, NO_CALLS);
      await ended(hasty, 1, 1);
      await record(ledger, [entry(run, 1, 1)]);
      expect((await ledger.progress(run, [1])).counts).toEqual([1]);
      // On a slow machine the lease may end again before it is looked at.
      await vi.waitFor(async () => {
        await ledger.open(run, 2, 0, NO_CALLS);
        expect(await look(ledger, run, 1, 2, [1, 2])).toEqual(['known', 'granted']);
      }, PATIENCE);
    });

    test('after the lease, the committed mark and the fence still stand', async () => {
      const { ledger } = hasty;
      await ledger.open(run, 2, 5, NO_CALLS);
      await ended(hasty, 6, 2);
      await record(ledger, [entry(run, 1, 5)]);
      expect((await ledger.progress(run, [1])).counts).toEqual([0]);
      await ledger.open(run, 1, 0, NO_CALLS);
      expect(await isWanted(ledger, run, 6, 1)).toBe(false);
    });

    test('forgetting renews the lease', async () => {
      const { ledger } = hasty;
      await ledger.open(run, 1, 0, NO_CALLS);
      await ended(hasty, 1, 1);
      await vi.waitFor(async () => {
        await ledger.forget(run, 0, []);
        expect(await isWanted(ledger, run, 1, 1)).toBe(true);
      }, PATIENCE);
    });
  });

  test('a closed run leaves nothing behind, and forgotten chunks neither', async () => {
    await ledger.open(run, 1, 0, NO_CALLS);
    await record(
      ledger,
      [1, 2, 3].map((row) => entry(run, row, row)),
      count({ sent: 3 }),
    );
    await ledger.stop(run, 1, { code: 'c', message: 'm' });
    await ledger.forget(run, 2, [1, 2]);
    await ledger.close(`${run}-never-opened`);
    const closed = `${run}-closed`;
    await ledger.open(closed, 1, 0, NO_CALLS);
    await record(ledger, [entry(closed, 1, 1)], new Map([[closed, { sent: 1 }]]));
    await ledger.stop(closed, 1, { code: 'c', message: 'm' });
    await reserve(ledger, {
      ...{ run: closed, first: 1, execution: 1, call: 'a', hold: false, bounds: null, looks: false },
      rows: [{ row: 2, most: tokens(0) }],
    });
    await ledger.close(closed);
    expect(await leftovers(underTest(), store, closed)).toEqual([]);
    expect(await leftovers(underTest(), store, run)).not.toEqual([]);
    expect(
      (await leftovers(underTest(), store, run)).filter((left) => /rows:[12]$|first [12]$/.test(left)),
    ).toEqual([]);
  });
});
