import { describe, expect, it } from 'vitest';
import { FairOrder } from '../../src/queue/chunk-queue.js';
import { FairLimit, TaskLine } from '../../src/worker/fair-limit.js';

describe('the limit that runs share', () => {
  /** Jobs that go on until they are told to end. */
  function held(most: number) {
    const line = new TaskLine<null>();
    const limit = new FairLimit(most, line, null);
    const started: string[] = [];
    const ends: (() => void)[] = [];
    const ended: string[] = [];
    const run = async (name: string): Promise<void> => {
      started.push(name);
      await new Promise<void>((resolve) => ends.push(resolve));
      ended.push(name);
    };
    const add = (key: string, names: readonly string[], prepare = (_: string) => false): Promise<void> =>
      line.run(
        key,
        names.map((name) => ({ prepare: () => prepare(name), run: () => run(name) })),
      );
    const soon = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const endNext = (): Promise<void> => {
      ends.shift()?.();
      return soon();
    };
    return { line, limit, started, ended, add, endNext, soon };
  }

  it('starts no more than it may, and the others in turns of their keys', async () => {
    const { line, limit, started, ended, add, endNext, soon } = held(2);
    const all = [add('a', ['a1', 'a2', 'a3', 'a4', 'a5'])];
    await soon();
    all.push(add('b', ['b1']), add('b', ['b2']), add('c', ['c1']));
    expect(started).toEqual(['a1', 'a2']);
    expect([limit.activeCount, line.pendingCount]).toEqual([2, 6]);
    for (let i = 0; i < 8; i++) await endNext();
    expect(started).toEqual(['a1', 'a2', 'a3', 'b1', 'c1', 'a4', 'b2', 'a5']);
    await Promise.all(all);
    expect(ended).toEqual(started);
    expect([limit.activeCount, line.pendingCount]).toEqual([0, 0]);
  });

  it('has the next ones prepared in their turns, as many as can be, before those that are not', async () => {
    const { started, add, endNext, soon } = held(1);
    const prepared: string[] = [];
    let most = 2;
    const prepare = (name: string): boolean => {
      if (prepared.length === most) return false;
      prepared.push(name);
      return true;
    };
    void add('a', ['a1']);
    await soon();
    void add('a', ['a2', 'a3', 'a4'], prepare);
    void add('b', ['b1'], prepare);
    expect(prepared).toEqual(['a2', 'a3']);
    most = 3;
    for (let i = 0; i < 5; i++) await endNext();
    expect(prepared).toEqual(['a2', 'a3', 'a4']);
    expect(started).toEqual(['a1', 'a2', 'a3', 'a4', 'b1']);
  });

  it('starts more at once when it is raised, and goes on after a job that failed', async () => {
    const { line, limit, started, add, endNext, soon } = held(1);
    const no = { prepare: () => false, run: () => Promise.reject(new Error('no')) };
    const failing = line.run('a', [no]);
    void add('a', ['a1']);
    await expect(failing).rejects.toThrow('no');
    await soon();
    expect(started).toEqual(['a1']);
    void add('a', ['a2', 'a3']);
    limit.concurrency = 3;
    await soon();
    expect(started).toEqual(['a1', 'a2', 'a3']);
    limit.concurrency = 1;
    void add('a', ['a4']);
    await endNext();
    await endNext();
    expect(limit.activeCount).toBe(1);
    await endNext();
    expect(started).toEqual(['a1', 'a2', 'a3', 'a4']);
  });
});

describe('the order of chunks', () => {
  it('follows the rows of a run', () => {
    const order = new FairOrder();
    order.begin(1, null);
    const places = [1, 51, 101, 5_001].map((first) => order.priorityOf(first));
    expect(places).toEqual([1, 2, 3, 101]);
  });

  it('begins where the queue has got to, wherever its own rows begin', () => {
    const order = new FairOrder();
    order.begin(90_001, 300);
    expect([90_001, 90_051].map((first) => order.priorityOf(first))).toEqual([300, 301]);
    expect(order.isNew(90_051)).toBe(false);
    expect(order.isNew(90_101)).toBe(true);
  });

  it('goes on where the queue has got to after a time without rows, and keeps what it had before that', () => {
    const order = new FairOrder();
    order.begin(1, null);
    expect(order.priorityOf(1)).toBe(1);
    order.begin(51, 300);
    expect(order.priorityOf(51)).toBe(300);
    // A queue that was emptied meanwhile puts nobody back.
    order.begin(101, null);
    expect(order.priorityOf(101)).toBe(301);
    expect(order.priorityOf(1), 'an earlier chunk that is added again').toBeLessThan(300);
  });

  it('has a place for every row, however large the input', () => {
    const order = new FairOrder();
    order.begin(1, null);
    expect(order.priorityOf(10 ** 12)).toBe(2 ** 21 - 1);
  });
});
