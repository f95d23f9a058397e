import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PGlite } from '@electric-sql/pglite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { LedgerFile } from '../../src/store/embedded/ledger-file.js';
import { takeOverTables } from '../../src/store/embedded/ledger-tables.js';
import { PglitePool } from '../../src/store/embedded/pool.js';
import type { Ledger, Reservation } from '../../src/store/ledger.js';
import { openStore } from '../../src/store/open.js';
import { PostgresLedger } from '../../src/store/postgres/ledger.js';
import { prepareTables, QUEUE_SCHEMA } from '../../src/store/postgres/schema.js';
import { WRITE_SIGNATURE } from '../../src/store/postgres/statements.js';
import type { Store } from '../../src/store/store.js';
import { built, startChild } from '../support/children.js';
import { entry, look, NO_CALLS, record, reserve, tokens } from './samples.js';

/** A state directory that was used before, so that not every test makes a database. */
let template: string;
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

beforeAll(async () => {
  template = mkdtempSync(join(tmpdir(), 'promptmill-template-'));
  await (await openStore('embedded', { stateDir: template, onWarning: () => {} })).close();
});
afterAll(() => rmSync(template, { recursive: true, force: true }));
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'promptmill-state-'));
  execFileSync('cp', ['-R', `${template}/.`, stateDir]);
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
    const { NO_CALLS } = await import(${JSON.stringify(built('store/counters.js'))});
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

test('a directory whose making was cut short is made again', async () => {
  rmSync(join(stateDir, 'store', 'ready'));
  writeFileSync(join(stateDir, 'store', 'data', 'PG_VERSION'), 'half');
  const store = await open();
  expect((await store.ledger.progress('run', [])).stop).toBeNull();
});

