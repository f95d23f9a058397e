import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { call, events, SENTIMENT } from './call.js';

let emulator: Emulator;
beforeEach(async () => {
  emulator = await startEmulator();
});
afterEach(() => emulator.close());

const THREAT = 'Translate to French: I will kill you.';

describe('/stats', () => {
  it('counts what came and what went, without a key', async () => {
    const answers = [
      await call(emulator, { prompt: [SENTIMENT, 'Hello.'] }),
      await call(emulator, { prompt: SENTIMENT }),
    ];
    await call(emulator, { prompt: THREAT });
    await call(emulator, { prompt: SENTIMENT, temperature: 3 });
    await call(emulator, { prompt: SENTIMENT }, { headers: {} });
    const page = await fetch(`${emulator.url}/stats`);
    expect(page.headers.get('content-type')).toBe('application/json');
    const sum = (member: string) => answers.reduce((total, { body }) => total + body.usage[member], 0);
    expect(await page.json()).toEqual({
      requests: 5,
      by_status: { 200: 2, 400: 2, 401: 1 },
      by_fault: {},
      by_tier: {},
      answered: 2,
      prompts: 4,
      distinct_prompts: 3,
      usage: {
        prompt_tokens: sum('prompt_tokens'),
        completion_tokens: sum('completion_tokens'),
        total_tokens: sum('total_tokens'),
      },
      lost_usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
      rate_limited: { requests: 0, tokens: 0 },
      filtered: { prompts: 1, completions: 0 },
      abandoned: 0,
      largest_concurrency: 1,
      batches: { created: 0, requests: 0 },
    });
  });

  it('counts streams, and completions that were cut', async () => {
    await events(emulator, { prompt: 'Describe a boxing match in graphic detail.', max_tokens: 40 });
    expect(emulator.stats()).toMatchObject({
      answered: 1,
      filtered: { prompts: 0, completions: 1 },
      usage: { completion_tokens: 40 },
    });
  });

  it('knows how many requests it had at once, and how many callers hung up', async () => {
    const slow = await startEmulator({ latency: { baseMs: 3_600_000, perTokenMs: 0 } });
    const leave = new AbortController();
    const target = `${slow.url}/openai/deployments/text-davinci-003/completions?api-version=2022-12-01`;
    const calls = Array.from({ length: 7 }, () =>
      fetch(target, {
        method: 'POST',
        headers: { 'api-key': slow.keys[0] },
        body: JSON.stringify({ prompt: SENTIMENT }),
        signal: leave.signal,
      }).catch(() => 'left'),
    );
    await until(() => slow.stats().largest_concurrency === 7);
    leave.abort();
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['left']));
    await until(() => slow.stats().abandoned === 7);
    expect(slow.stats()).toMatchObject({ requests: 7, by_status: {}, answered: 0 });
    await slow.close();
  });
});

/** Waits for something that the server is about to see. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}
