import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { NO_CALLS } from '../../src/core/counters.js';
import type { CalledOutcome } from '../../src/core/model.js';
import { beginManifest } from '../../src/resume/resume.js';
import { collect } from '../../src/run/collector.js';
import { RunEvents } from '../../src/run/events.js';
import { Window } from '../../src/run/window.js';
import { SettledRows } from '../../src/store/ledger.js';
import { settingsFor } from '../resume/run-files.js';

const OUTCOME: CalledOutcome = {
  status: 'failed',
  error: { code: 'bad_request', message: 'no' },
  attempts: 1,
  latency_ms: 1,
};

beforeEach(() => {
  // Time stands still, so whatever happens without `vi.advanceTimersByTimeAsync` waits for no clock.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A collector over one chunk of so many rows, each of which is sent. */
function collecting(rows: number, isShared: boolean) {
  const manifest = beginManifest(null, settingsFor('-'), {}, new Date());
  const window = new Window(100, 1_000_000);
  const settled = new SettledRows();
  const outcomes = new Map<number, CalledOutcome>();
  const seen = { looks: 0, written: 0 };
  const drained = new AbortController();
  const ended = collect({
    window,
    ledger: {
      isShared,
      settled,
      progress: async (_, firsts) => {
        seen.looks++;
        const counts = firsts.map(() => outcomes.size);
        return { counts, calls: NO_CALLS, opened: true, stop: null };
      },
      outcomes: async () => new Map(outcomes),
      forget: async () => {},
    },
    lease: { keep: async () => {} },
    committer: {
      manifest,
      count: () => {},
      saw: () => {},
      keepCounts: async () => {},
      commit: async (records) => {
        seen.written += records.length;
      },
    },
    recordOf: ({ number }, outcome) => ({ row: number, outcome, answer: null, text: '' }),
    reuse: null,
    requeuer: { onProgress: async () => {} },
    events: new RunEvents(),
    stop: () => {},
    drained: drained.signal,
  });
  const numbers = Array.from({ length: rows }, (_, i) => i + 1);
  const row = (number: number) => ({ number, line: number, fields: new Map(), bytes: 1 });
  const windowRows = numbers.map((number) => ({ row: row(number), settled: null, looked: null }));
  window.add({ first: 1, rows: windowRows, sent: rows, bytes: rows, isApart: false });
  return {
    window,
    seen,
    drained,
    ended,
    /** @param tells false for a row that a worker of another process has settled */
    settle: (number: number, tells = true): void => {
      outcomes.set(number, OUTCOME);
      if (tells) settled.tell([{ run: manifest.run, first: 1, row: number, call: null, outcome: OUTCOME }]);
    },
  };
}

it('writes the last rows when the process has settled them, and waits for no clock', async () => {
  const { window, settle, ended, seen } = collecting(3, false);
  window.close();
  for (const row of [1, 2, 3]) settle(row);
  await ended;
  expect(seen.written).toBe(3);
});

it('looks once in a tenth of a second, however many rows are settled', async () => {
  const { window, settle, ended, seen } = collecting(10, false);
  await vi.advanceTimersByTimeAsync(0);
  const before = seen.looks;
  for (let row = 1; row < 10; row++) {
    settle(row);
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(seen.looks).toBe(before);
  await vi.advanceTimersByTimeAsync(10);
  expect(seen.looks).toBe(before + 1);
  window.close();
  settle(10);
  await ended;
});

it('looks less often at a ledger of its own, as long as nothing is settled', async () => {
  const { drained, ended, seen } = collecting(2, false);
  await vi.advanceTimersByTimeAsync(100);
  const before = seen.looks;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(seen.looks - before).toBe(4);
  drained.abort();
  await ended;
});

it('finds by the clock what workers of other processes have settled', async () => {
  const { window, settle, ended, seen } = collecting(1, true);
  window.close();
  await vi.advanceTimersByTimeAsync(0);
  settle(1, false);
  await vi.advanceTimersByTimeAsync(100);
  await ended;
  expect(seen.written).toBe(1);
});

it('ends at once when the run was halted and its calls have ended', async () => {
  const { drained, ended, seen } = collecting(2, false);
  await vi.advanceTimersByTimeAsync(0);
  drained.abort();
  await ended;
  expect(seen.written).toBe(0);
});

it('looks a last time for a halted run a tenth of a second after it has written rows', async () => {
  const { window, drained, settle, ended, seen } = collecting(1, false);
  const row = { number: 2, line: 2, fields: new Map(), bytes: 1 };
  window.add({ first: 2, rows: [{ row, settled: null, looked: null }], sent: 1, bytes: 1, isApart: false });
  await vi.advanceTimersByTimeAsync(0);
  settle(1);
  drained.abort();
  await vi.advanceTimersByTimeAsync(0);
  expect(seen.written).toBe(1);
  let isOver = false;
  void ended.then(() => {
    isOver = true;
  });
  await vi.advanceTimersByTimeAsync(100);
  expect(isOver).toBe(true);
});
