import { afterEach, describe, expect, it } from 'vitest';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { loadTokenizer } from '../../src/prompt/tokens.js';
import { type CallOptions, call, events, named, SENTIMENT } from './call.js';

let emulator: Emulator | null = null;
afterEach(async () => {
  await emulator?.close();
  emulator = null;
});

async function started(options: EmulatorOptions = {}): Promise<Emulator> {
  emulator = await startEmulator(options);
  return emulator;
}

const target = (deployment: string, version = '2024-10-21') =>
  `/openai/deployments/${deployment}/chat/completions?api-version=${version}`;

const user = (content: string) => ({ role: 'user', content });
const asked = (content: string, more: object = {}) => ({ messages: [user(content)], ...more });

const hosted = async (body: unknown, options: CallOptions = {}) =>
  call(emulator ?? (await started()), body, { target: target('lm-35-turbo'), ...options });

const plain = async (body: object) => {
  const to = emulator ?? (await started());
  return call(to, body, {
    target: '/v1/chat/completions',
    headers: { authorization: `Bearer ${to.keys[0]}` },
  });
};

const SAFE = { filtered: false, severity: 'safe' };
const ALL_SAFE = { hate: SAFE, self_harm: SAFE, sexual: SAFE, violence: SAFE };
const OPEN = asked('Tell me about bridges.');

describe('a conversation', () => {
  it('is answered with a message, usage in detail, its tier and filter results', async () => {
    const { status, body } = await hosted(asked(SENTIMENT));
    expect(status).toBe(200);
    const prompt_tokens = loadTokenizer('cl100k_base').count(SENTIMENT) + 7;
    expect(body).toEqual({
      id: expect.stringMatching(/^chatcmpl-\w+$/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'lm-35-turbo',
      service_tier: 'default',
      prompt_filter_results: [{ prompt_index: 0, content_filter_results: ALL_SAFE }],
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'positive', refusal: null },
          finish_reason: 'stop',
          logprobs: null,
          content_filter_results: ALL_SAFE,
        },
      ],
      usage: {
        prompt_tokens,
        completion_tokens: 1,
        total_tokens: prompt_tokens + 1,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
    });
  });

  it('is answered by a plain server without filter fields, the model in the body', async () => {
    const { status, body } = await plain({ model: 'my-own-model', ...asked(SENTIMENT) });
    expect([status, body.model]).toEqual([200, 'my-own-model']);
    expect(body.choices[0]).not.toHaveProperty('content_filter_results');
    expect(body).not.toHaveProperty('prompt_filter_results');
  });

  it('gets the answer that completions give to the same text, but for the blank before it', async () => {
    for (const text of [
      'Is it soup, salad or pasta?\nText: xyz\nDish:',
      'Summarize.\n\nA first one. More.',
    ]) {
      const completion = await call(await started(), { prompt: text, temperature: 0, max_tokens: 50 });
      const { body } = await hosted(asked(text, { temperature: 0 }));
      expect(body.choices[0].message.content).toBe(completion.body.choices[0].text.trim());
      await emulator?.close();
    }
  });

  it.each([
    ['a system message', [{ role: 'system', content: 'Is it good or bad?' }, user('Text: I hate it.')]],
    ['a developer message', [{ role: 'developer', content: 'Is it good or bad?' }, user('Text: I hate it.')]],
    [
      'examples',
      [
        { role: 'system', content: 'Is it good or bad?' },
        user('I love it.'),
        { role: 'assistant', content: 'good' },
        user('Text: I hate it.'),
      ],
    ],
    ['parts', [{ role: 'user', content: [{ type: 'text', text: 'Is it good or bad?\nText: I hate it.' }] }]],
  ])('reads %s', async (_, messages) => {
    const { body } = await hosted({ messages, temperature: 0 });
    expect(body.choices[0].message.content).toBe('bad');
  });

  it('counts the frame of each message, its name, and that of the reply', async () => {
    const { count } = loadTokenizer('cl100k_base');
    const messages = [
      { role: 'system', content: 'Be brief.', name: 'boss' },
      { role: 'user', content: 'Why?' },
    ];
    const { body } = await hosted({ messages });
    expect(body.usage.prompt_tokens).toBe(count('Be brief.') + count('Why?') + 3 + 2 * 4 + 1 + count('boss'));
  });

  it('has n choices, all billed', async () => {
    const { body } = await hosted(asked(SENTIMENT, { n: 3, temperature: 0 }));
    expect(body.choices.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2]);
    expect(body.usage.completion_tokens).toBe(3);
  });

  it('ends at its stop text, at its limit, and otherwise when it is done', async () => {
    const full = (await hosted({ ...OPEN, temperature: 0 })).body.choices[0];
    expect(full.finish_reason).toBe('stop');
    const text: string = full.message.content;
    for (const limit of ['max_tokens', 'max_completion_tokens']) {
      const { body } = await hosted({ ...OPEN, temperature: 0, [limit]: 5 });
      expect([body.choices[0].finish_reason, body.usage.completion_tokens]).toEqual(['length', 5]);
    }
    const { body } = await hosted({ ...OPEN, temperature: 0, stop: '.' });
    expect(body.choices[0].message.content).toBe(text.slice(0, text.indexOf('.')));
  });
});

