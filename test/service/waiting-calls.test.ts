import { describe, expect, it } from 'vitest';
import { WaitingCalls } from '../../src/service/waiting-calls.js';

const TIMEOUT_MS = 120_000;

describe('a connection is hung up for calls that others overtake', () => {
  it('once for each, oldest first', () => {
    const calls = new WaitingCalls(TIMEOUT_MS);
    calls.add({}, 0);
    calls.add({}, 100);
    expect(calls.answered(10_000, 14_999)).toBe(false);
    expect(calls.answered(12_000, 15_000)).toBe(true);
    expect(calls.answered(13_000, 15_050)).toBe(false);
    expect(calls.answered(14_000, 15_100)).toBe(true);
    expect(calls.answered(60_000, 100_000), 'and not again').toBe(false);
  });

  it('when one has waited for an eighth of its time', () => {
    const calls = new WaitingCalls(80_000);
    calls.add({}, 0);
    expect(calls.answered(1_000, 9_999)).toBe(false);
    expect(calls.answered(1_000, 10_000)).toBe(true);
  });

  it('not where all calls take that long', () => {
    const calls = new WaitingCalls(TIMEOUT_MS);
    for (let at = 1_000; at < 10_000; at += 1_000) calls.add({}, at);
    expect(calls.answered(0, 50_000)).toBe(false);
    expect(calls.answered(1_000, 51_000)).toBe(false);
  });

  it('not when the call has its answer, or has ended', () => {
    const calls = new WaitingCalls(TIMEOUT_MS);
    const call = {};
    calls.add(call, 0);
    calls.delete(call);
    expect(calls.answered(10_000, 60_000)).toBe(false);
  });

  it('after 15 seconds at most, however long calls may take', () => {
    const calls = new WaitingCalls(3_600_000);
    calls.add({}, 0);
    expect(calls.answered(1_000, 15_000)).toBe(true);
  });
});