describe('a directory of an earlier version, which kept the ledger in tables of the database', () => {
  const ledgerFile = (): string => join(stateDir, 'store', 'ledger');
  const request = (run: string, row: number, call: string): Reservation => ({
    ...{ run, first: 1, execution: 1, call, hold: true, bounds: null, looks: false },
    rows: [{ row, most: tokens(7) }],
  });

  /** Does something in the database, without the store. */
  async function inDatabase<T>(work: (pool: PglitePool) => Promise<T>): Promise<T> {
    const database = new PGlite(join(stateDir, 'store', 'data'));
    await database.waitReady;
    const pool = await PglitePool.open(database, { maintenance: [] });
    await pool.query(`SET search_path TO ${QUEUE_SCHEMA}`);
    try {
      return await work(pool);
    } finally {
      await pool.end();
      await database.close();
    }
  }

  /** All that can be learned of the two runs. */
  const known = async (ledger: Ledger): Promise<unknown> => ({
    run: await ledger.progress('run', [1, 11]),
    waiting: await ledger.waiting('run'),
    rows: [
      ...(await ledger.outcomes({ run: 'run', first: 1 })),
      ...(await ledger.outcomes({ run: 'run', first: 11 })),
    ],
    states: (await look(ledger, 'run', 1, 1, [1, 2, 3, 4, 5, 6])).map((state) =>
      typeof state === 'string' ? state : state.call,
    ),
    later: (await look(ledger, 'run', 11, 1, [11, 12])).join(),
    other: await ledger.progress('other', [1]),
  });

  /** As a process of that version has left it that was killed. @returns what its ledger knew */
  const leave = async (): Promise<unknown> => {
    const before = await inDatabase(async (pool) => {
      await prepareTables(pool);
      const ledger = new PostgresLedger(pool);
      await ledger.open('run', 1, 2, { ...NO_CALLS, sent: 2, prompt_tokens: 30 });
      await reserve(ledger, request('run', 3, 'own:1:a'), request('run', 4, 'own:1:b'));
      await record(
        ledger,
        [
          { ...entry('run', 1, 3, 'ü \ud800 \u0000 \u2028'), call: 'own:1:a' },
          entry('run', 1, 5),
          entry('run', 11, 12),
        ],
        new Map([['run', { retried: 1, rate_limited: 2 }]]),
      );
      await ledger.stop('run', 1, { code: 'c', message: 'm' });
      await ledger.stop('other', 1, { code: 'other', message: 'before it was opened' });
      return await known(ledger);
    });
    rmSync(ledgerFile());
    writeFileSync(join(stateDir, 'store', 'ready'), '5, bullmq 5.0.0');
    return before;
  };
  const hasTables = (): Promise<boolean> =>
    inDatabase(async (pool) => {
      const { rows } = await pool.query(`SELECT FROM pg_namespace WHERE nspname = 'promptmill'`);
      return rows.length > 0;
    });

  test('has it in the file from then on, and an unfinished run goes on', async () => {
    const before = await leave();
    // What a process has left that was killed over it.
    writeFileSync(`${ledgerFile()}.new`, 'promptmill ledger 1\nhalf');
    const store = await open();
    expect(existsSync(`${ledgerFile()}.new`)).toBe(false);
    expect(await known(store.ledger)).toEqual(before);
    const version = readFileSync(join(stateDir, 'store', 'ready'), 'utf8');
    expect(version).toMatch(/^bullmq \d/);
    await store.close();
    expect(await hasTables()).toBe(false);

    const { ledger } = await open();
    expect(await known(ledger)).toEqual(before);
    await ledger.open('run', 2, 2, null);
    expect(await look(ledger, 'run', 1, 2, [2, 3, 4, 5])).toEqual(['unwanted', 'known', 'granted', 'known']);
    // The call of the process that was killed is made again, and counts.
    expect((await ledger.progress('run', [])).calls).toMatchObject({ sent: 4, repeated: 1, in_flight: 0 });
  });

  test('is taken over once, also when the process was killed before the tables were gone', async () => {
    await leave();
    const tables = await inDatabase(async (pool) => {
      vi.spyOn(pool, 'query').mockImplementation(async (text, values) => {
        if (text.startsWith('DROP')) throw new Error('killed');
        return PglitePool.prototype.query.call(pool, text, values);
      });
      await expect(takeOverTables(pool, ledgerFile())).rejects.toThrow('killed');
      return (await pool.query('SELECT FROM promptmill.outcome')).rows.length;
    });
    expect(tables).toBe(3);
    const { ledger, ...store } = await open();
    await ledger.forget('run', 5, [1]);
    const before = await known(ledger);
    await store.close();
    expect(await hasTables()).toBe(false);
    expect(await known((await open()).ledger)).toEqual(before);
  });

  test('is read again from the beginning when the file had no room in the middle', async () => {
    const before = await leave();
    const { append } = LedgerFile.prototype;
    // Of the two runs one has two chunks: there are four changes.
    for (let room = 0; room < 4; room++) {
      let changes = 0;
      const disk = vi.spyOn(LedgerFile.prototype, 'append').mockImplementation(function (
        this: LedgerFile,
        ...change
      ) {
        if (++changes > room) throw new Error('no space left on device');
        return append.apply(this, change);
      });
      await inDatabase((pool) => expect(takeOverTables(pool, ledgerFile())).rejects.toThrow('no space'));
      disk.mockRestore();
    }
    expect(await hasTables()).toBe(true);
    expect(await known((await open()).ledger)).toEqual(before);
  });

  test('may be used by that version again: what it wrote then is read, and what the file had stays', async () => {
    await leave();
    const first = await open();
    await first.ledger.open('run', 2, 2, null);
    await record(first.ledger, [entry('run', 11, 13, 'in the file')]);
    await first.close();

    await inDatabase(async (pool) => {
      await prepareTables(pool);
      const ledger = new PostgresLedger(pool);
      await ledger.open('run', 3, 2, { ...NO_CALLS, sent: 9 });
      await record(ledger, [entry('run', 1, 6, 'in the tables')]);
      await ledger.open('new', 1, 0, NO_CALLS);
      await record(ledger, [entry('new', 1, 1)]);
    });
    writeFileSync(join(stateDir, 'store', 'ready'), '5, bullmq 5.0.0');
    const { ledger } = await open();
    expect(await ledger.open('run', 4, 2, null)).toBe(true);
    expect(await look(ledger, 'run', 1, 4, [3, 4, 5, 6])).toEqual(['known', 'granted', 'known', 'known']);
    expect(await look(ledger, 'run', 11, 4, [12, 13])).toEqual(['known', 'known']);
    expect((await ledger.progress('run', [])).calls).toMatchObject({ sent: 9 });
    expect(await ledger.waiting('new')).toBe(1);
  });

  test('may be of the layout before, too', async () => {
    const before = await leave();
    await inDatabase((pool) => pool.query(`DROP FUNCTION ${WRITE_SIGNATURE}`));
    await inDatabase((pool) => pool.query("COMMENT ON SCHEMA promptmill IS '4'"));
    writeFileSync(join(stateDir, 'store', 'ready'), '');
    expect(await known((await open()).ledger)).toEqual(before);
  });
});

test('a new directory begins as a copy of what the build has made', async () => {
  const fresh = join(stateDir, 'fresh');
  await open({ stateDir: fresh });
  // A database that is made has two more in it, of which new ones would be made.
  expect(readdirSync(join(fresh, 'store', 'data', 'base'))).toHaveLength(1);
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
  // As many statements as a few rounds of maintenance take; afterwards it is as large as it gets.
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