describe('log probabilities', () => {
  it('are a list of tokens with their bytes and alternatives', async () => {
    const { body } = await hosted(asked(SENTIMENT, { logprobs: true, top_logprobs: 20, temperature: 0 }));
    const { content, refusal } = body.choices[0].logprobs;
    expect(refusal).toBeNull();
    expect(content).toHaveLength(1);
    expect(content[0]).toMatchObject({
      token: 'positive',
      logprob: expect.any(Number),
      bytes: [...Buffer.from('positive')],
    });
    const tokens = content[0].top_logprobs.map(({ token }: { token: string }) => token);
    expect(tokens).toEqual(expect.arrayContaining(['positive', 'negative', 'neutral']));
    const values = content[0].top_logprobs.map(({ logprob }: { logprob: number }) => logprob);
    expect(values).toEqual(values.toSorted((a: number, b: number) => b - a));
    expect(values[0]).toBe(content[0].logprob);
  });

  it('list as many alternatives as asked, or none', async () => {
    for (const top_logprobs of [undefined, 0, 2]) {
      const { body } = await hosted({ ...OPEN, logprobs: true, top_logprobs });
      for (const { top_logprobs: listed } of body.choices[0].logprobs.content) {
        expect(listed).toHaveLength(top_logprobs ?? 0);
      }
    }
  });
});

describe('JSON', () => {
  const schema = {
    type: 'object',
    properties: { label: { enum: ['positive', 'negative', 'neutral'] } },
    required: ['label'],
    additionalProperties: false,
  };
  const format = (given: object, strict = true) => ({
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: given, strict } },
  });

  it('is an object around the answer where any is wanted', async () => {
    const response_format = { type: 'json_object' };
    const { body } = await hosted(asked(`As JSON. ${SENTIMENT}`, { response_format, temperature: 0 }));
    expect(JSON.parse(body.choices[0].message.content)).toEqual({ answer: 'positive' });
    const refused = await hosted(asked(SENTIMENT, { response_format }));
    expect([refused.status, refused.body.error.param]).toEqual([400, 'messages']);
  });

  it.each([
    [
      'additional properties',
      { ...schema, additionalProperties: true },
      "In context=(), 'additionalProperties'",
    ],
    ['a property that is not required', { ...schema, required: [] }, "Missing 'label'"],
    [
      'the same further down',
      { ...schema, properties: { label: { type: 'array', items: { type: 'object', properties: {} } } } },
      "In context=('properties', 'label', 'items'), 'additionalProperties'",
    ],
    ['a list on top', { type: 'array', items: { type: 'string' } }, "must have the type 'object'"],
  ])('strict: a schema with %s is refused, and taken where it is not strict', async (_, given, message) => {
    const { status, body } = await hosted(asked(SENTIMENT, format(given)));
    expect([status, body.error.param]).toEqual([400, 'response_format']);
    expect(body.error.message).toContain(message);
    expect((await hosted(asked(SENTIMENT, format(given, false)))).status).toBe(200);
  });
});

