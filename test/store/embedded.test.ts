import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openStore } from '../../src/store/open.js';
import type { Store } from '../../src/store/store.js';
import { built, startChild } from '../support/children.js';
import { entry, NO_CALLS, record } from './samples.js';

let stateDir: string;
let warnings: string[];
let opened: Store[];

const open = async (options: { preferred?: string; stateDir?: string } = {}): Promise<Store> => {
  const store = await openStore('embedded', {
    stateDir,
    onWarning: (message) => warnings.push(message),
    ...options,
  });
  opened.push(store);
  return store;
};

beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'promptmill-state-'));
  warnings = [];
  opened = [];
});
afterEach(async () => {
  for (const store of opened) await store.close();
  rmSync(stateDir, { recursive: true, force: true });
});

test('fault 39: a second run at the same time takes another directory and says which', async () => {
  const first = await open();
  const second = await open();
  expect([first.name, second.name]).toEqual(['store', 'store-2']);
  expect(warnings).toEqual([expect.stringContaining(join(stateDir, 'store-2'))]);
  expect(warnings[0]).toContain(String(process.pid));
  await first.ledger.stop('run', 1, { code: 'c', message: 'm' });
  expect((await second.ledger.progress('run', [])).stop).toBeNull();
});

test('a run comes back to the directory that it used', async () => {
  await open();
  const second = await open();
  await second.ledger.stop('run', 1, { code: 'c', message: 'm' });
  const name = second.name ?? '';
  for (const store of opened) await store.close();
  const again = await open({ preferred: name });
  expect(again.describe()).toBe(join(stateDir, 'store-2'));
  expect((await again.ledger.progress('run', [])).stop?.code).toBe('c');
});

test('a run whose own directory is in use does not start without what it has paid for', async () => {
  await open();
  await expect(open({ preferred: 'store' })).rejects.toMatchObject({
    exit: 2,
    code: 'store_in_use',
    message: expect.stringContaining(String(process.pid)),
    hint: expect.stringContaining('--restart'),
  });
});

test('a preferred name that is no store of ours is not followed', async () => {
  expect((await open({ preferred: '../elsewhere' })).describe()).toBe(join(stateDir, 'store'));
});

test('fault 39: after kill -9 the next run takes the directory over at once, with all that was recorded', async () => {
  const child = startChild(`
    const { openStore } = await import(${JSON.stringify(built('store/open.js'))});
    const { NO_CALLS } = await import(${JSON.stringify(built('core/counters.js'))});
    const store = await openStore('embedded', { stateDir: ${JSON.stringify(stateDir)}, onWarning: console.error });
    await store.ledger.open('run', 1, 0, NO_CALLS);
    for (let row = 1; ; row++) {
      const outcome = { status: 'failed', error: { code: 'c', message: 'x'.repeat(2000) }, attempts: 1, latency_ms: null };
      await store.ledger.write({
        settled: [{ run: 'run', first: 1, row, call: null, outcome }],
        counts: new Map([['run', { sent: 1 }]]),
        reservations: [],
        atLeast: new Map(),
      });
      console.log(String(row));
    }
  `);
  let recorded = 0;
  while (recorded < 300) recorded = Number(await child.line());
  await child.kill('SIGKILL');
  const store = await open();
  expect(store.name).toBe('store');
  expect(warnings).toEqual([]);
  const { counts, calls } = await store.ledger.progress('run', [1]);
  expect(counts[0]).toBeGreaterThanOrEqual(recorded);
  expect(calls.sent).toBe(counts[0]);
});

test('what is left of a database in the directory is removed', async () => {
  const directory = join(stateDir, 'store');
  mkdirSync(join(directory, 'data', 'base'), { recursive: true });
  writeFileSync(join(directory, 'ready'), 'bullmq 6.7.0');
  await open();
  expect(readdirSync(directory).sort()).toEqual(['ledger', 'lock']);
});

test('fault 39: a state directory that is a file, or below one, is a usage error that names it', async () => {
  const file = join(stateDir, 'file');
  writeFileSync(file, '');
  for (const bad of [file, join(file, 'below')]) {
    await expect(open({ stateDir: bad })).rejects.toMatchObject({
      exit: 2,
      code: 'bad_state_dir',
      message: expect.stringContaining(bad),
    });
  }
});

test('fault 39: a state directory that is read-only is a usage error that names it', async () => {
  const locked = join(stateDir, 'locked');
  mkdirSync(locked);
  chmodSync(locked, 0o555);
  chmodSync(stateDir, 0o755);
  // Nothing is read-only for root.
  const root = process.geteuid?.() === 0;
  if (root) process.seteuid?.(65_534);
  try {
    await expect(open({ stateDir: locked })).rejects.toMatchObject({
      exit: 2,
      code: 'bad_state_dir',
      message: expect.stringContaining(locked),
    });
  } finally {
    if (root) process.seteuid?.(0);
  }
});

test('closing leaves no lock', async () => {
  const store = await open();
  expect(existsSync(join(store.describe(), 'lock'))).toBe(true);
  await store.close();
  expect(existsSync(join(store.describe(), 'lock'))).toBe(false);
});

test('the directory does not grow with the rows that have gone through it', async () => {
  const store = await open();
  const { ledger } = store;
  const text = 'x'.repeat(3_000);
  const work = async (from: number, to: number): Promise<void> => {
    for (let first = from; first < to; first += 20) {
      const rows = Array.from({ length: 20 }, (_, i) => entry('run', first, first + i, text));
      await record(ledger, rows);
      await ledger.forget('run', first + 19, [first]);
    }
  };
  await ledger.open('run', 1, 0, NO_CALLS);
  // Long enough that the file was written anew a few times; afterwards it is as large as it gets.
  await work(1, 15_000);
  const before = sizeOf(store.describe());
  await work(15_001, 30_000);
  // 15,000 rows of 3 kB are 45 MB, and twice that with their log.
  expect(sizeOf(store.describe()) - before).toBeLessThan(8e6);
});

function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile())
    .reduce((sum, file) => sum + statSync(join(file.parentPath, file.name)).size, 0);
}
