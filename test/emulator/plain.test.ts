import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { call, SENTIMENT } from './call.js';

let emulator: Emulator;
beforeAll(async () => {
  emulator = await startEmulator();
});
afterAll(() => emulator.close());

const MODEL = 'lm-35-turbo-instruct';

const plain = (body: object, key: string = emulator.keys[0]) =>
  call(emulator, body, { target: '/v1/completions', headers: { authorization: `Bearer ${key}` } });

describe('/v1/completions', () => {
  it('answers as a plain server does: the model in the body, no filter fields', async () => {
    const { status, body } = await plain({ model: MODEL, prompt: SENTIMENT, max_tokens: 5 });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^cmpl-\w+$/),
      object: 'text_completion',
      created: expect.any(Number),
      model: MODEL,
      choices: [{ text: ' positive', index: 0, finish_reason: 'stop', logprobs: null }],
      usage: { prompt_tokens: expect.any(Number), completion_tokens: 1, total_tokens: expect.any(Number) },
    });
  });

  it('knows fields that the service does not', async () => {
    expect((await plain({ model: MODEL, prompt: SENTIMENT, seed: 7 })).status).toBe(200);
  });

  it.each([
    [{ prompt: SENTIMENT }, 400, { message: 'you must provide a model parameter' }],
    [{ model: 'no-such', prompt: SENTIMENT }, 404, { code: 'model_not_found' }],
    [{ model: 'lm-4', prompt: SENTIMENT }, 404, { param: 'model' }],
    [{ model: MODEL, prompt: SENTIMENT, stream_options: {} }, 400, { param: 'stream_options' }],
    [{ model: MODEL, prompt: SENTIMENT, stream: true, stream_options: { include_usage: 1 } }, 400, {}],
    [{ model: MODEL, prompt: 'I will kill you.' }, 400, { code: 'content_filter' }],
  ])('refuses %j', async (body, status, error) => {
    const response = await plain(body);
    expect(response.status).toBe(status);
    expect(response.body.error).toMatchObject(error);
  });

  it('fault 19: refuses a wrong key, and a key in the other header', async () => {
    const ask = { model: MODEL, prompt: SENTIMENT };
    expect((await plain(ask, 'wrong')).body.error.code).toBe('invalid_api_key');
    const headers = { 'api-key': emulator.keys[0] };
    expect((await call(emulator, ask, { target: '/v1/completions', headers })).status).toBe(401);
  });
});