describe('request validation of conversations', () => {
  it.each([
    ['messages', undefined, "'messages' is a required property"],
    ['messages', [], "[] is too short - 'messages'"],
    ['messages', 'Hello', "'Hello' is not of type 'array' - 'messages'"],
    ['messages', [{ role: 'robot', content: '' }], "is not valid - 'messages.0.role'"],
    ['messages', [{ role: 'user' }], "'messages.0.content' is a required property"],
    ['messages', [{ role: 'user', content: null }], "null is not of type 'string' - 'messages.0.content'"],
    ['messages', [{ role: 'user', content: [{ type: 'image_url' }] }], "'messages.0.content.0"],
    ['messages', [{ role: 'user', content: '', when: 1 }], 'supplied: messages.0.when'],
    [
      'messages',
      [user('Hi.'), { role: 'tool', content: '' }],
      "'messages.1.tool_call_id' is a required property",
    ],
    ['temperature', 3, "3 is greater than the maximum of 2 - 'temperature'"],
    ['top_p', -1, "-1 is less than the minimum of 0 - 'top_p'"],
    ['n', 129, "129 is greater than the maximum of 128 - 'n'"],
    ['max_tokens', 0, "0 is less than the minimum of 1 - 'max_tokens'"],
    ['max_completion_tokens', 1.5, "1.5 is not of type 'integer' - 'max_completion_tokens'"],
    ['logprobs', 5, "5 is not of type 'boolean' - 'logprobs'"],
    ['top_logprobs', 21, "21 is greater than the maximum of 20 - 'top_logprobs'"],
    ['top_logprobs', 2, "'top_logprobs' needs 'logprobs'"],
    ['stop', ['a', 'b', 'c', 'd', 'e'], "is too long - 'stop'"],
    ['seed', 'one', "'one' is not of type 'number' - 'seed'"],
    ['presence_penalty', 3, "3 is greater than the maximum of 2 - 'presence_penalty'"],
    ['reasoning_effort', 'huge', "'huge' is not valid - 'reasoning_effort'"],
    ['verbosity', 'loud', "'loud' is not valid - 'verbosity'"],
    ['service_tier', 'cheap', "'cheap' is not valid - 'service_tier'"],
    ['response_format', { type: 'xml' }, "is not valid - 'response_format.type'"],
    [
      'response_format',
      { type: 'json_schema', json_schema: { name: 'a b', schema: {} } },
      "'a b' is not valid - 'response_format.json_schema.name'",
    ],
    ['logit_bias', { word: 1 }, "'word' is not a token id - 'logit_bias'"],
    [
      'metadata',
      Object.fromEntries(Array.from({ length: 17 }, (_, i) => [i, ''])),
      "is not valid - 'metadata'",
    ],
    ['stream_options', {}, "only allowed when 'stream' is enabled"],
    ['prompt', 'Hello', 'Unrecognized request argument supplied: prompt'],
    ['suffix', 'end', 'Unrecognized request argument supplied: suffix'],
    ['best_of', 2, 'Unrecognized request argument supplied: best_of'],
    ['echo', true, 'Unrecognized request argument supplied: echo'],
    ['top_k', 20, 'Unrecognized request argument supplied: top_k'],
  ])('refuses %s %j', async (field, value, message) => {
    const { status, body } = await hosted({ messages: [user('Hi.')], [field]: value });
    expect(status).toBe(400);
    expect(body.error.message).toContain(message);
  });

  it.each([
    { max_completion_tokens: null, max_tokens: 5 },
    { temperature: 0, top_p: 1, presence_penalty: null, frequency_penalty: 2, logit_bias: { 50: 1 } },
    { seed: -7, user: 'someone', metadata: { a: 'b' }, store: false, safety_identifier: 'x' },
    { reasoning_effort: 'minimal', verbosity: 'low', response_format: { type: 'text' } },
    { messages: [user('Hi.'), { role: 'assistant', content: null, refusal: 'No.' }, user('Why?')] },
  ])('accepts %j', async (fields) => {
    expect((await hosted({ messages: [user('Hi.')], ...fields })).status).toBe(200);
  });

  it('refuses a system beside a developer, and one limit beside the other', async () => {
    const messages = [{ role: 'system', content: 'a' }, { role: 'developer', content: 'b' }, user('c')];
    const both = await hosted({ messages });
    expect([both.status, both.body.error.param]).toEqual([400, 'messages']);
    const limits = await hosted({ ...OPEN, max_tokens: 5, max_completion_tokens: 5 });
    expect([limits.status, limits.body.error.param]).toEqual([400, 'max_tokens']);
  });

  it.each(['[]', '', '{"messages": ['])('refuses the body %j in its own words', async (text) => {
    const { status, body } = await hosted(text);
    expect(status).toBe(400);
    expect(body.error.message).toContain('the chat operation expects a JSON object');
  });
});

