import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { loadTokenizer } from '../../src/prompt/tokens.js';
import { type CallOptions, call, SENTIMENT } from './call.js';

let emulator: Emulator;
beforeAll(async () => {
  emulator = await startEmulator();
});
afterAll(() => emulator.close());

const SAFE = { filtered: false, severity: 'safe' };
const ALL_SAFE = { hate: SAFE, self_harm: SAFE, sexual: SAFE, violence: SAFE };

describe('a completion', () => {
  it('has no filter fields with 2022-12-01', async () => {
    const { status, body } = await call(
      emulator,
      { prompt: SENTIMENT, max_tokens: 5 },
      { deployment: 'text-davinci-003', version: '2022-12-01' },
    );
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^cmpl-\w+$/),
      object: 'text_completion',
      created: expect.any(Number),
      model: 'text-davinci-003',
      choices: [{ text: ' positive', index: 0, finish_reason: 'stop', logprobs: null }],
      usage: { prompt_tokens: expect.any(Number), completion_tokens: 1, total_tokens: expect.any(Number) },
    });
    expect(Math.abs(body.created - Date.now() / 1000)).toBeLessThan(60);
  });

  it('has filter results on both sides with 2023-09-15-preview', async () => {
    const { body } = await call(emulator, { prompt: SENTIMENT, max_tokens: 5 });
    expect(body.prompt_filter_results).toEqual([{ prompt_index: 0, content_filter_results: ALL_SAFE }]);
    expect(body.choices[0].content_filter_results).toEqual(ALL_SAFE);
  });

  it.each(['lm-35-turbo-instruct', 'text-davinci-003'])(
    'is answered by %s with both versions',
    async (deployment) => {
      for (const version of ['2022-12-01', '2023-09-15-preview']) {
        const { status, body } = await call(emulator, { prompt: SENTIMENT }, { deployment, version });
        expect([status, body.model, body.choices[0].text]).toEqual([200, deployment, ' positive']);
      }
    },
  );

  it('carries the headers of the service', async () => {
    const { headers } = await call(emulator, { prompt: SENTIMENT });
    for (const name of ['x-request-id', 'apim-request-id', 'x-ms-region'])
      expect(headers.get(name)).toBeTruthy();
    expect(headers.get('x-ratelimit-remaining-requests')).toBe('-1');
    expect(headers.get('x-ratelimit-remaining-tokens')).toBe('-1');
  });

  it('has an id of its own', async () => {
    const bodies = await Promise.all([1, 2, 3].map(() => call(emulator, { prompt: SENTIMENT })));
    expect(new Set(bodies.map(({ body }) => body.id)).size).toBe(3);
  });

  it('answers an array of prompts with choices at prompt × n + j, and sums usage', async () => {
    const prompts = [SENTIMENT, SENTIMENT.replace('love', 'hate')];
    const { body } = await call(emulator, { prompt: prompts, n: 2, temperature: 0 });
    expect(
      body.choices.map((choice: { index: number; text: string }) => [choice.index, choice.text]),
    ).toEqual([
      [0, ' positive'],
      [1, ' positive'],
      [2, ' negative'],
      [3, ' negative'],
    ]);
    expect(body.prompt_filter_results).toHaveLength(2);
    const { count } = loadTokenizer('cl100k_base');
    const promptTokens = count(SENTIMENT) + count(prompts[1] ?? '');
    expect(body.usage).toEqual({
      prompt_tokens: promptTokens,
      completion_tokens: 4,
      total_tokens: promptTokens + 4,
    });
  });

  it('is billed for every candidate of best_of, and returns n of them', async () => {
    const { body } = await call(emulator, { prompt: SENTIMENT, best_of: 5 });
    expect(body.choices).toHaveLength(1);
    expect(body.usage.completion_tokens).toBe(5);
  });

  it.each([
    ['lm-35-turbo-instruct', 'cl100k_base'],
    ['text-davinci-003', 'p50k_base'],
  ] as const)('counts the tokens of %s with %s', async (deployment, encoding) => {
    const prompt = 'Ein Käsebrötchen für 3,50 € – 価格は高い.';
    const { count } = loadTokenizer(encoding);
    const { body } = await call(emulator, { prompt, max_tokens: 400 }, { deployment });
    expect(body.usage.prompt_tokens).toBe(count(prompt));
    expect(body.usage.completion_tokens).toBe(count(body.choices[0].text));
    expect(body.usage.total_tokens).toBe(body.usage.prompt_tokens + body.usage.completion_tokens);
  });
});

