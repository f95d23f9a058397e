import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { steadyNow } from '../../src/core/clock.js';
import { queuesOf } from '../../src/queue/names.js';
import type { ServedEndpoint } from '../../src/service/endpoint.js';
import type { Several } from '../../src/service/endpoint-spec.js';
import type { Cell } from '../../src/store/key-value.js';
import type { Store } from '../../src/store/store.js';
import type { Batcher } from '../../src/worker/batcher.js';
import type { Lane, Served } from '../../src/worker/lane.js';
import { Route } from '../../src/worker/route.js';
import { servedEndpoint } from '../support/served-endpoint.js';

/** Of a store, only what the pace needs. */
function memory(): Store {
  const texts = new Map<string, string>();
  const cell = (text: string | null, written: boolean): Cell => ({ text, written, now: steadyNow() });
  const keyValue = {
    get: async (_: string, name: string) => cell(texts.get(name) ?? null, false),
    swap: async (_: string, name: string, before: string | null, after: string) => {
      if ((texts.get(name) ?? null) !== before) return cell(texts.get(name) ?? null, false);
      texts.set(name, after);
      return cell(after, true);
    },
  };
  return { keyValue } as unknown as Store;
}

const REFUSED = { code: 'forbidden', message: 'it refuses PROMPTMILL_BASE_URL.' };