describe('models of conversations', () => {
  it.each([
    ['lm-35-turbo', 4096],
    ['lm-35-turbo-16k', 16_384],
    ['lm-4', 8192],
    ['lm-4-32k', 32_768],
    ['a-name-of-its-own', 128_000],
  ])('%s has a context window of %i tokens', async (deployment, window) => {
    const ask = (tokens: number, more: object = {}) =>
      // "a" and each " a" are one token; seven frame the message and the reply.
      hosted(asked(`a${' a'.repeat(tokens - 8)}`, more), { target: target(deployment) });
    const full = await ask(window - 5, { max_tokens: 5 });
    expect([full.status, full.body.usage.prompt_tokens]).toEqual([200, window - 5]);
    const over = await ask(window - 4, { max_tokens: 5 });
    expect(over.status).toBe(400);
    expect(over.body.error).toMatchObject({ code: 'context_length_exceeded', param: 'messages' });
    expect(over.body.error.message).toContain(`maximum context length is ${window} tokens`);
    const unlimited = await ask(window);
    expect(unlimited.body.error.message).toContain(`${window} in the messages`);
    const rest = await ask(window - 1);
    expect(rest.body.usage.total_tokens).toBe(window);
  });

  it('do not serve completions, nor the others conversations', async () => {
    const { status, body } = await hosted(OPEN, { target: target('lm-35-turbo-instruct') });
    expect([status, body.error.code]).toEqual([400, 'OperationNotSupported']);
    expect(body.error.message).toContain('The chatCompletion operation does not work');
    const other = await plain({ model: 'text-davinci-003', ...OPEN });
    expect([other.status, other.body.error.message]).toEqual([
      404,
      expect.stringContaining('not a chat model'),
    ]);
    const completion = await call(await started(), { prompt: 'Hi.' }, { deployment: 'lm-4' });
    expect(completion.body.error.code).toBe('OperationNotSupported');
  });

  it('stand behind other names too', async () => {
    await started({ deployments: { mine: 'lm-4' } });
    expect((await hosted(OPEN, { target: target('mine') })).body.model).toBe('lm-4');
  });

  it.each([
    ['2023-09-15-preview', 200],
    ['2025-01-01-preview', 200],
    ['latest', 400],
  ])('know the API version %s: %i', async (version, status) => {
    expect((await hosted(OPEN, { target: target('lm-4', version) })).status).toBe(status);
  });

  it.each([
    ['chat', 200, 404],
    ['completions', 404, 200],
    ['both', 200, 200],
  ] as const)('--operation %s', async (operation, ofChat, ofCompletions) => {
    const running = await started({ operation });
    expect((await hosted(OPEN)).status).toBe(ofChat);
    expect((await call(running, { prompt: 'Hi.' })).status).toBe(ofCompletions);
    const headers = { authorization: `Bearer ${running.keys[0]}` };
    const { body } = await call(running, '', { target: '/v1/models', method: 'GET', headers });
    const ids = body.data.map(({ id }: { id: string }) => id);
    expect(ids.includes('lm-4-32k')).toBe(operation !== 'completions');
    expect(ids.includes('text-davinci-003')).toBe(operation !== 'chat');
  });
});

