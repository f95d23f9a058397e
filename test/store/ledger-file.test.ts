import type fs from 'node:fs';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { EmbeddedLedger } from '../../src/store/embedded/ledger.js';
import { LedgerFile } from '../../src/store/embedded/ledger-file.js';
import {
  LEDGER_TIMES,
  type Ledger,
  NOTHING,
  type Reservation,
  type Settlement,
} from '../../src/store/ledger.js';
import { describeWithSmallDisk, mountSmallDisk, type SmallDisk } from '../support/small-disk.js';
import { entry, look, NO_CALLS, record, reserve, tokens } from './samples.js';

/** A process that can die at any of its operations on the disk; of its last write a part is done. */
const death = vi.hoisted(() => ({
  after: Number.POSITIVE_INFINITY,
  share: 0,
  died: false,
  longestRead: 0,
  /** No file can be made. */
  isReadOnly: false,
}));

vi.mock('node:fs', async (original) => {
  const real = await original<typeof fs>();
  const step = <T>(work: () => T, halfway: () => void = () => {}): T => {
    if (death.died) throw new Error('a dead process does nothing');
    if (death.after-- > 0) return work();
    death.died = true;
    halfway();
    throw new Error('killed');
  };
  const writeSync = (file: number, bytes: Buffer, from: number, length: number, at: number): number =>
    step(
      () => real.writeSync(file, bytes, from, length, at),
      () => real.writeSync(file, bytes, from, Math.floor(death.share * length), at),
    );
  const readSync = (file: number, bytes: Buffer, from: number, length: number, at: number): number => {
    death.longestRead = Math.max(death.longestRead, length);
    return real.readSync(file, bytes, from, length, at);
  };
  const openSync = (path: string, flags: string, mode?: number): number => {
    if (death.isReadOnly && flags === 'w+') throw new Error('EACCES: permission denied');
    return real.openSync(path, flags, mode);
  };
  return {
    ...real,
    openSync,
    writeSync,
    readSync,
    fsyncSync: (file: number) => step(() => real.fsyncSync(file)),
    renameSync: (from: string, to: string) => step(() => real.renameSync(from, to)),
    rmSync: (path: string, options: object) => step(() => real.rmSync(path, options)),
    ftruncateSync: (file: number, length: number) => step(() => real.ftruncateSync(file, length)),
  };
});

/** A file system in memory, where there is one: thousands of files are made here. */
const MEMORY = '/dev/shm';
const HEADER = 'promptmill ledger 1\n';
const RUN = 'run';
const HELD = { isHeld: () => true, tookOver: false };

let folder: string;
let path: string;
let warnings: string[];
/** Ledgers have no time of their own here, so that two of them can be compared. */
let now: number;

beforeEach(() => {
  folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'promptmill-ledger-'));
  path = join(folder, 'ledger');
  warnings = [];
  now = 1_700_000_000_000;
  vi.spyOn(Date, 'now').mockImplementation(() => now);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

const open = (at = path, lock = HELD): EmbeddedLedger => {
  LedgerFile.sweep(at);
  return new EmbeddedLedger(at, lock, (message) => warnings.push(message));
};

const drafts = (): string[] => readdirSync(folder).filter((name) => name.startsWith('ledger.new'));

const request = (row: number, call: string): Reservation => ({
  ...{ run: RUN, first: 1, execution: 1, call, hold: true, bounds: null, looks: false },
  rows: [{ row, most: tokens(3) }],
});

/** All that can be learned of the run. */
async function known(ledger: Ledger): Promise<unknown> {
  const firsts = [1, 11, 21];
  const chunks = await Promise.all(firsts.map((first) => ledger.outcomes({ run: RUN, first })));
  return {
    ...(await ledger.progress(RUN, firsts)),
    waiting: await ledger.waiting(RUN),
    chunks: chunks.map((chunk) => [...chunk].sort(([a], [b]) => a - b)),
    interim: [...(await ledger.interim(RUN, [1, 2, 22, 23]))],
    states: await look(ledger, RUN, 1, 1, [1, 2, 3, 4, 5, 6, 7, 8]),
  };
}

/** An answer that does not fit, of a row that was asked twice. */
const unfit = (row: number): Settlement => ({ ...entry(RUN, 21, row, 'twice ü'), interim: 2 });

type Step = (ledger: Ledger) => Promise<unknown>;

