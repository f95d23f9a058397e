import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { KeyValue } from '../../src/store/key-value.js';
import { describeEachStore } from '../support/stores.js';

const LONG = 3_600_000;
/** What others than Promptmill may call things, and write into them. */
const NAMES = ['../../etc/passwd', '.', 'web 1:4711*{x}', 'ä/ö', '__proto__', 'promptmill-lm.35_x.lock'];
const TEXT = JSON.stringify({ nul: '\0', lone: '\ud800', lines: 'a\nb\r\n', empty: '' });

describeEachStore('texts by name', (underTest) => {
  let texts: KeyValue;
  let other: KeyValue;

  beforeAll(async () => {
    texts = (await underTest().open()).keyValue;
    // Of another process, where the store takes one; the embedded store gives it a directory of its own.
    other = (await underTest().open()).keyValue;
  });
  beforeEach(async () => {
    for (const folder of ['run', 'worker', 'pace'] as const) {
      for (const { name } of await texts.list(folder)) await texts.remove(folder, name);
    }
  });

  const listed = async (folder: 'run' | 'worker' | 'pace'): Promise<string[]> =>
    (await other.list(folder)).map(({ name, text }) => `${name}: ${text}`).sort();

  test('hold nothing before anybody writes', async () => {
    expect(await texts.list('run')).toEqual([]);
    expect(await texts.get('pace', 'a')).toMatchObject({ text: null, written: false });
  });

  test('show what was put to all, the last text of a name, and folders apart', async () => {
    await texts.put('run', 'a', 'one', LONG);
    await texts.put('run', 'b', 'two', LONG);
    await texts.put('worker', 'a', 'three', LONG);
    await other.put('run', 'a', 'four', LONG);
    expect(await listed('run')).toEqual(['a: four', 'b: two']);
    expect(await listed('worker')).toEqual(['a: three']);
    expect(await texts.get('run', 'a')).toMatchObject({ text: 'four', written: false });
    expect(await texts.get('worker', 'b')).toMatchObject({ text: null });
  });

  test('keep any name and any text as it is', async () => {
    for (const name of NAMES) await texts.put('worker', name, `${name}\n${TEXT}`, LONG);
    expect(await listed('worker')).toEqual(NAMES.map((name) => `${name}: ${name}\n${TEXT}`).sort());
    for (const name of NAMES) {
      expect((await other.get('worker', name)).text).toBe(`${name}\n${TEXT}`);
      expect(await other.swap('pace', name, null, TEXT, LONG)).toMatchObject({ text: TEXT, written: true });
      expect((await texts.get('pace', name)).text).toBe(TEXT);
      await other.remove('worker', name);
    }
    expect(await texts.list('worker')).toEqual([]);
  });

  test('are removed when asked for, and nothing happens for what is not there', async () => {
    await texts.put('run', 'a', 'one', LONG);
    await other.remove('run', 'a');
    await other.remove('run', 'a');
    await other.remove('worker', 'a');
    expect(await texts.list('run')).toEqual([]);
    expect((await texts.get('run', 'a')).text).toBeNull();
  });

  test('go when they were not written again in time', async () => {
    await texts.put('run', 'over', 'one', 1);
    await texts.put('run', 'replaced', 'one', 1);
    await texts.put('run', 'replaced', 'two', LONG);
    await expect.poll(() => listed('run')).toEqual(['replaced: two']);
    // What is over also goes with the next text, and not only out of sight.
    await texts.put('run', 'another', 'three', LONG);
    expect(await listed('run')).toEqual(['another: three', 'replaced: two']);
    expect((await texts.get('run', 'over')).text).toBeNull();
  });

  test('tell how old they are, the newest first, and leave out what is older than asked', async () => {
    await texts.put('run', 'old', 'one', LONG);
    const age = async (wanted: string): Promise<number> =>
      (await other.list('run')).find(({ name }) => name === wanted)?.ageMs ?? -1;
    expect(await age('old')).toBeGreaterThanOrEqual(0);
    await expect.poll(() => age('old')).toBeGreaterThan(50);
    await texts.put('run', 'new', 'two', LONG);
    const both = await other.list('run');
    expect(both.map(({ name }) => name)).toEqual(['new', 'old']);
    const [first, second] = both.map(({ ageMs }) => ageMs);
    // Younger than the old one, however long this took.
    expect(first).toBeLessThan(second ?? 0);
    expect(await other.list('run', 0.001).then((found) => found.map(({ name }) => name))).not.toContain(
      'old',
    );
    expect(await other.list('run', LONG)).toHaveLength(2);
    // Clocks of file systems have steps of some milliseconds.
    await expect.poll(() => age('new')).toBeGreaterThan(20);
    await texts.put('run', 'old', 'three', LONG);
    expect((await other.list('run')).map(({ name }) => name)).toEqual(['old', 'new']);
  });

  test('are swapped by whoever knows what is there, and read by all', async () => {
    expect(await texts.swap('pace', 'a', null, 'one', LONG)).toMatchObject({ text: 'one', written: true });
    expect(await other.get('pace', 'a')).toMatchObject({ text: 'one', written: false });
    expect(await other.swap('pace', 'a', 'one', 'two', LONG)).toMatchObject({ text: 'two', written: true });
    expect(await texts.get('pace', 'a')).toMatchObject({ text: 'two' });
    expect(await listed('pace')).toEqual(['a: two']);
  });

  test('are left alone by a swap of those who do not know, which tells them', async () => {
    await texts.swap('pace', 'a', null, 'one', LONG);
    expect(await other.swap('pace', 'a', null, 'two', LONG)).toMatchObject({ text: 'one', written: false });
    expect(await other.swap('pace', 'a', 'zero', 'two', LONG)).toMatchObject({ text: 'one', written: false });
    expect(await other.swap('pace', 'b', 'zero', 'two', LONG)).toMatchObject({ text: null, written: false });
    expect(await texts.get('pace', 'a')).toMatchObject({ text: 'one' });
  });

  test('are nothing to a swap once they are over', async () => {
    await texts.swap('pace', 'a', null, 'one', 1);
    await expect.poll(async () => (await other.get('pace', 'a')).text).toBeNull();
    expect(await other.swap('pace', 'a', 'one', 'two', LONG)).toMatchObject({ text: null, written: false });
    expect(await other.swap('pace', 'a', null, 'three', LONG)).toMatchObject({
      text: 'three',
      written: true,
    });
    expect(await texts.get('pace', 'a')).toMatchObject({ text: 'three' });
  });

  test('lose no swap of many who write at the same time', async () => {
    const addOne = async (by: KeyValue): Promise<void> => {
      let before = (await by.get('pace', 'sum')).text;
      for (;;) {
        const reply = await by.swap('pace', 'sum', before, String(Number(before ?? 0) + 1), LONG);
        if (reply.written) return;
        before = reply.text;
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, i) => addOne(i % 2 === 0 ? texts : other)));
    expect((await other.get('pace', 'sum')).text).toBe('20');
  });

  test('tell a time that goes on', async () => {
    const first = (await texts.get('pace', 'a')).now;
    const second = (await other.swap('pace', 'a', null, 'one', LONG)).now;
    expect(second).toBeGreaterThanOrEqual(first);
    // Milliseconds since 1970, of this century.
    expect(first).toBeGreaterThan(Date.UTC(2020));
    expect(first).toBeLessThan(Date.UTC(2100));
  });
});