describe('cached tokens', () => {
  // "a" and each " a" are one token.
  const words = (many: number, word: string) => `${word}${` ${word}`.repeat(many - 1)}`;
  const cachedOf = async (content: string, deployment = 'lm-4') => {
    const { body } = await hosted(asked(content, { max_tokens: 1 }), { target: target(deployment) });
    return body.usage.prompt_tokens_details.cached_tokens;
  };

  it('are the common beginning of earlier requests, from 1,024 on in steps of 128', async () => {
    await started();
    const head = words(1300, 'a');
    // Three tokens of the frame are before the text.
    expect(await cachedOf(`${head} ${words(300, 'b')}`)).toBe(0);
    expect(await cachedOf(`${head} ${words(300, 'c')}`)).toBe(1280);
    expect(await cachedOf(`${head} ${words(300, 'c')}`)).toBe(1536);
    expect(await cachedOf(words(1100, 'a'))).toBe(1024);
    expect(await cachedOf(words(1000, 'a'))).toBe(0);
    expect(await cachedOf(words(1300, 'd'))).toBe(0);
  });

  it('are those of one deployment', async () => {
    await started();
    const text = words(1500, 'a');
    await cachedOf(text);
    expect(await cachedOf(text, 'lm-4-32k')).toBe(0);
  });
});

describe('refusals', () => {
  it('have a text in place of the content, are billed, and come again', async () => {
    await started({ refusalRate: 1 });
    const { status, body } = await hosted(OPEN);
    expect(status).toBe(200);
    const { message, finish_reason } = body.choices[0];
    expect(message).toEqual({
      role: 'assistant',
      content: null,
      refusal: expect.stringContaining("can't help"),
    });
    expect(finish_reason).toBe('stop');
    expect(body.usage.completion_tokens).toBe(loadTokenizer('cl100k_base').count(message.refusal));
    const { body: probed } = await hosted({ ...OPEN, logprobs: true });
    expect(probed.choices[0].logprobs).toMatchObject({ content: null, refusal: expect.any(Array) });
    expect((await call(await started({ refusalRate: 1 }), { prompt: SENTIMENT })).body.choices[0].text).toBe(
      ' positive',
    );
  });

  it('are a share of all answers, decided by seed and text', async () => {
    await started({ refusalRate: 0.3, seed: 3 });
    const refused = async () => {
      const texts = Array.from({ length: 100 }, (_, index) => `Question ${index}: is it good or bad?`);
      const answers = await Promise.all(texts.map((text) => hosted(asked(text))));
      return answers.map(({ body }) => body.choices[0].message.refusal !== null);
    };
    const first = await refused();
    expect(first.filter(Boolean).length).toBeGreaterThan(15);
    expect(first.filter(Boolean).length).toBeLessThan(45);
    expect(await refused()).toEqual(first);
  });
});

describe('reasoning', () => {
  it('is billed with the answer, and shown in the usage', async () => {
    await started({ reasoningTokens: 50 });
    const { body } = await hosted(asked(SENTIMENT, { max_completion_tokens: 60 }));
    expect(body.choices[0].finish_reason).toBe('stop');
    expect(body.usage).toMatchObject({
      completion_tokens: expect.any(Number),
      completion_tokens_details: { reasoning_tokens: 50 },
    });
    expect(body.usage.completion_tokens).toBeGreaterThan(50);
  });

  it.each([50, 30])('leaves nothing of %i tokens', async (max_completion_tokens) => {
    await started({ reasoningTokens: 50 });
    const { body } = await hosted(asked(SENTIMENT, { max_completion_tokens }));
    expect(body.choices[0]).toMatchObject({
      message: { content: '', refusal: null },
      finish_reason: 'length',
    });
    expect(body.usage).toMatchObject({
      completion_tokens: max_completion_tokens,
      completion_tokens_details: { reasoning_tokens: max_completion_tokens },
    });
  });

  it.each([
    ['temperature', 0],
    ['top_p', 0.5],
    ['presence_penalty', 1],
    ['frequency_penalty', 1],
    ['logprobs', true],
    ['logit_bias', { 50: 1 }],
  ])('refuses %s', async (param, value) => {
    await started({ reasoningTokens: 50 });
    const { status, body } = await hosted({ ...OPEN, [param]: value });
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ code: 'unsupported_parameter', param });
  });

  it('says what has taken the place of max_tokens', async () => {
    await started({ reasoningTokens: 1 });
    const { body } = await hosted({ ...OPEN, max_tokens: 5 });
    expect(body.error.message).toBe(
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    );
  });
});