const steps: readonly Step[] = [
  (ledger) => ledger.open(RUN, 1, 0, NO_CALLS),
  (ledger) => reserve(ledger, request(1, 'a'), request(2, 'a'), request(3, 'b')),
  (ledger) => record(ledger, [{ ...entry(RUN, 1, 1, 'one ü \u2028'), call: 'a' }, entry(RUN, 11, 11)]),
  (ledger) =>
    ledger.write({
      ...NOTHING,
      settled: [{ run: RUN, first: 1, row: 2, call: 'a', outcome: null }, entry(RUN, 21, 21)],
      counts: new Map([[RUN, { retried: 1 }]]),
      reservations: [request(2, 'c')],
    }),
  (ledger) => record(ledger, [{ ...entry(RUN, 21, 22, 'once'), interim: 1 }, unfit(23)]),
  (ledger) => ledger.forget(RUN, 1, [1]),
  (ledger) => record(ledger, [{ ...unfit(2), call: 'c' }]),
  (ledger) => ledger.stop(RUN, 1, { code: 'c', message: 'line\nbreak' }),
  (ledger) => record(ledger, [entry(RUN, 21, 22, 'x'.repeat(300))]),
];

/** The file of all steps, and after each of them its size and what is known. */
async function written(): Promise<{ size: number; known: unknown }[]> {
  const ledger = open();
  const found = [{ size: HEADER.length, known: await known(ledger) }];
  for (const step of steps) {
    await step(ledger);
    found.push({ size: statSync(path).size, known: await known(ledger) });
  }
  return found;
}

test('fault 40: a last change that was cut at any byte is left out, and all before it is there', async () => {
  const after = await written();
  const copy = join(folder, 'copy');
  for (let size = HEADER.length; size <= statSync(path).size; size++) {
    copyFileSync(path, copy);
    truncateSync(copy, size);
    const ledger = open(copy);
    const expected = after.findLast((each) => each.size <= size);
    expect(await known(ledger), `cut at ${size}`).toEqual(expected?.known);
    ledger.leave();
  }
});

test('fault 40: what is written behind a cut change is found again', async () => {
  await written();
  truncateSync(path, statSync(path).size - 3);
  const ledger = open();
  await record(ledger, [entry(RUN, 21, 23)]);
  const before = await known(ledger);
  // As after a kill: the file is not left.
  expect(await known(open())).toEqual(before);
});

test('fault 81: a file that is damaged anywhere is refused, with its name and what to do', async () => {
  await written();
  const whole = readFileSync(path);
  for (let at = 0; at < whole.length - 1; at++) {
    const bytes = Buffer.from(whole);
    bytes.writeUInt8((bytes[at] ?? 0) ^ 1, at);
    writeFileSync(path, bytes);
    expect(() => open(), `byte ${at}`).toThrow(
      expect.objectContaining({ exit: 2, code: 'bad_state_dir', message: expect.stringContaining(path) }),
    );
  }
  writeFileSync(path, whole);
  open().leave();
});

test('a disk that took nothing is asked again, so that it is not away when it takes something', async () => {
  const ledger = open();
  await ledger.open(RUN, 1, 0, NO_CALLS);
  const before = await known(ledger);
  death.died = true;
  await expect(ledger.forget(RUN, 1, [1])).rejects.toMatchObject({ exit: 3 });
  await expect(ledger.probe()).rejects.toMatchObject({ exit: 3 });
  expect((await ledger.progress(RUN, [1])).stop).not.toBeNull();
  death.died = false;
  await ledger.probe();
  expect(await known(ledger)).toEqual(before);
});

test('fault 81: an answer that is damaged while the run goes on is not given out, nor put into a new file', async () => {
  const before = open();
  await before.open(RUN, 1, 0, NO_CALLS);
  await record(before, [entry(RUN, 1, 1, 'the answer')]);
  const ledger = open();
  const damaged = readFileSync(path, 'utf8').replace('the answer', 'the onswer');
  writeFileSync(path, damaged);
  const stopped = { exit: 3, code: 'queue_damaged', message: expect.stringContaining(path) };
  await expect(ledger.outcomes({ run: RUN, first: 1 })).rejects.toMatchObject(stopped);
  ledger.leave();
  expect(readFileSync(path, 'utf8')).toBe(damaged);
  expect(() => open()).toThrow(expect.objectContaining({ exit: 2, code: 'bad_state_dir' }));
});

test('fault 81: a file of another version, and one without a header, are refused and stay as they are', () => {
  for (const [content, message] of [
    ['promptmill ledger 2\nsomething', /is of another version/],
    ['', /damaged at byte 0/],
    ['promptmill', /damaged at byte 0/],
    ['SQLite format 3\n', /damaged at byte 0/],
  ] as const) {
    writeFileSync(path, content);
    expect(() => open()).toThrow(message);
    expect(readFileSync(path, 'utf8')).toBe(content);
  }
});

