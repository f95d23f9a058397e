import { describe, expect, it } from 'vitest';
import { type FailedCall, Outage } from '../../src/pace/pauses.js';

const DOWN = { code: 'connection_reset', message: 'the connection was closed' };
const call = (row: number, startedAt = 0, more: Partial<FailedCall> = {}): FailedCall => ({
  rows: [`run:${row}`],
  problem: DOWN,
  connected: true,
  mayBeRequest: false,
  startedAt,
  ...more,
});
const failEach = (outage: Outage, rows: number, now = 0): (number | 'doubt' | null)[] =>
  Array.from({ length: rows }, (_, i) => outage.failed(call(i + 1, now), now, 0));

describe('an outage', () => {
  it('begins with the tenth row that fails with no answer between', () => {
    const outage = new Outage();
    expect(failEach(outage, 9)).toEqual(Array(9).fill(null));
    expect(outage.view).toBeNull();
    expect(outage.failed(call(10), 0, 0)).toBe(1000);
    expect(outage.view).toEqual({ since: 0, until: 1000, problem: DOWN, connected: true, rows: 10 });
  });

  it('is none while a row is answered now and then', () => {
    const outage = new Outage();
    for (let round = 0; round < 10; round++) {
      for (let row = 0; row < 9; row++) {
        expect(outage.failed(call(round * 9 + row), 0, 0)).toBeNull();
      }
      outage.answered();
    }
  });

  it('is none when few rows fail again and again', () => {
    const outage = new Outage();
    for (let time = 0; time < 50; time++) expect(outage.failed(call(time % 9), time, 0)).toBeNull();
  });

  it('begins with the first call that does not connect', () => {
    expect(new Outage().failed(call(1, 0, { connected: false }), 0, 0)).toBe(1000);
  });

  it('is not made of rows that failed while others were answered: they are what is left at the end of a run', () => {
    const outage = new Outage();
    for (let row = 1; row <= 20; row++) {
      outage.failed(call(row), 0, 0);
      outage.answered();
    }
    expect(failEach(outage, 20, 1)).toEqual(Array(20).fill(null));
  });

  it('is made of such rows as well when there are thirty of them', () => {
    const outage = new Outage();
    for (let row = 1; row <= 40; row++) {
      outage.failed(call(row), 0, 0);
      outage.answered();
    }
    const pauses = failEach(outage, 30, 1);
    expect(pauses.slice(0, 29)).toEqual(Array(29).fill(null));
    expect(pauses[29]).toBe(1000);
  });

  it('of one of several endpoints, begins although its rows have been answered elsewhere since', () => {
    const [alone, outage] = [new Outage(), new Outage()];
    for (let row = 1; row < 10; row++) {
      for (const each of [alone, outage]) expect(each.failed(call(row), 0, 0)).toBeNull();
      alone.settled(`run:${row}`);
      outage.settled(`run:${row}`, true);
    }
    expect(alone.failed(call(10), 0, 0)).toBeNull();
    expect([outage.isFailing, outage.failed(call(10), 0, 0)]).toEqual([true, 1000]);
    outage.answered();
    expect(outage.isFailing).toBe(false);
    // Such a row is no suspect.
    expect(failEach(outage, 10, 5_000).at(-1)).toBeNull();
    expect(outage.failed(call(11), 5_000, 0)).toBe(1000);
  });

  it('pauses twice as long after each probe that fails, up to 20 s', () => {
    const outage = new Outage();
    let now = 0;
    const pauses = [];
    failEach(outage, 10);
    for (let probe = 0; probe < 8; probe++) {
      const ms = (outage.view?.until ?? 0) - now;
      pauses.push(ms);
      now += ms;
      outage.failed(call(1, now), now, 0);
    }
    expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000, 20_000, 20_000, 20_000]);
  });

  it('shortens its pauses by chance, by a quarter at most, so that a fleet does not probe as one', () => {
    const outage = new Outage();
    expect(outage.failed(call(1, 0, { connected: false }), 0, 0.999)).toBe(750);
  });

  it('takes calls that were under way when the pause began for a part of it', () => {
    const outage = new Outage();
    failEach(outage, 10, 100);
    expect(outage.failed(call(11, 50), 600, 0)).toBe(500);
    expect(outage.view?.until).toBe(1100);
  });

  const alike = (row: number, message = 'cannot do that (HTTP 500)'): FailedCall =>
    call(row, 0, { problem: { code: 'server_error', message }, mayBeRequest: true });
  const failAlike = (outage: Outage) => {
    for (let row = 1; row < 10; row++) expect(outage.failed(alike(row), 0, 0)).toBeNull();
    expect(outage.failed(alike(10), 0, 0)).toBe('doubt');
  };

  it('is in doubt while the service says the same of all rows, and is none when a plain call is answered', () => {
    const outage = new Outage();
    failAlike(outage);
    expect(outage.view).toBeNull();
    expect(outage.failed(alike(11), 0, 0), 'one plain call at a time').toBeNull();
    expect(outage.decided(true, 5, 0)).toBeNull();
    expect(outage.view).toBeNull();
    for (let row = 21; row < 30; row++) expect(outage.failed(alike(row), 6, 0)).toBeNull();
    expect(outage.failed(alike(30), 6, 0), 'it may have gone down meanwhile').toBe('doubt');
  });

  it('begins when the plain call fails as well, and is in doubt again after each pause', () => {
    const outage = new Outage();
    failAlike(outage);
    expect(outage.decided(false, 5, 0)).toBe(1000);
    expect(outage.view).toMatchObject({ since: 0, until: 1005, rows: 10 });
    expect(outage.failed({ ...alike(11), startedAt: 2 }, 10, 0), 'it was under way').toBe(995);
    expect(outage.failed({ ...alike(11), startedAt: 1005 }, 1006, 0)).toBe('doubt');
    expect(outage.decided(false, 1010, 0)).toBe(2000);
  });

  it('is none when a row was answered while the plain call was under way', () => {
    const outage = new Outage();
    failAlike(outage);
    outage.answered();
    expect(outage.decided(false, 5, 0)).toBeNull();
    expect(outage.view).toBeNull();
  });

  it('is in no doubt where the service says this and that', () => {
    const outage = new Outage();
    for (let row = 1; row < 10; row++) outage.failed(alike(row, `fault ${row}`), 0, 0);
    expect(outage.failed(alike(10), 0, 0)).toBe(1000);
  });
});