describe('tiers', () => {
  it.each([
    [undefined, 'default'],
    ['auto', 'default'],
    ['default', 'default'],
    ['flex', 'flex'],
    ['priority', 'priority'],
  ])('%s is served as %s', async (service_tier, served) => {
    expect((await hosted({ ...OPEN, service_tier })).body.service_tier).toBe(served);
  });

  it('flex finds no capacity at times, which costs nothing, and later it does', async () => {
    const running = await started({
      flexCapacity: 0.7,
      quota: { requestsPerMinute: 1000, requestWindowSeconds: 60 },
    });
    let refused = 0;
    for (let index = 0; index < 100; index++) {
      const ask = { ...asked(`Question ${index}`, { max_tokens: 1 }), service_tier: 'flex' };
      let answer = await hosted(ask);
      while (answer.status === 429) {
        refused += 1;
        expect(answer.body.error.code).toBe('resource_unavailable');
        expect(answer.headers.get('x-ratelimit-remaining-requests')).toBeNull();
        answer = await hosted(ask);
      }
      expect(answer.body.service_tier).toBe('flex');
      // The refused ones do not count on the quota.
      expect(answer.headers.get('x-ratelimit-remaining-requests')).toBe(String(999 - index));
    }
    expect(refused).toBeGreaterThan(20);
    expect(refused).toBeLessThan(70);
    const stats = running.stats();
    expect(stats).toMatchObject({ answered: 100, by_fault: { 'no-capacity': refused } });
    expect(stats.by_tier).toEqual({
      flex: {
        answered: 100,
        ...stats.usage,
        cached_tokens: 0,
        reasoning_tokens: 0,
      },
    });
    expect(stats.rate_limited).toEqual({ requests: 0, tokens: 0 });
  });

  it('without capacity serves the other tiers', async () => {
    await started({ flexCapacity: 0 });
    expect((await hosted({ ...OPEN, service_tier: 'flex' })).status).toBe(429);
    expect((await hosted(OPEN)).status).toBe(200);
  });
});