test('a file that is written anew keeps the interim outcomes, and only the last of each row', async () => {
  const ledger = open();
  await ledger.open(RUN, 1, 0, NO_CALLS);
  const long = 'x'.repeat(3_000);
  for (let asks = 1; asks <= 5_000; asks++) {
    await record(ledger, [{ ...entry(RUN, 1, 1, `${asks} ${long}`), interim: asks }]);
  }
  expect(statSync(path).size).toBeLessThan(5e6);
  await record(ledger, [unfit(22), { ...unfit(23), interim: 3 }, entry(RUN, 21, 23)]);
  const before = await known(ledger);
  ledger.leave();
  expect(statSync(path).size).toBeLessThan(2 * long.length);
  const again = open();
  expect(await known(again)).toEqual(before);
  await record(again, [unfit(22), { ...entry(RUN, 1, 1), interim: 4_999 }]);
  expect((await again.progress(RUN, [])).calls.repeated).toBe(2);
  await again.close(RUN);
  again.leave();
  expect(readFileSync(path, 'utf8')).toBe(HEADER);
});

test('fault 44: it counts the processes that died while they called a row, and not those that left', async () => {
  const next = async (end: (ledger: EmbeddedLedger) => void, execution: number): Promise<unknown> => {
    const ledger = open();
    await ledger.open(RUN, execution, 0, NO_CALLS);
    const deaths = [...(await ledger.deaths(RUN))];
    await reserve(ledger, { ...request(1, 'own:1:a'), execution });
    await reserve(ledger, { ...request(2, 'own:2:b'), execution });
    if (execution === 3) await record(ledger, [{ ...entry(RUN, 1, 2), call: 'own:2:b' }]);
    end(ledger);
    return deaths;
  };
  const dies = (): void => {};
  const leaves = (ledger: EmbeddedLedger): void => ledger.leave();
  expect(await next(dies, 1)).toEqual([]);
  expect(await next(leaves, 2)).toEqual([
    [1, 1],
    [2, 1],
  ]);
  expect(await next(dies, 3)).toEqual([
    [1, 1],
    [2, 1],
  ]);
  expect(await next(dies, 4)).toEqual([[1, 2]]);
  // Also when the file is written anew.
  const ledger = open();
  await ledger.open(RUN, 5, 0, NO_CALLS);
  ledger.leave();
  expect([...(await open().deaths(RUN))]).toEqual([[1, 3]]);
});

test('a run that nobody continues is dropped after its time, and does not come back', async () => {
  await written();
  now += LEDGER_TIMES.outcomeTtlMs;
  expect(await open().waiting(RUN)).toBe(3);
  now += 1;
  const ledger = open();
  expect(await ledger.waiting(RUN)).toBe(0);
  await ledger.open(RUN, 1, 0, NO_CALLS);
  expect((await open().progress(RUN, [])).calls).toEqual(NO_CALLS);
});

test('the file stays small however many rows go through it, and is read in blocks', async () => {
  const before = open();
  await before.open(RUN, 1, 0, NO_CALLS);
  const text = 'x'.repeat(3_000);
  await record(before, [entry(RUN, 999_999, 999_999, 'stays')]);
  // This one has not written that outcome itself, so it reads it.
  const ledger = open();
  let largest = 0;
  for (let first = 1; first < 20_000; first += 20) {
    const rows = Array.from({ length: 20 }, (_, i) => entry(RUN, first, first + i, text));
    await record(ledger, rows);
    if (first > 21) await ledger.forget(RUN, first - 21, [first - 20]);
    largest = Math.max(largest, statSync(path).size);
  }
  expect(largest).toBeLessThan(5e6);
  expect(await ledger.outcomes({ run: RUN, first: 999_999 })).toEqual(
    new Map([[999_999, entry(RUN, 999_999, 999_999, 'stays').outcome]]),
  );
  death.longestRead = 0;
  const again = open();
  expect(await again.waiting(RUN)).toBe(await ledger.waiting(RUN));
  expect(death.longestRead).toBeLessThan(3e5);
});

test('rows that wait for hours do not let the file grow either', async () => {
  const ledger = open();
  await ledger.open(RUN, 1, 0, NO_CALLS);
  for (let n = 0; n < 20_000; n++) {
    await reserve(ledger, request(1, `call ${n}`));
    await record(ledger, [{ run: RUN, first: 1, row: 1, call: `call ${n}`, outcome: null }]);
  }
  expect(statSync(path).size).toBeLessThan(5e6);
  expect((await ledger.progress(RUN, [])).calls).toMatchObject({ sent: 20_000, in_flight: 0 });
});