describe('the end of a completion', () => {
  it('is `length` at max_tokens, with exactly that many tokens', async () => {
    const { count } = loadTokenizer('cl100k_base');
    const { body } = await call(emulator, { prompt: 'Tell me about bridges.', max_tokens: 7 });
    expect(body.choices[0].finish_reason).toBe('length');
    expect(body.usage.completion_tokens).toBe(7);
    expect(count(body.choices[0].text)).toBe(7);
  });

  it('is 16 tokens by default', async () => {
    const { body } = await call(emulator, { prompt: 'Tell me about bridges.' });
    expect(body.usage.completion_tokens).toBe(16);
  });

  it('is `stop` at the first stop sequence, which is not returned', async () => {
    const ask = { prompt: 'Tell me about bridges.', max_tokens: 200, temperature: 0 };
    const full = (await call(emulator, ask)).body.choices[0].text;
    const { body } = await call(emulator, { ...ask, stop: ['no such words', '.'] });
    expect(body.choices[0]).toMatchObject({ text: full.slice(0, full.indexOf('.')), finish_reason: 'stop' });
    expect(body.usage.completion_tokens).toBe(loadTokenizer('cl100k_base').count(body.choices[0].text));
  });

  it('may come before anything is written, and then completion_tokens is missing', async () => {
    const { body } = await call(emulator, { prompt: 'Tell me about bridges.', stop: '\n' });
    expect(body.choices[0]).toMatchObject({ text: '', finish_reason: 'stop' });
    expect(body.usage).not.toHaveProperty('completion_tokens');
    const none = await call(emulator, { prompt: SENTIMENT, max_tokens: 0 });
    expect(none.body.choices[0]).toMatchObject({ text: '', finish_reason: 'length' });
  });

  it('does not return half a character', async () => {
    const prompt = 'Summarize the text.\nText: 😀🦜🧩🪁🪂🛼🪀🎿🥌⛸🛷🥍🏏🥅\nSummary:';
    for (const max_tokens of [1, 2, 3, 4, 5, 6, 7, 8]) {
      const { body } = await call(emulator, { prompt, max_tokens });
      expect(body.choices[0].text).not.toContain('\uFFFD');
    }
  });
});

describe('a request that does not reach a model', () => {
  const refusals: readonly [string, CallOptions, number, unknown][] = [
    ['an unknown deployment', { deployment: 'no-such' }, 404, { error: { code: 'DeploymentNotFound' } }],
    [
      'a conversation model',
      { deployment: 'lm-35-turbo' },
      400,
      { error: { code: 'OperationNotSupported' } },
    ],
    [
      'a large conversation model',
      { deployment: 'lm-4-32k' },
      400,
      { error: { code: 'OperationNotSupported' } },
    ],
    [
      'a version that is not known',
      { version: '2019-01-01' },
      400,
      { error: { message: 'API version not supported' } },
    ],
    [
      'a missing api-version',
      { target: '/openai/deployments/text-davinci-003/completions' },
      404,
      { error: { code: '404', message: 'Resource not found' } },
    ],
    ['another path', { target: '/openai/models?api-version=2022-12-01' }, 404, { error: { code: '404' } }],
    [
      'another segment',
      { target: '/other/deployments/text-davinci-003/completions?api-version=2022-12-01' },
      404,
      { error: { code: '404' } },
    ],
    ['another method', { method: 'GET' }, 404, { error: { code: '404' } }],
    [
      'no key',
      { headers: {} },
      401,
      { error: { code: '401', message: expect.stringContaining('invalid subscription key') } },
    ],
    ['a wrong key', { headers: { 'api-key': 'wrong' } }, 401, { error: { code: '401' } }],
    [
      'a wrong bearer token, whose body has no error member',
      { headers: { authorization: 'Bearer wrong' } },
      401,
      { statusCode: 401, message: expect.any(String) },
    ],
    [
      'a form',
      { headers: { 'api-key': 'emulator-test-key-1', 'content-type': 'multipart/form-data' } },
      415,
      {},
    ],
  ];

  it.each(refusals)('is refused: fault 19, %s', async (_, options, status, body) => {
    const response = await call(emulator, { prompt: SENTIMENT }, options);
    expect(response.status).toBe(status);
    expect(response.body).toMatchObject(body as object);
  });

  it('is answered with either key, in either header', async () => {
    for (const key of emulator.keys) {
      for (const headers of [{ 'api-key': key }, { authorization: `Bearer ${key}` }]) {
        expect((await call(emulator, { prompt: SENTIMENT }, { headers })).status).toBe(200);
      }
    }
  });
});

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
