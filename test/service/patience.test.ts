import { afterEach, expect, it, vi } from 'vitest';
import { createClient } from '../../src/service/client.js';
import { type ScriptedReply, startScriptedService } from '../support/scripted-service.js';

const MINUTE = 60_000;

afterEach(() => vi.useRealTimers());

/** A call over a real connection, whose client lives through the minutes that the test gives it. */
async function callFor(minutes: number, timeoutMs: number) {
  let arrived = (): void => {};
  let answer = (_: ScriptedReply): void => {};
  const arrival = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const reply = new Promise<ScriptedReply>((resolve) => {
    answer = resolve;
  });
  const service = await startScriptedService(() => {
    arrived();
    return reply;
  });
  // The clocks of the client, undici's own among them; connections stay as they are.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] });
  const client = createClient({ url: `${service.url}/x`, bearer: false, connections: 1, timeoutMs });
  try {
    const call = client.call('{"prompt":"p"}', 'a-key-for-tests-only');
    await arrival;
    await vi.advanceTimersByTimeAsync(minutes * MINUTE);
    answer({});
    return { exchange: await call, calls: service.calls() };
  } finally {
    vi.useRealTimers();
    await client.close();
    await service.close();
  }
}

it('fault 25: a completion that takes ten minutes is awaited, when the time limit is longer', async () => {
  const { exchange, calls } = await callFor(10, 15 * MINUTE);
  expect(exchange).toMatchObject({ kind: 'response', status: 200, latency_ms: 10 * MINUTE });
  expect(calls).toBe(1);
});

it('fault 25: one that takes longer than the time limit is given up', async () => {
  const { exchange } = await callFor(10, 9 * MINUTE);
  expect(exchange).toMatchObject({ kind: 'failure', phase: 'exchange', code: 'timeout' });
});
