import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { disturbanceNamed } from '../../src/emulator/disturbance.js';
import type { ScriptRule } from '../../src/emulator/fault-plan.js';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { SENTIMENT } from './call.js';
import { CLIENTS, MODEL, OPEN, refusal, THREAT } from './sdk.js';

let emulator: Emulator | null = null;
afterEach(async () => {
  await emulator?.close();
  emulator = null;
});

async function started(options: EmulatorOptions = {}): Promise<Emulator> {
  emulator = await startEmulator(options);
  return emulator;
}

/** One rule for the first request, or for every one. */
function fault(name: string, rule: Partial<ScriptRule> = { to: 1 }): EmulatorOptions {
  const found = disturbanceNamed(name);
  if (!found) throw new Error(`no fault ${name}`);
  return { script: [{ ...rule, fault: found }] };
}

describe.each(CLIENTS)('%s of the OpenAI SDK', (_, clientOf) => {
  it('raises AuthenticationError for a wrong key', async () => {
    const error = await refusal(
      clientOf(await started(), { apiKey: 'wrong' }).completions.create({ ...OPEN, model: MODEL }),
    );
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError);
    expect(error.status).toBe(401);
  });

  it('raises NotFoundError for an unknown deployment', async () => {
    const error = await refusal(clientOf(await started()).completions.create({ ...OPEN, model: 'no-such' }));
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
    expect(error.code).toMatch(/^(DeploymentNotFound|model_not_found)$/);
  });

  it('raises BadRequestError for a parameter out of range', async () => {
    const error = await refusal(
      clientOf(await started()).completions.create({ ...OPEN, model: MODEL, temperature: 3 }),
    );
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect([error.type, error.message]).toEqual([
      'invalid_request_error',
      "400 3 is greater than the maximum of 2 - 'temperature'",
    ]);
  });

  it('raises BadRequestError with the code of the content filter', async () => {
    const error = await refusal(
      clientOf(await started()).completions.create({ model: MODEL, prompt: THREAT }),
    );
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect([error.code, error.param]).toEqual(['content_filter', 'prompt']);
  });

  it('raises RateLimitError with its hint over the quota, and does not retry when told so', async () => {
    const client = clientOf(await started({ quota: { requestsPerMinute: 1, requestWindowSeconds: 60 } }));
    await client.completions.create({ ...OPEN, model: MODEL });
    const error = await refusal(client.completions.create({ ...OPEN, model: MODEL }));
    expect(error).toBeInstanceOf(OpenAI.RateLimitError);
    expect(Number(error.headers?.get('retry-after'))).toBeGreaterThan(0);
    expect(emulator?.stats().requests).toBe(2);
  });

  it.each([
    ['ms', 1000],
    ['seconds', 1000],
  ] as const)('waits as long as a 429 asks for in %s, and then gets its answer', async (hint, least) => {
    const client = clientOf(await started({ ...fault('429'), hint }), { maxRetries: 1 });
    const before = performance.now();
    await client.completions.create({ ...OPEN, model: MODEL });
    // Its own backoff would come back after half a second at most. A timer may fire a millisecond early.
    expect(performance.now() - before).toBeGreaterThanOrEqual(least - 2);
    expect(emulator?.stats()).toMatchObject({ requests: 2, by_status: { 200: 1, 429: 1 } });
  });

  it('raises InternalServerError for a 500', async () => {
    const error = await refusal(
      clientOf(await started(fault('500'))).completions.create({ ...OPEN, model: MODEL }),
    );
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
  });

  it('raises APIConnectionError when the connection is reset', async () => {
    const error = await refusal(
      clientOf(await started(fault('reset'))).completions.create({ ...OPEN, model: MODEL }),
    );
    expect(error).toBeInstanceOf(OpenAI.APIConnectionError);
    expect(emulator?.stats()).toMatchObject({ requests: 1, by_status: {}, by_fault: { reset: 1 } });
  });

  it.each(['500', 'reset'])('is answered after %s when it may retry', async (name) => {
    const client = clientOf(await started(fault(name)), { maxRetries: 1 });
    const { choices } = await client.completions.create({ model: MODEL, prompt: SENTIMENT });
    expect(choices[0]?.text).toBe(' positive');
    expect(emulator?.stats().by_fault).toEqual({ [name]: 1 });
  });

  it.each(['403', '422'])('raises its own class for %s', async (name) => {
    const error = await refusal(
      clientOf(await started(fault(name))).completions.create({ ...OPEN, model: MODEL }),
    );
    expect(error).toBeInstanceOf(
      { 403: OpenAI.PermissionDeniedError, 422: OpenAI.UnprocessableEntityError }[name],
    );
  });

  it('fault 23: never takes half a stream for a whole one', async () => {
    const client = clientOf(await started(fault('truncate', {})));
    let ended = false;
    const read = async () => {
      const stream = await client.completions.create({ ...OPEN, model: MODEL, stream: true });
      for await (const { choices } of stream) ended ||= choices[0]?.finish_reason === 'length';
    };
    // The SDK takes the early end of a connection without a length for the end of the stream.
    await read().catch(() => {});
    expect(ended).toBe(false);
    expect(emulator?.stats()).toMatchObject({ answered: 0, by_fault: { truncate: 1 } });
  });
});
