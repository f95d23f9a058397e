import { expect, it } from 'vitest';
import { Bulletin, type BulletinOptions } from '../../src/fleet/bulletin.js';

/** A board whose writes end when the test says so. */
function slowBoard() {
  const written: string[] = [];
  const waiting: (() => void)[] = [];
  const later = async (what: string): Promise<void> => {
    await new Promise<void>((resolve) => waiting.push(resolve));
    written.push(what);
  };
  const keyValue = {
    put: (_folder: string, name: string, text: string) => later(`${name}: ${text}`),
    remove: (_folder: string, name: string) => later(`${name} removed`),
  };
  return { keyValue, written, waiting };
}

function begin(keyValue: BulletinOptions['keyValue']) {
  let n = 0;
  const errors: unknown[] = [];
  const bulletin = new Bulletin({
    keyValue,
    kind: 'run',
    id: 'a',
    text: () => `post ${++n}`,
    everyMs: 1,
    ttlMs: 1_000,
    onError: (error) => errors.push(error),
  });
  return { bulletin, errors, posts: () => n };
}

it('writes one post at a time, and the last one after all others', async () => {
  const { keyValue, written, waiting } = slowBoard();
  const { bulletin, posts } = begin(keyValue);
  let ticks = 0;
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      if (++ticks < 5) return;
      clearInterval(timer);
      resolve();
    }, 1);
  });
  expect(posts(), 'the store has not answered the first').toBe(1);
  const ended = bulletin.endWithPost();
  expect(posts()).toBe(1);
  waiting.shift()?.();
  await expect.poll(() => waiting.length).toBe(1);
  waiting.shift()?.();
  await ended;
  expect(written).toEqual(['a: post 1', 'a: post 2']);
  await bulletin.endWithout();
  expect(written, 'it has ended').toHaveLength(2);
});

it('takes the post down at the end, after the one under way', async () => {
  const { keyValue, written, waiting } = slowBoard();
  const { bulletin } = begin(keyValue);
  const ended = bulletin.endWithout();
  waiting.shift()?.();
  await expect.poll(() => waiting.length).toBe(1);
  waiting.shift()?.();
  await ended;
  expect(written).toEqual(['a: post 1', 'a removed']);
});

it('goes on after a refusal, and tells it', async () => {
  let refusals = 0;
  const keyValue = {
    put: async () => {
      if (++refusals < 3) throw new Error('refused');
    },
    remove: async () => {
      throw new Error('refused too');
    },
  };
  const { bulletin, errors } = begin(keyValue);
  await expect.poll(() => refusals).toBeGreaterThan(3);
  await bulletin.endWithout();
  expect(errors.map(String)).toEqual(['Error: refused', 'Error: refused', 'Error: refused too']);
});
