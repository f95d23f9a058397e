import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { Board } from '../../src/store/board.js';
import { describeEachStore } from '../support/stores.js';

const LONG = 3_600_000;

describeEachStore('the board', (underTest) => {
  let board: Board;
  let other: Board;

  beforeAll(async () => {
    board = (await underTest().open()).board;
    // Of another process, where the store takes one; the embedded store gives it a database of its own.
    other = (await underTest().open()).board;
  });
  beforeEach(async () => {
    for (const kind of ['run', 'worker'] as const) {
      for (const { id } of await board.posts(kind)) await board.remove(kind, id);
    }
  });

  const texts = async (kind: 'run' | 'worker'): Promise<string[]> =>
    (await other.posts(kind)).map(({ id, text }) => `${id}: ${text}`).sort();

  test('is empty before anybody posts', async () => {
    expect(await board.posts('run')).toEqual([]);
  });

  test('shows a post to all, the last text of it, and kinds apart', async () => {
    await board.post('run', 'a', 'one', LONG);
    await board.post('run', 'b', 'two', LONG);
    await board.post('worker', 'a', 'three', LONG);
    await other.post('run', 'a', 'four', LONG);
    expect(await texts('run')).toEqual(['a: four', 'b: two']);
    expect(await texts('worker')).toEqual(['a: three']);
  });

  test('keeps any id and any text as it is', async () => {
    const ids = ['../../etc/passwd', '.', 'web 1:4711*{x}', 'ä/ö', '__proto__'];
    const text = JSON.stringify({ nul: '\0', lone: '\ud800', lines: 'a\nb\r\n', empty: '' });
    for (const id of ids) await board.post('worker', id, `${id}\n${text}`, LONG);
    expect(await texts('worker')).toEqual(ids.map((id) => `${id}: ${id}\n${text}`).sort());
    for (const id of ids) await other.remove('worker', id);
    expect(await board.posts('worker')).toEqual([]);
  });

  test('takes down what is asked for, and is not disturbed by what is not there', async () => {
    await board.post('run', 'a', 'one', LONG);
    await other.remove('run', 'a');
    await other.remove('run', 'a');
    await other.remove('worker', 'a');
    expect(await board.posts('run')).toEqual([]);
  });

  test('takes down what was not replaced in time', async () => {
    await board.post('run', 'over', 'one', 1);
    await board.post('run', 'replaced', 'one', 1);
    await board.post('run', 'replaced', 'two', LONG);
    await expect.poll(() => texts('run')).toEqual(['replaced: two']);
    // What is over also goes with the next post, and not only out of sight.
    await board.post('run', 'another', 'three', LONG);
    expect(await texts('run')).toEqual(['another: three', 'replaced: two']);
  });

  test('tells how old a post is, newest first, and leaves out what is older than asked', async () => {
    await board.post('run', 'old', 'one', LONG);
    const age = async (id: string): Promise<number> =>
      (await other.posts('run')).find((post) => post.id === id)?.ageMs ?? -1;
    expect(await age('old')).toBeGreaterThanOrEqual(0);
    await expect.poll(() => age('old')).toBeGreaterThan(50);
    await board.post('run', 'new', 'two', LONG);
    const posts = await other.posts('run');
    expect(posts.map(({ id }) => id)).toEqual(['new', 'old']);
    const [first, second] = posts.map(({ ageMs }) => ageMs);
    // Younger than the old one, however long this took.
    expect(first).toBeLessThan(second ?? 0);
    expect(await other.posts('run', 0.001).then((found) => found.map(({ id }) => id))).not.toContain('old');
    expect(await other.posts('run', LONG)).toHaveLength(2);
    // Clocks of file systems have steps of some milliseconds.
    await expect.poll(() => age('new')).toBeGreaterThan(20);
    await board.post('run', 'old', 'three', LONG);
    expect((await other.posts('run')).map(({ id }) => id)).toEqual(['old', 'new']);
  });
});
