import { describe, expect, test } from 'vitest';
import { type StoreError, storeErrorOf } from '../../src/store/error.js';
import { StoreHealth } from '../../src/store/health.js';

const ofSystem = (code: string, syscall = 'connect'): Error =>
  Object.assign(new Error(`${syscall} ${code} 127.0.0.1:1`), { code, syscall });

describe('what an error of the store means', () => {
  const table: readonly (readonly [Error, StoreError['kind'] | null, string | null])[] = [
    [new Error("READONLY You can't write against a read only replica."), 'refusing', 'queue_read_only'],
    [
      new Error("ERR Error running script (call to f_6a): @user_script:7: -READONLY You can't write"),
      'refusing',
      'queue_read_only',
    ],
    [new Error('MASTERDOWN Link with MASTER is down'), 'refusing', 'queue_read_only'],
    [new Error('NOREPLICAS Not enough good replicas to write.'), 'refusing', 'queue_not_replicated'],
    [new Error('NOAUTH Authentication required.'), 'refusing', 'queue_refused'],
    [new Error('WRONGPASS invalid username-password pair'), 'refusing', 'queue_refused'],
    [new Error('ERR invalid password'), 'refusing', 'queue_refused'],
    [new Error("NOPERM User u has no permissions to run the 'eval' command"), 'refusing', 'queue_refused'],
    [new Error('WRONGTYPE Operation against a key'), 'broken', 'queue_damaged'],
    [
      new Error('ERR Error running script (call to f_6a): @user_script: 12: WRONGTYPE Operation'),
      'broken',
      'queue_damaged',
    ],
    [new Error("OOM command not allowed when used memory > 'maxmemory'."), 'full', 'queue_full'],
    [new Error('MISCONF Redis is configured to save RDB snapshots'), 'full', 'queue_full'],
    [new Error('LOADING Redis is loading the dataset in memory'), 'away', 'queue_unavailable'],
    [new Error('CLUSTERDOWN The cluster is down'), 'away', 'queue_unavailable'],
    [new Error('Connection is closed.'), 'away', 'queue_unavailable'],
    [ofSystem('ECONNREFUSED'), 'away', 'queue_unavailable'],
    [ofSystem('ENOTFOUND'), 'away', 'queue_unavailable'],
    [ofSystem('EMFILE'), 'refusing', 'too_many_open_files'],
    // Of a file, and not of the way to the store.
    [ofSystem('ENOSPC', 'write'), null, null],
    [ofSystem('EMFILE', 'open'), null, null],
    [ofSystem('ENOENT', 'open'), null, null],
    // Defects, and what BullMQ answers in words of its own.
    [new TypeError('x is not a function'), null, null],
    [new Error('ERR unknown command'), null, null],
    [new Error('Missing lock for job 1. moveToFinished'), null, null],
    [Object.assign(new Error('bad argument'), { code: 'ERR_INVALID_ARG_TYPE' }), null, null],
  ];

  test.each(table)('fault 81: %s is %s', (error, kind, code) => {
    const found = storeErrorOf(error);
    expect(found?.kind ?? null).toBe(kind);
    expect(found?.code ?? null).toBe(code);
    if (found !== null) expect(found.words).toContain(error.message);
  });

  test('where in a script it happened is left out', () => {
    const error = new Error(`WRONGTYPE Operation script: ${'0a'.repeat(20)}, on @user_script:12.`);
    expect(storeErrorOf(error)?.words).toBe(
      'has something else under a name of the queue (WRONGTYPE Operation)',
    );
  });
});

describe('the health of a store', () => {
  const READONLY = new Error('READONLY You cannot write');
  function health(): { now: number; health: StoreHealth; faults: string[] } {
    const clock = { now: 1_000_000, faults: [] as string[] };
    const made = new StoreHealth('redis://h', () => clock.now);
    made.opened();
    made.onProblem(({ code }) => clock.faults.push(code));
    return Object.assign(clock, { health: made });
  }
  const meets = (at: ReturnType<typeof health>, error: Error, seconds: number): void => {
    for (let i = 0; i < seconds; i++) {
      at.health.met(error);
      at.now += 1_000;
    }
  };

  test('fault 33: a refusal that passes within a failover stops nothing, however often there is one', () => {
    const at = health();
    for (let i = 0; i < 10; i++) {
      meets(at, READONLY, 25);
      expect(at.health.mayPass(READONLY)).toBe(true);
      expect(at.health.refusal?.message).toMatch(/^redis:\/\/h is read-only \(READONLY/);
      at.now += 60_000;
      expect(at.health.refusal).toBe(null);
    }
    expect(at.faults).toEqual([]);
  });

  test('fault 81: a refusal that lasts stops the run within a minute, once', () => {
    const at = health();
    meets(at, READONLY, 59);
    expect(at.faults).toEqual(['queue_read_only']);
    expect(at.health.mayPass(READONLY)).toBe(false);
    expect(at.health.problem?.message).toMatch(/Give the address of the primary/);
  });

  test('fault 81: what is broken stops the run at once, and names the keys and none of the values', () => {
    const at = health();
    const keys = ['promptmill:{r1}:head', 'promptmill:{r1}:calls'];
    const command = { name: 'eval', args: ['return 1', '2', ...keys, 'a text of a row'] };
    at.health.met(Object.assign(new Error('WRONGTYPE Operation'), { command }));
    expect(at.faults).toEqual(['queue_damaged']);
    expect(at.health.problem?.message).toContain('one of the keys promptmill:{r1}:…');
    expect(at.health.problem?.message).not.toContain('a text of a row');
  });

  test('faults 31 and 34: a store that is away or full is waited for, for as long as anybody wants', () => {
    const at = health();
    for (const error of [new Error('OOM command not allowed'), ofSystem('ECONNREFUSED')]) {
      meets(at, error, 10_000);
      expect(at.health.mayPass(error)).toBe(true);
    }
    expect(at.faults).toEqual([]);
  });
});