test('what was forgotten is in the file no longer once it is left', async () => {
  const ledger = open();
  await ledger.open(RUN, 1, 0, NO_CALLS);
  await record(ledger, [entry(RUN, 1, 1, 'a secret')]);
  await ledger.close(RUN);
  ledger.leave();
  expect(readFileSync(path, 'utf8')).toBe(HEADER);
  await expect(ledger.stop(RUN, 1, { code: 'c', message: 'late' })).rejects.toThrow(/closed/);
});

test('fault 40: a process that dies at any operation on the file loses nothing that it has answered', async () => {
  let died = 0;
  const life = fc.record({
    steps: fc.array(fc.nat(steps.length - 1), { minLength: 1, maxLength: 12 }),
    after: fc.nat(20),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
    leaves: fc.boolean(),
  });
  const property = fc.asyncProperty(fc.array(life, { minLength: 1, maxLength: 4 }), async (lives) => {
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    // The same happens to one that never dies.
    const twin = open(join(folder, 'twin'));
    for (const { steps: chosen, after, share, leaves } of lives) {
      const alive = { after: Number.POSITIVE_INFINITY, died: false };
      Object.assign(death, { after, share });
      let underWay: Step | undefined;
      try {
        const ledger = open();
        for (const step of chosen) {
          underWay = steps[step];
          await underWay?.(ledger);
          const left = death.after;
          Object.assign(death, alive);
          await underWay?.(twin);
          underWay = undefined;
          death.after = left;
        }
        if (leaves) ledger.leave();
      } catch (error) {
        if (!death.died) throw error;
      }
      if (death.died) died++;
      Object.assign(death, alive);
      const found = await known(open());
      // What was under way may be in the file as a whole, though nobody was told.
      if (!isDeepStrictEqual(found, await known(twin))) await underWay?.(twin);
      expect(found).toEqual(await known(twin));
      expect(drafts()).toEqual([]);
    }
  });
  await fc.assert(property, { seed: 40, numRuns: 300 });
  // Otherwise nothing was tried.
  expect(died).toBeGreaterThan(300);
});

describeWithSmallDisk('the file of the ledger on a disk of its own', () => {
  let disk: SmallDisk;
  beforeEach(() => {
    disk = mountSmallDisk(256);
    path = join(disk.path, 'ledger');
  });
  afterEach(() => disk.remove());

  test('fault 49: a change that has no room is not done, not even in part, and the run is told to stop', async () => {
    const ledger = open();
    await ledger.open(RUN, 1, 0, NO_CALLS);
    await record(ledger, [entry(RUN, 1, 1)]);
    const before = await known(ledger);
    const { size } = statSync(path);
    disk.fill(1);
    const large = [entry(RUN, 1, 2, 'x'.repeat(60_000)), entry(RUN, 1, 3)];
    await expect(record(ledger, large)).rejects.toMatchObject({
      exit: 3,
      code: 'state_dir_full',
      message: expect.stringContaining(disk.path),
    });
    expect(statSync(path).size).toBe(size);
    expect((await ledger.progress(RUN, [1])).stop).toMatchObject({ code: 'state_dir_full' });
    expect((await ledger.outcomes({ run: RUN, first: 1 })).size).toBe(1);
    disk.free();
    await record(ledger, large);
    const after = await known(ledger);
    expect(after).not.toEqual(before);
    expect(await known(open())).toEqual(after);
  });

  test('fault 49: a file that has no room to be written anew stays, and goes on', async () => {
    const ledger = open();
    await ledger.open(RUN, 1, 0, NO_CALLS);
    await record(ledger, [entry(RUN, 1, 1, 'x'.repeat(30_000))]);
    const before = await known(ledger);
    disk.fill();
    const again = open();
    expect(await known(again)).toEqual(before);
    again.leave();
    expect(readdirSync(disk.path)).toEqual(['.filler', 'ledger']);
    disk.free();
    expect(await known(open())).toEqual(before);
  });
});

test('who has left the file does not touch it any more', async () => {
  const left = open();
  left.leave();
  const ledger = open();
  await ledger.open('other', 1, 0, NO_CALLS);
  const before = readFileSync(path, 'utf8');
  left.leave();
  await expect(left.close('other')).rejects.toThrow(/closed/);
  expect(readFileSync(path, 'utf8')).toBe(before);
});