describe('a route to several endpoints', () => {
  beforeEach(() => vi.useFakeTimers({ now: 1_000_000 }));
  const opened: Route[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((route) => route.close()));
    vi.useRealTimers();
  });

  const at = (name: string, requestsPerMinute: number | null = null): ServedEndpoint => ({
    ...servedEndpoint(`https://${name}.example`, name),
    quota: { requestsPerMinute, tokensPerMinute: null },
  });

  function begin(endpoints: Several<ServedEndpoint>, how: Served['route'] = 'balance') {
    const said: string[] = [];
    const pauses: number[] = [];
    const context = {
      ...{ store: memory(), queueOf: queuesOf(false), concurrency: 20, onCall: () => {} },
      batcher: {} as Batcher,
      log: pino({ level: 'warn' }, { write: (line) => said.push(JSON.parse(line).msg) }),
    };
    const served = {
      ...{ route: how, answered: true },
      limits: { token_estimate: 'full', prompts_per_request: 1, chunk_size: 100 },
    } as const;
    const route = new Route(context, endpoints, served, async (ms) => {
      pauses.push(ms);
    });
    opened.push(route);
    /** Rows that each endpoint was called for, and rows that no endpoint could be called for. */
    const calls: Record<string, number> = Object.fromEntries(route.lanes.map(({ name }) => [name, 0]));
    let back = 0;
    let latencyMs = 100;
    const run = (rows: number): Promise<void> =>
      route.line.run(
        'run',
        Array.from({ length: rows }, () => ({
          prepare: () => false,
          run: async (lane: Lane) => {
            const entry = await lane.gate.enter(
              1,
              () => false,
              async () => {
                calls[lane.name] = (calls[lane.name] ?? 0) + 1;
                await new Promise((resolve) => setTimeout(resolve, latencyMs));
                return true;
              },
            );
            if (entry !== 'go') back++;
          },
        })),
      );
    return {
      ...{ route, calls, said, pauses, run },
      back: () => back,
      slow: (ms: number) => {
        latencyMs = ms;
      },
    };
  }

  it('adds up their quotas: each takes rows as its own permits have room', async () => {
    const { calls, run } = begin([at('west', 600), at('east', 60)]);
    void run(1_000);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(calls['west']).toBeGreaterThan(190);
    expect(calls['west']).toBeLessThan(202);
    expect(calls['east']).toBeGreaterThan(18);
    expect(calls['east']).toBeLessThan(22);
  });

  it('leaves no row with the slow one when the other could call it', async () => {
    const { calls, run } = begin([at('west', 6), at('east', 600)]);
    const all = run(30);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(calls['east']).toBeGreaterThan(26);
    await vi.advanceTimersByTimeAsync(20_000);
    await all;
  });

  it('leaves a row that one of them fails to the other while that has room for it', async () => {
    const { route, calls, run } = begin([at('west'), at('east')]);
    const problem = { code: 'timeout', message: 'no answer' };
    const failed = { problem, connected: true, mayBeRequest: false, startedAt: 0 };
    route.lanes[0].outage.failed({ ...failed, rows: ['run:1'] }, 0, 0);
    for (let row = 0; row < 5; row++) {
      const one = run(1);
      await vi.advanceTimersByTimeAsync(1_000);
      await one;
    }
    expect(calls).toEqual({ west: 0, east: 5 });
    // With more rows than that has room for, it shows whether it is back.
    const many = run(100);
    await vi.advanceTimersByTimeAsync(2_000);
    await many;
    expect(calls['west']).toBeGreaterThan(5);
  });

  it('has a pause only when both have one: until then the other takes all', async () => {
    const { route, calls, pauses, run, back } = begin([at('west'), at('east')]);
    const [west, east] = route.lanes;
    await west.pacer.pause(60_000);
    expect([route.waitingMs, pauses]).toEqual([0, []]);
    const first = run(50);
    await vi.advanceTimersByTimeAsync(2_000);
    await first;
    expect(calls).toEqual({ west: 0, east: 50 });
    expect(route.hasOther(west)).toBe(true);
    await east?.pacer.pause(10_000);
    expect(pauses).toEqual([10_000]);
    const second = run(50);
    await vi.advanceTimersByTimeAsync(100);
    await second;
    expect([calls, back()]).toEqual([{ west: 0, east: 50 }, 50]);
  });

  it('in order, has the second called only for rows that have waited for a second', async () => {
    const { calls, run } = begin([at('west', 600), at('east', 600)], 'in_order');
    const few = run(5);
    await vi.advanceTimersByTimeAsync(3_000);
    await few;
    expect(calls).toEqual({ west: 5, east: 0 });
    void run(100);
    await vi.advanceTimersByTimeAsync(900);
    expect(calls['east']).toBe(0);
    await vi.advanceTimersByTimeAsync(4_000);
    expect(calls['east']).toBeGreaterThan(20);
  });

  it('in order, has the second called at once when the first is no use', async () => {
    const { route, calls, run } = begin([at('west'), at('east')], 'in_order');
    expect(route.stop(route.lanes[0], REFUSED)).toBeNull();
    const all = run(20);
    await vi.advanceTimersByTimeAsync(900);
    await all;
    expect(calls).toEqual({ west: 0, east: 20 });
  });

  it('goes on without one that refuses calls, tries it once a minute, and stops with the last', async () => {
    const { route, calls, said, run } = begin([at('west'), at('east')]);
    const [west, east] = route.lanes;
    expect(route.stop(west, REFUSED)).toBeNull();
    expect(said).toEqual(['west: it refuses its base_url. The other endpoints go on.']);
    const all = run(100);
    await vi.advanceTimersByTimeAsync(30_000);
    await all;
    expect(calls).toEqual({ west: 0, east: 100 });
    await vi.advanceTimersByTimeAsync(30_000);
    const more = run(100);
    await vi.advanceTimersByTimeAsync(10);
    expect(calls['west'], 'one tries it').toBe(1);
    await vi.advanceTimersByTimeAsync(30_000);
    await more;
    if (east === undefined) throw new Error('there are two');
    expect(route.stop(east, { ...REFUSED, message: 'no such deployment.' })).toEqual({
      code: 'forbidden',
      message: 'west: it refuses its base_url. east: no such deployment.',
    });
  });

  it('has a pause when the only other one is put aside', async () => {
    const { route, pauses } = begin([at('west'), at('east')]);
    const [west, east] = route.lanes;
    await east?.pacer.pause(10_000);
    expect(pauses).toEqual([]);
    expect(route.stop(west, REFUSED)).toBeNull();
    expect(pauses).toEqual([10_000]);
  });

  it('does not try one again whose key was revoked', async () => {
    const endpoints: Several<ServedEndpoint> = [at('west'), at('east')];
    const { route, calls, run, back } = begin(endpoints);
    endpoints[0].keys.refuse('a-key-for-tests-only');
    route.stop(route.lanes[0], REFUSED);
    await vi.advanceTimersByTimeAsync(120_000);
    const all = run(100);
    await vi.advanceTimersByTimeAsync(60_000);
    await all;
    expect(calls).toEqual({ west: 0, east: 100 });
    // Not even when no other may be called.
    await route.lanes[1]?.pacer.pause(60_000);
    const more = run(20);
    await vi.advanceTimersByTimeAsync(100);
    await more;
    expect([calls, back()]).toEqual([{ west: 0, east: 100 }, 20]);
  });
});
