import { describe, expect, it } from 'vitest';
import { NO_CALLS } from '../../src/core/counters.js';
import type { ChunkAt } from '../../src/queue/chunk.js';
import { BudgetWait } from '../../src/worker/budget-wait.js';

const TIMEOUT_MS = 60_000;

describe('requests that wait for a budget', () => {
  const budget = { tokens: 1_000, cost: null, prices: null, orphaned: 0 };
  const answer = { spent: { prompt_tokens: 900, completion_tokens: 0 }, inFlight: 1 };
  const chunk = { run: 'r', execution: 1, endpoint: { timeoutMs: TIMEOUT_MS } } as ChunkAt;

  function begin() {
    const clock = { ms: 1_000_000 };
    const batcher = { totals: () => ({ ...NO_CALLS, in_flight: 1, answers: 0 }) };
    const waits = new BudgetWait(
      batcher,
      () => clock.ms,
      () => 0,
    );
    /** Asks as a request does that was refused before, and wakes it at once. */
    const ask = async (): Promise<boolean> => {
      const room = waits.room(chunk, budget, answer, false);
      waits.wake(chunk);
      return room;
    };
    return { clock, ask };
  }

  it('give a call in flight up when it was not heard of until its deadline', async () => {
    const { clock, ask } = begin();
    const deadline = clock.ms + TIMEOUT_MS + 10_000;
    for (; clock.ms < deadline; clock.ms += 1_000) expect(await ask()).toBe(true);
    expect(await ask()).toBe(false);
  });

  it('count its time anew when nobody has waited for it, as in a pause of all calls', async () => {
    const { clock, ask } = begin();
    expect(await ask()).toBe(true);
    clock.ms += 10 * TIMEOUT_MS;
    expect(await ask()).toBe(true);
  });
});
