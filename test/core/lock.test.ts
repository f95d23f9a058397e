import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { acquireLock, LockedError, thisProcess } from '../../src/core/lock.js';
import { built, type Child, startChild } from '../support/children.js';

let folder: string;
let path: string;
const children: Child[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'promptmill-lock-'));
  path = join(folder, 'lock');
});
afterEach(async () => {
  for (const child of children.splice(0)) await child.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** A process that takes the lock when it is told to, says how that went, and stays. */
function contender(): Child {
  const child = startChild(`
    const { acquireLock } = await import(${JSON.stringify(built('core/lock.js'))});
    console.log('ready');
    await lines.next();
    try {
      await acquireLock(${JSON.stringify(path)}, { purpose: 'a test' });
      console.log('held');
    } catch (error) {
      console.log(error.code + ' ' + error.holder?.pid);
    }
    await lines.next();
  `);
  children.push(child);
  return child;
}

async function holder(): Promise<Child> {
  const child = contender();
  await child.line();
  child.tell('go');
  expect(await child.line()).toBe('held');
  return child;
}

test('a held lock is refused with its holder and its purpose', async () => {
  const lock = await acquireLock(path, { purpose: 'writing reviews.csv' });
  const refused = acquireLock(path, { purpose: 'another' });
  await expect(refused).rejects.toBeInstanceOf(LockedError);
  await expect(refused).rejects.toMatchObject({
    exit: 2,
    code: 'locked',
    holder: { pid: process.pid, host: hostname(), purpose: 'writing reviews.csv' },
  });
  lock.release();
});

test('a released lock can be had again and leaves nothing behind', async () => {
  (await acquireLock(path, { purpose: 'a' })).release();
  expect(existsSync(path)).toBe(false);
  const again = await acquireLock(path, { purpose: 'b' });
  again.release();
  again.release();
  expect(readdirSync(folder)).toEqual([]);
});

test('a refused claim leaves nothing of itself behind', async () => {
  const lock = await acquireLock(path, { purpose: 'a' });
  await acquireLock(path, { purpose: 'b' }).catch(() => {});
  expect(readdirSync(path)).toHaveLength(1);
  lock.release();
});

test('of many claims in one process exactly one is granted', async () => {
  const claims = await Promise.allSettled(
    Array.from({ length: 10 }, () => acquireLock(path, { purpose: 'a' })),
  );
  expect(claims.filter((claim) => claim.status === 'fulfilled')).toHaveLength(1);
});

test('fault 39: another process is refused while the holder lives, and takes over at once after kill -9', async () => {
  const first = await holder();
  await expect(acquireLock(path, { purpose: 'b' })).rejects.toMatchObject({ holder: { pid: first.pid } });
  await first.kill('SIGKILL');
  const lock = await acquireLock(path, { purpose: 'b' });
  expect(readdirSync(path)).toHaveLength(1);
  lock.release();
});

test('fault 39: of processes that race for the lock of a killed one exactly one gets it', async () => {
  await (await holder()).kill('SIGKILL');
  const racers = Array.from({ length: 6 }, contender);
  for (const racer of racers) await racer.line();
  for (const racer of racers) racer.tell('go');
  const results = await Promise.all(racers.map((racer) => racer.line()));
  const winner = racers[results.indexOf('held')]?.pid;
  expect(results.toSorted()).toEqual(['held', ...Array(5).fill(`locked ${winner}`)]);
});

test('a frozen holder still holds', async () => {
  const frozen = await holder();
  process.kill(frozen.pid, 'SIGSTOP');
  await expect(acquireLock(path, { purpose: 'b' })).rejects.toMatchObject({ holder: { pid: frozen.pid } });
});

/** Leaves a claim as another process would have, and returns its file. */
function leaveClaim(claim: { pid: number; host: string; began: string | null; space: string }): string {
  mkdirSync(path, { recursive: true });
  const file = join(path, 'a-claim');
  writeFileSync(file, JSON.stringify({ ...claim, purpose: 'a test', held: true }));
  return file;
}

test.runIf(existsSync('/proc/self/stat'))(
  'a later process with the number of the holder is not the holder',
  async () => {
    leaveClaim({ ...thisProcess(), pid: process.ppid, began: '1' });
    (await acquireLock(path, { purpose: 'b' })).release();
  },
);

describe('fault 60: a holder that cannot be looked at', () => {
  /** The number of a process that lives, in a namespace of its own, on a machine of the same name. */
  const ELSEWHERE = { pid: process.pid, host: hostname(), began: null, space: 'another boot and namespace' };
  const patience = { beatMs: 20, silentMs: 1_000 };

  test('holds as long as its claim shows signs of life, whatever the clock says', async () => {
    const file = leaveClaim(ELSEWHERE);
    const longAgo = Date.now() / 1000 - 1_000_000;
    let beats = 0;
    const beat = setInterval(() => utimesSync(file, longAgo + ++beats, longAgo + beats), patience.beatMs);
    const watched: string[] = [];
    const refused = acquireLock(path, {
      // A busy machine is late with a beat: it must not pass for silence.
      ...{ purpose: 'b', patience: { ...patience, silentMs: 60_000 } },
      onWatch: ({ purpose }) => watched.push(purpose),
    });
    await expect(refused).rejects.toMatchObject({ holder: { host: hostname(), purpose: 'a test' } });
    clearInterval(beat);
    expect(watched).toEqual(['a test']);
    expect(readdirSync(path)).toEqual(['a-claim']);
  });

  test('loses the lock when it was silent for long enough, and finds that out', async () => {
    const frozen = await acquireLock(path, { purpose: 'a', patience: { ...patience, beatMs: 1_000_000 } });
    const [file = ''] = readdirSync(path);
    const claim = JSON.parse(readFileSync(join(path, file), 'utf8'));
    writeFileSync(join(path, file), JSON.stringify({ ...claim, space: ELSEWHERE.space }));
    expect(frozen.isHeld()).toBe(true);
    const lock = await acquireLock(path, { purpose: 'b', patience });
    expect([lock.tookOver, lock.isHeld(), frozen.isHeld()]).toEqual([true, true, false]);
    frozen.release();
    expect(lock.isHeld()).toBe(true);
    lock.release();
    expect(existsSync(path)).toBe(false);
  });

  test('is not waited for by one that only sweeps, nor after a signal', async () => {
    leaveClaim(ELSEWHERE);
    await expect(acquireLock(path, { purpose: 'b', watch: false })).rejects.toBeInstanceOf(LockedError);
    const ended = new AbortController();
    const waiting = acquireLock(path, { purpose: 'b', onWatch: () => ended.abort(), signal: ended.signal });
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    expect(readdirSync(path)).toEqual(['a-claim']);
  });
});

test('the claim says who holds the lock, for people who look', async () => {
  const lock = await acquireLock(path, { purpose: 'writing reviews.csv' });
  const [file = ''] = readdirSync(path);
  expect(JSON.parse(readFileSync(join(path, file), 'utf8'))).toMatchObject({
    pid: process.pid,
    purpose: 'writing reviews.csv',
  });
  lock.release();
});