describe('what all operations share', () => {
  it('a blocked prompt is refused with the inner error, wherever its text stands', async () => {
    const messages = [{ role: 'system', content: 'I will kill you.' }, user('Translate it to French.')];
    const { status, body } = await hosted({ messages });
    expect([status, body.error.code]).toEqual([400, 'content_filter']);
    expect(body.error.innererror).toMatchObject({
      code: 'ResponsibleAIPolicyViolation',
      content_filter_result: { violence: { filtered: true } },
    });
  });

  it('a blocked completion has no content', async () => {
    await started({ filter: { completions: { rate: 1 } } });
    const { body } = await hosted(OPEN);
    expect(body.choices[0]).toMatchObject({
      message: { role: 'assistant', content: null, refusal: null },
      finish_reason: 'content_filter',
    });
    expect(body.usage.completion_tokens).toBeGreaterThan(0);
  });

  it('the quota of a deployment, in words of its own', async () => {
    await started({ quota: { requestsPerMinute: 1, requestWindowSeconds: 60 } });
    await hosted(OPEN);
    const { status, body } = await hosted(OPEN);
    expect(status).toBe(429);
    expect(body.error.message).toContain('ChatCompletions_Create Operation under API version 2024-10-21');
  });

  it('keys', async () => {
    const { status, body } = await hosted(OPEN, { headers: { 'api-key': 'wrong' } });
    expect([status, body.error.code]).toEqual([401, '401']);
  });

  it.each([
    ['500', 500],
    ['498', 498],
    ['503', 503],
  ])('the fault %s', async (name, expected) => {
    await started({ faults: [{ fault: named(name), rate: 1 }] });
    const response = await fetch(`${emulator?.url}${target('lm-4')}`, {
      method: 'POST',
      headers: { 'api-key': emulator?.keys[0] ?? '' },
      body: JSON.stringify(OPEN),
    });
    expect(response.status).toBe(expected);
  });

  it.each([
    ['no-text', { message: { role: 'assistant', refusal: null } }],
    ['null-text', { message: { role: 'assistant', refusal: null, content: null } }],
    ['number-text', { message: { role: 'assistant', refusal: null, content: 42 } }],
    ['chat', { message: { role: 'assistant', refusal: null, content: 'positive' } }],
    ['text', { text: 'positive' }],
    [
      'parts',
      { message: { role: 'assistant', refusal: null, content: [{ type: 'text', text: 'positive' }] } },
    ],
    ['tool-calls', { message: { content: null, tool_calls: [{}] }, finish_reason: 'tool_calls' }],
    ['no-finish-reason', { finish_reason: null }],
    ['chatty', { message: { content: 'Sure! The sentiment is positive.' } }],
    ['fenced', { message: { content: '```\npositive\n```' } }],
  ])('the form %s', async (name, choice) => {
    await started({ faults: [{ fault: named(name), rate: 1 }] });
    const { status, body } = await hosted(asked(SENTIMENT, { temperature: 0 }));
    expect(status).toBe(200);
    expect(body.choices[0]).toMatchObject(choice);
  });

  it.each([
    ['null-details', { prompt_tokens_details: null, completion_tokens_details: null }, 'default'],
    ['no-tier', { prompt_tokens_details: { cached_tokens: 0 } }, undefined],
  ])('the form %s', async (name, usage, tier) => {
    await started({ faults: [{ fault: named(name), rate: 1 }] });
    const { body } = await hosted(OPEN);
    expect(body.usage).toMatchObject(usage);
    expect(body.service_tier).toBe(tier);
  });

  it('a stream of deltas, whose texts are the answer', async () => {
    const running = await started();
    const ask = { ...OPEN, n: 2, logprobs: true, top_logprobs: 1 };
    const { body } = await hosted(ask);
    const stream_options = { include_usage: true };
    const { bodies, last } = await events(running, { ...ask, stream_options }, target('lm-35-turbo'));
    expect(last).toBe('data: [DONE]');
    const choices = bodies.flatMap(({ choices }) => choices);
    expect(bodies.every(({ object }) => object === 'chat.completion.chunk')).toBe(true);
    expect(choices[0].delta).toMatchObject({ role: 'assistant' });
    for (const index of [0, 1]) {
      const own = choices.filter((choice) => choice.index === index);
      expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe(body.choices[index].message.content);
      const tokens = own.flatMap(({ logprobs }) => logprobs?.content ?? []);
      expect(tokens).toEqual(body.choices[index].logprobs.content);
      expect(own.at(-1)).toMatchObject({ delta: {}, finish_reason: 'stop' });
    }
    expect(bodies.at(-1)).toMatchObject({ choices: [], usage: body.usage, service_tier: 'default' });
  });

  it('a stream of a refusal', async () => {
    const running = await started({ refusalRate: 1 });
    const { bodies } = await events(running, OPEN, target('lm-35-turbo'));
    const deltas = bodies.flatMap(({ choices }) => choices).map(({ delta }) => delta);
    expect(deltas.map(({ refusal }) => refusal ?? '').join('')).toContain("can't help");
    expect(deltas.some((delta) => 'content' in delta)).toBe(false);
  });
});
