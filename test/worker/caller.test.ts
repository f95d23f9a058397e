import { pino } from 'pino';
import { expect, it } from 'vitest';
import type { ChunkAt } from '../../src/queue/chunk.js';
import type { EndpointSpec } from '../../src/service/endpoint-spec.js';
import { KeyRing } from '../../src/service/keys.js';
import type { Batcher } from '../../src/worker/batcher.js';
import { Caller } from '../../src/worker/caller.js';
import { startScriptedService } from '../support/scripted-service.js';

const ENDPOINT: EndpointSpec = {
  name: 'lm-35-turbo-instruct',
  operation: 'completions',
  deployment: 'lm-35-turbo-instruct',
  apiVersion: '2022-12-01',
  style: 'deployments',
  timeoutMs: 60_000,
};

const CHUNK: ChunkAt = {
  ...{ run: 'run', execution: 1, first: 1, promptsPerRequest: 1, parameters: {}, rows: [] },
  ...{ budget: null, hold: false, asks: null },
  ...{ endpoints: [ENDPOINT], endpoint: ENDPOINT },
};

const UNCOUNTED = { count: () => {} } as unknown as Batcher;

it('calls are in flight from when they go out until they have ended, however that is', async () => {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const service = await startScriptedService(async ({ prompt }) => {
    await released;
    return prompt === 'reset' ? 'reset' : {};
  });
  const access = {
    address: { baseUrl: service.url, segment: 'openai' },
    keys: new KeyRing(['a-key-for-tests-only']),
    ...{ concurrency: 4, batcher: UNCOUNTED, onCall: () => {}, log: pino({ level: 'silent' }) },
  };
  const caller = new Caller(access, true);
  try {
    expect(caller.inFlight).toBe(0);
    const calls = ['answer', 'reset'].map((prompt, i) =>
      caller.call(CHUNK, [{ row: i + 1, prompt, parameters: null }], 1),
    );
    await expect.poll(() => service.calls()).toBe(2);
    expect(caller.inFlight).toBe(2);
    release();
    await Promise.all(calls);
    expect(caller.inFlight).toBe(0);
  } finally {
    await caller.close();
    await service.close();
  }
});

it('fault 113: a row that had no room alone says nothing of the calls at once when it is called beside others', async () => {
  const service = await startScriptedService(() => ({
    status: 500,
    json: { error: { message: 'Context size has been exceeded.' } },
  }));
  const access = {
    address: { baseUrl: service.url, segment: 'openai' },
    keys: new KeyRing(['a-key-for-tests-only']),
    ...{ concurrency: 4, batcher: UNCOUNTED, onCall: () => {}, log: pino({ level: 'silent' }) },
  };
  const caller = new Caller(access, true);
  const kindOf = async (row: number): Promise<string | undefined> =>
    (await caller.call(CHUNK, [{ row, prompt: `${row}`, parameters: null }], 1))[0]?.kind;
  try {
    expect(await kindOf(1)).toBe('retry');
    expect(await Promise.all([kindOf(1), kindOf(2)])).toEqual(['retry', 'no_room']);
  } finally {
    await caller.close();
    await service.close();
  }
});