describe('fault 39: a file that another process has taken over', () => {
  const lockLost = { exit: 3, code: 'lock_lost' };
  let isHeld: () => boolean;
  let loser: EmbeddedLedger;
  beforeEach(async () => {
    isHeld = () => true;
    loser = open(path, { isHeld: () => isHeld(), tookOver: false });
    await loser.open(RUN, 1, 0, NO_CALLS);
    await record(loser, [entry(RUN, 1, 1)]);
  });
  const takeOver = (): EmbeddedLedger => open(path, { isHeld: () => true, tookOver: true });

  test('is not touched any more by the one that lost it, which grants no call and stops', async () => {
    isHeld = () => false;
    const ledger = takeOver();
    const found = await known(ledger);
    const before = readFileSync(path, 'utf8');
    await expect(reserve(loser, request(2, 'a'))).rejects.toMatchObject(lockLost);
    await expect(record(loser, [entry(RUN, 1, 3)])).rejects.toMatchObject(lockLost);
    await expect(loser.progress(RUN, [1])).rejects.toMatchObject(lockLost);
    loser.leave();
    expect(readFileSync(path, 'utf8')).toBe(before);
    expect(await known(ledger)).toEqual(found);
  });

  test('keeps out a change that the loser was frozen over, and the loser is told', async () => {
    let ledger: EmbeddedLedger | null = null;
    let looks = 0;
    isHeld = () => {
      // The other process comes when the loser has seen that it has the lock.
      if (++looks === 1) return true;
      ledger ??= takeOver();
      return false;
    };
    await expect(reserve(loser, request(2, 'a'))).rejects.toMatchObject(lockLost);
    expect(ledger).not.toBeNull();
    isHeld = () => true;
    await reserve(loser, request(3, 'a'));
    expect(readFileSync(path, 'utf8')).not.toContain('"row":3');
  });

  test('is not replaced by the one that lost it while it wrote it anew', async () => {
    await record(loser, [entry(RUN, 11, 11, 'x'.repeat(6e6))]);
    let ledger: EmbeddedLedger | null = null;
    let before = '';
    isHeld = () => {
      if (drafts().length === 0) return true;
      isHeld = () => false;
      ledger = takeOver();
      before = readFileSync(path, 'utf8');
      return false;
    };
    await expect(loser.forget(RUN, 11, [1, 11])).rejects.toMatchObject(lockLost);
    expect(ledger).not.toBeNull();
    expect(readFileSync(path, 'utf8')).toBe(before);
  });

  test('is not replaced by the one that lost it right before its draft took its place', async () => {
    await record(loser, [entry(RUN, 11, 11, 'x'.repeat(6e6))]);
    let before = '';
    isHeld = () => {
      if (drafts().length === 0) return true;
      isHeld = () => false;
      takeOver();
      before = readFileSync(path, 'utf8');
      return true;
    };
    await expect(loser.forget(RUN, 11, [1, 11])).rejects.toMatchObject(lockLost);
    expect(before).not.toBe('');
    expect(readFileSync(path, 'utf8')).toBe(before);
    expect(drafts()).toEqual([]);
  });

  test('may be in the middle of being written anew by the other one when the loser gives up its draft', async () => {
    await record(loser, [entry(RUN, 11, 11, 'x'.repeat(6e6))]);
    let draft: LedgerFile | undefined;
    isHeld = () => {
      if (drafts().length > 0) draft ??= LedgerFile.draft(path);
      return draft === undefined;
    };
    await expect(loser.forget(RUN, 11, [1, 11])).rejects.toMatchObject(lockLost);
    expect(drafts()).toHaveLength(1);
    draft?.put();
    expect(readFileSync(path, 'utf8')).toBe(HEADER);
    draft?.close();
  });

  test('is not used when it cannot be written anew, because the loser may be in the middle of a change', () => {
    death.died = true;
    expect(takeOver).toThrow('a dead process');
    death.died = false;
    expect(takeOver).not.toThrow();
  });
});

test('a file that has nothing to forget is not written anew when it is opened and left', async () => {
  await written();
  open().leave();
  const { ino } = statSync(path);
  open().leave();
  expect(statSync(path).ino).toBe(ino);
});

test('a file that cannot be written anew is told of, and goes on', async () => {
  await written();
  const before = statSync(path).ino;
  // As in a folder that is read-only: the file is there, and another cannot be made.
  death.isReadOnly = true;
  const ledger = open();
  await record(ledger, [entry(RUN, 21, 24)]);
  expect(warnings).toEqual([expect.stringMatching(/^cannot write .*ledger anew, so it grows: EACCES/)]);
  expect(statSync(path).ino).toBe(before);
  death.isReadOnly = false;
  expect(await known(open())).toEqual(await known(ledger));
});
