import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { Register } from '../../src/store/register.js';
import { describeEachStore } from '../support/stores.js';

describeEachStore('the register', (underTest) => {
  let register: Register;
  let other: Register;
  let name: string;
  let names = 0;

  beforeAll(async () => {
    register = (await underTest().open()).register;
    // Of another process, where the store takes one; the embedded store gives it a database of its own.
    other = (await underTest().open()).register;
  });
  beforeEach(() => {
    name = `promptmill-lm.35_x-${++names}`;
  });

  test('holds nothing before it is written', async () => {
    expect(await register.read(name)).toMatchObject({ text: null, written: false });
  });

  test('is written by whoever knows what it holds, and read by all', async () => {
    expect(await register.swap(name, null, 'one')).toMatchObject({ text: 'one', written: true });
    expect(await other.read(name)).toMatchObject({ text: 'one', written: false });
    expect(await other.swap(name, 'one', 'two')).toMatchObject({ text: 'two', written: true });
    expect(await register.read(name)).toMatchObject({ text: 'two' });
  });

  test('is not written by those who do not know, and tells them', async () => {
    await register.swap(name, null, 'one');
    expect(await other.swap(name, null, 'two')).toMatchObject({ text: 'one', written: false });
    expect(await other.swap(name, 'zero', 'two')).toMatchObject({ text: 'one', written: false });
    expect(await other.swap(`${name}-b`, 'zero', 'two')).toMatchObject({ text: null, written: false });
    expect(await register.read(name)).toMatchObject({ text: 'one' });
  });

  test('keeps names apart', async () => {
    await register.swap(name, null, 'one');
    await register.swap(`${name}-b`, null, 'two');
    expect(await register.read(name)).toMatchObject({ text: 'one' });
  });

  test('loses no change of many who write at the same time', async () => {
    const addOne = async (by: Register): Promise<void> => {
      let before = (await by.read(name)).text;
      for (;;) {
        const reply = await by.swap(name, before, String(Number(before ?? 0) + 1));
        if (reply.written) return;
        before = reply.text;
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, i) => addOne(i % 2 === 0 ? register : other)));
    expect((await other.read(name)).text).toBe('20');
  });

  test('tells a time that goes on', async () => {
    const first = (await register.read(name)).now;
    const second = (await other.swap(name, null, 'one')).now;
    expect(second).toBeGreaterThanOrEqual(first);
    // Milliseconds since 1970, of this century.
    expect(first).toBeGreaterThan(Date.UTC(2020));
    expect(first).toBeLessThan(Date.UTC(2100));
  });
});
