import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { Counters } from '../../src/core/counters.js';
import type { CalledOutcome } from '../../src/core/model.js';
import { type Ledger, NOTHING, OUTCOME_UNKNOWN, type Settlement } from '../../src/store/ledger.js';
import type { Store } from '../../src/store/store.js';
import { describeEachStore } from '../support/stores.js';
import { leftovers } from './leftovers.js';
import { entry, look, NO_CALLS, outcome, record, reserve, tokens } from './samples.js';

describeEachStore('interim outcomes of the ledger', (underTest) => {
  let store: Store;
  let ledger: Ledger;
  let run: string;
  let runs = 0;

  beforeAll(async () => {
    store = await underTest().open();
    ledger = store.ledger;
  });
  beforeEach(async () => {
    run = `run-${++runs}`;
    await ledger.open(run, 1, 0, NO_CALLS);
  });

  const unknown: CalledOutcome = {
    status: 'failed',
    error: { code: OUTCOME_UNKNOWN, message: 'lost' },
    attempts: 1,
    latency_ms: null,
  };
  const calls = async (): Promise<Counters> => (await ledger.progress(run, [])).calls;
  /** An answer that does not fit, of a row that was asked so often. */
  const unfit = (row: number, interim: number, text: string, call: string | null = null): Settlement => ({
    ...entry(run, 1, row, text),
    ...{ call, interim },
  });
  const ask = async (call: string, ...rows: readonly number[]): Promise<readonly unknown[]> => {
    const request = { run, first: 1, execution: 1, call, hold: false, bounds: null, looks: false };
    const asked = rows.map((row) => ({ row, most: tokens(0) }));
    const [answer] = await reserve(ledger, { ...request, rows: asked });
    return answer?.rows ?? [];
  };
  /** Row → text of its interim outcome. */
  const interim = async (...rows: readonly number[]): Promise<unknown> =>
    Object.fromEntries(
      [...(await ledger.interim(run, rows))].map(([row, found]) => [
        row,
        found.status === 'completed' && found.completion.text,
      ]),
    );

  test('are given back by their rows, unchanged', async () => {
    const text = '\u0000 \ud800 \udfff 😀 \u2028 1\n2';
    await record(ledger, [unfit(1, 1, text), unfit(10, 12, 'ten')]);
    const found = await ledger.interim(run, [10, 2, 1]);
    expect(found).toEqual(
      new Map([
        [10, outcome('ten')],
        [1, outcome(text)],
      ]),
    );
    expect(await ledger.interim(run, [])).toEqual(new Map());
    expect(await ledger.interim(`${run}-other`, [1])).toEqual(new Map());
  });

  test('are told to one who looks at rows that could be called, after what the same write settles', async () => {
    const text = '\u0000 \ud800 😀 1\n2';
    await record(ledger, [unfit(1, 1, text), unfit(2, 1, 'ends'), unfit(3, 1, 'held'), unfit(5, 9, 'nine')]);
    await ask('a', 3);
    const rows = [5, 4, 3, 2, 1].map((row) => ({ row, most: tokens(0) }));
    const looking = { run, first: 1, execution: 1, call: 'b', hold: true, rows, bounds: null, looks: true };
    const answers = await ledger.write({
      ...NOTHING,
      settled: [entry(run, 1, 2), unfit(5, 10, 'ten')],
      reservations: [
        looking,
        // Its own call may go on.
        { ...looking, call: 'a' },
        ...[
          { ...looking, run: `${run}-other` },
          { ...looking, execution: 2 },
        ],
        { ...looking, looks: false, rows: [{ row: 1, most: tokens(0) }] },
      ],
    });
    const [ten, held, one] = [
      [5, outcome('ten')],
      [3, outcome('held')],
      [1, outcome(text)],
    ];
    expect(answers.map(({ interim }) => [...interim])).toEqual([[ten, one], [ten, held, one], [], [], []]);
    expect(answers.at(-1)?.rows).toEqual(['granted']);
  });

  test('count as outcomes nowhere, and their rows may be called', async () => {
    await ask('a', 1);
    await record(ledger, [unfit(1, 1, 'unfit', 'a'), entry(run, 1, 2)]);
    expect(await ledger.progress(run, [1])).toMatchObject({ counts: [1], calls: { ...NO_CALLS, sent: 1 } });
    expect(await ledger.waiting(run)).toBe(1);
    expect([...(await ledger.outcomes({ run, first: 1 }, 1)).keys()]).toEqual([2]);
    expect(await look(ledger, run, 1, 1, [1, 2])).toEqual(['granted', 'known']);
    expect(await ask('a', 1)).toEqual(['granted']);
    expect(await interim(1, 2)).toEqual({ 1: 'unfit' });
  });

  test('of more asks take the place of one; those of fewer or as many are dropped, and count as repeated', async () => {
    await ask('late', 1);
    await record(ledger, [unfit(1, 2, 'second')]);
    await record(ledger, [unfit(1, 2, 'as many'), unfit(1, 1, 'fewer', 'late')]);
    expect(await interim(1)).toEqual({ 1: 'second' });
    expect(await calls()).toMatchObject({ repeated: 2, in_flight: 0 });
    await record(ledger, [unfit(1, 1, 'told already', 'late')]);
    expect((await calls()).repeated).toBe(2);
    await record(ledger, [unfit(1, 10, 'tenth')]);
    expect(await interim(1)).toEqual({ 1: 'tenth' });
    await record(ledger, [unfit(1, 9, 'ninth')]);
    expect(await interim(1)).toEqual({ 1: 'tenth' });
    expect((await calls()).repeated).toBe(3);
  });

  test('end their own call and no other', async () => {
    await ask('a', 1);
    await ask('b', 1);
    await record(ledger, [unfit(1, 1, 'of a', 'a')]);
    expect(await calls()).toMatchObject({ repeated: 0, in_flight: 1 });
    expect(await look(ledger, run, 1, 1, [1])).toMatchObject([{ call: 'b' }]);
    await record(ledger, [unfit(1, 1, 'of b', 'b')]);
    expect(await calls()).toMatchObject({ repeated: 1, in_flight: 0 });
    expect(await interim(1)).toEqual({ 1: 'of a' });
  });

  test('go with the outcome of their row, also an unknown one, and none comes after it', async () => {
    await record(ledger, [unfit(1, 1, 'one'), unfit(2, 1, 'two'), unfit(3, 1, 'three')]);
    await ask('late', 1);
    await record(ledger, [entry(run, 1, 1), { ...entry(run, 1, 2), outcome: unknown }]);
    expect(await interim(1, 2, 3)).toEqual({ 3: 'three' });
    expect((await calls()).repeated, 'the other call for the row').toBe(1);
    await record(ledger, [unfit(1, 2, 'not told of', 'late'), unfit(1, 3, 'of no call')]);
    expect(await interim(1)).toEqual({});
    expect((await calls()).repeated).toBe(2);
    expect(await ledger.outcomes({ run, first: 1 })).toEqual(
      new Map<number, CalledOutcome>([
        [1, outcome('text of 1')],
        [2, unknown],
      ]),
    );
  });

  test('fault 89: take the place of an unknown outcome, because the row is not asked again', async () => {
    await ask('slow', 1);
    await record(ledger, [{ ...entry(run, 1, 1), outcome: unknown }, entry(run, 1, 2)]);
    await record(ledger, [unfit(1, 1, 'paid for', 'slow'), entry(run, 1, 2, 'dropped')]);
    expect(await interim(1)).toEqual({});
    const { counts, calls } = await ledger.progress(run, [1]);
    expect(counts).toEqual([2]);
    expect(calls).toMatchObject({ repeated: 1, in_flight: 0 });
    expect(await ledger.outcomes({ run, first: 1 }, 2)).toEqual(
      new Map([
        [1, outcome('paid for')],
        [2, outcome('text of 2')],
      ]),
    );
  });

  test('are settled in their order with the outcomes of the same write', async () => {
    await ask('a', 1, 2, 3, 4);
    await record(ledger, [
      // Asked again in vain, and given up.
      ...[unfit(1, 1, 'interim', 'a'), entry(run, 1, 1, 'end')],
      ...[entry(run, 1, 2, 'end'), unfit(2, 1, 'too late', 'a')],
      ...[unfit(3, 1, 'once', 'a'), unfit(3, 2, 'twice')],
      ...[unfit(4, 2, 'twice', 'a'), unfit(4, 1, 'once')],
    ]);
    expect(await interim(1, 2, 3, 4)).toEqual({ 3: 'twice', 4: 'twice' });
    expect([...(await ledger.outcomes({ run, first: 1 }, 2)).values()]).toEqual([
      outcome('end'),
      outcome('end'),
    ]);
    expect(await calls()).toMatchObject({ repeated: 2, in_flight: 0 });
  });

  test('and the next call for the row are one step', async () => {
    await ask('a', 1);
    const again = { run, first: 1, execution: 1, call: 'a', hold: true, bounds: null, looks: false };
    const [answer] = await ledger.write({
      ...NOTHING,
      settled: [unfit(1, 1, 'unfit', 'a')],
      reservations: [{ ...again, rows: [{ row: 1, most: tokens(0) }] }],
    });
    expect(answer?.rows).toEqual(['granted']);
    expect(await calls()).toEqual({ ...NO_CALLS, sent: 2, in_flight: 1 });
    expect(await interim(1)).toEqual({ 1: 'unfit' });
  });

  test('leave the outcomes of their batch to whoever wrote them', async () => {
    const other = underTest().server === null ? ledger : (await underTest().open()).ledger;
    await record(ledger, [unfit(1, 1, 'kept'), entry(run, 1, 2, 'own')]);
    await record(ledger, [unfit(1, 1, 'dropped'), entry(run, 1, 3, 'own')]);
    await record(other, [entry(run, 1, 1, 'of another')]);
    expect(await ledger.outcomes({ run, first: 1 }, 3)).toEqual(
      new Map([
        [1, outcome('of another')],
        [2, outcome('own')],
        [3, outcome('own')],
      ]),
    );
  });

  test('stay for the executions that follow, for the rows that are not on disk', async () => {
    await record(ledger, [unfit(1, 1, 'one'), unfit(2, 1, 'two'), unfit(3, 1, 'three')]);
    await ledger.open(run, 2, 1, NO_CALLS);
    expect(await interim(1, 2, 3)).toEqual({ 2: 'two', 3: 'three' });
    expect(await look(ledger, run, 1, 2, [2])).toEqual(['granted']);
    await record(ledger, [unfit(1, 2, 'on disk')]);
    expect(await interim(1)).toEqual({});
    expect((await calls()).repeated).toBe(1);
  });

  test('of chunks that are on disk are forgotten', async () => {
    const second = { ...unfit(3, 1, 'three'), first: 3 };
    await record(ledger, [unfit(1, 1, 'one'), entry(run, 1, 2), second]);
    await ledger.forget(run, 2, [1]);
    expect(await interim(1, 3)).toEqual({ 3: 'three' });
  });

  test('of a run that nobody has opened are kept, and of one that is closed nothing is left', async () => {
    await ledger.close(run);
    await record(ledger, [unfit(1, 1, 'one')]);
    expect(await interim(1)).toEqual({ 1: 'one' });
    await ledger.close(run);
    expect(await interim(1)).toEqual({});
    expect(await leftovers(underTest(), store, run)).toEqual([]);
  });
});
