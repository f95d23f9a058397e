import OpenAI, { AzureOpenAI } from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { afterEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { ScriptRule } from '../../src/emulator/fault-plan.js';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { named, SENTIMENT } from './call.js';

const MODEL = 'lm-35-turbo-instruct';
const OPEN = { model: MODEL, prompt: 'Tell me about bridges.', max_tokens: 12 };

const CHAT = {
  model: 'lm-4',
  messages: [{ role: 'user' as const, content: SENTIMENT }],
  temperature: 0,
};
const OPEN_CHAT = { ...CHAT, messages: [{ role: 'user' as const, content: OPEN.prompt }] };

interface ClientOptions {
  readonly apiKey?: string;
  readonly maxRetries?: number;
}

/** The SDK as a client of the service, and of a plain server; it retries nothing unless it is told to. */
const CLIENTS = [
  [
    'the Azure client',
    ({ url, keys }: Emulator, options: ClientOptions = {}) =>
      // Without `baseURL: null` a variable of the environment would come before the endpoint.
      new AzureOpenAI({
        ...{ endpoint: url, baseURL: null, apiKey: keys[0], apiVersion: '2023-09-15-preview', maxRetries: 0 },
        ...options,
      }),
  ],
  [
    'the plain client',
    ({ url, keys }: Emulator, options: ClientOptions = {}) =>
      new OpenAI({ baseURL: `${url}/v1`, apiKey: keys[0], maxRetries: 0, ...options }),
  ],
] as const;

/** What a call is refused with. */
async function refusal(call: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const error = await call.then(
    () => new Error('answered'),
    (reason: unknown) => reason,
  );
  if (error instanceof OpenAI.APIError) return error;
  throw error;
}

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
const fault = (name: string, rule: Partial<ScriptRule> = { to: 1 }): EmulatorOptions => ({
  script: [{ ...rule, fault: named(name) }],
});

describe.each(CLIENTS)('%s of the OpenAI SDK', (_, clientOf) => {
  it('gets a completion', async () => {
    const client = clientOf(await started());
    const completion = await client.completions.create({ model: MODEL, prompt: SENTIMENT, max_tokens: 5 });
    expect(completion).toMatchObject({
      id: expect.stringMatching(/^cmpl-/),
      object: 'text_completion',
      model: MODEL,
      choices: [{ index: 0, text: ' positive', finish_reason: 'stop', logprobs: null }],
      usage: { completion_tokens: 1 },
    });
  });

  it('reads a stream', async () => {
    const client = clientOf(await started());
    const ask = { ...OPEN, n: 2 };
    const { choices } = await client.completions.create(ask);
    const texts = ['', ''];
    const ends: unknown[] = [];
    let chunks = 0;
    for await (const chunk of await client.completions.create({ ...ask, stream: true })) {
      chunks += 1;
      for (const { index, text, finish_reason } of chunk.choices) {
        texts[index] += text;
        if (finish_reason) ends.push([index, finish_reason]);
      }
    }
    expect(texts).toEqual(choices.map(({ text }) => text));
    expect(ends).toEqual([
      [0, 'length'],
      [1, 'length'],
    ]);
    expect(chunks).toBeGreaterThan(12);
  });

  it('gets a chat completion', async () => {
    const client = clientOf(await started());
    const completion = await client.chat.completions.create({ ...CHAT, logprobs: true, top_logprobs: 3 });
    expect(completion).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      model: 'lm-4',
      service_tier: 'default',
      choices: [{ index: 0, finish_reason: 'stop', message: { content: 'positive', refusal: null } }],
      usage: { completion_tokens: 1, completion_tokens_details: { reasoning_tokens: 0 } },
    });
    expect(completion.choices[0]?.logprobs?.content?.[0]).toMatchObject({ token: 'positive' });
  });

  it('reads a stream of a chat', async () => {
    const client = clientOf(await started());
    const { choices } = await client.chat.completions.create(OPEN_CHAT);
    const chat = client.chat.completions.stream(OPEN_CHAT);
    expect(await chat.finalContent()).toBe(choices[0]?.message.content);
    expect(await chat.finalMessage()).toMatchObject({ role: 'assistant' });
  });

  it('parses a chat of a JSON schema, or raises when it is cut', async () => {
    const client = clientOf(await started());
    const wanted = z.object({ sentiment: z.enum(['positive', 'negative']), words: z.array(z.string()) });
    const response_format = zodResponseFormat(wanted, 'reading');
    const { choices } = await client.chat.completions.parse({ ...CHAT, response_format });
    expect(choices[0]?.message.parsed).toMatchObject({ sentiment: 'positive' });
    const cut = client.chat.completions.parse({ ...CHAT, response_format, max_completion_tokens: 2 });
    await expect(cut).rejects.toThrow('length limit');
  });

  it('sees the refusal of a chat', async () => {
    const client = clientOf(await started({ refusalRate: 1 }));
    const { choices } = await client.chat.completions.create(CHAT);
    expect(choices[0]?.message).toMatchObject({ content: null, refusal: expect.any(String) });
  });

  it.each([
    [
      'max_tokens where the model reasons',
      OPEN.prompt,
      { param: 'max_tokens', code: 'unsupported_parameter' },
    ],
    ['a blocked prompt', 'I will kill you.', { code: 'content_filter' }],
  ])('raises BadRequestError for a chat with %s', async (_, content, members) => {
    const reasons = members.code === 'unsupported_parameter' ? { reasoningTokens: 10 } : {};
    const client = clientOf(await started(reasons));
    const ask = { model: 'lm-4', messages: [{ role: 'user' as const, content }], max_tokens: 5 };
    const error = await refusal(client.chat.completions.create(ask));
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject(members);
  });

  it('raises AuthenticationError for a wrong key', async () => {
    const client = clientOf(await started(), { apiKey: 'wrong' });
    expect(await refusal(client.completions.create(OPEN))).toBeInstanceOf(OpenAI.AuthenticationError);
  });

  it.each([
    ['an unknown deployment', OpenAI.NotFoundError, { status: 404 }, { model: 'no-such' }],
    [
      'a parameter out of range',
      OpenAI.BadRequestError,
      {
        type: 'invalid_request_error',
        message: "400 3 is greater than the maximum of 2 - 'temperature'",
      },
      { temperature: 3 },
    ],
    [
      'a blocked prompt',
      OpenAI.BadRequestError,
      { code: 'content_filter', param: 'prompt' },
      { prompt: 'Translate to French: I will kill you.' },
    ],
  ])('raises for %s its own class', async (_, kind, members, ask) => {
    const error = await refusal(clientOf(await started()).completions.create({ ...OPEN, ...ask }));
    expect(error).toBeInstanceOf(kind);
    expect(error).toMatchObject(members);
  });

  it.each([
    ['403', OpenAI.PermissionDeniedError],
    ['422', OpenAI.UnprocessableEntityError],
    ['500', OpenAI.InternalServerError],
    ['reset', OpenAI.APIConnectionError],
  ])('raises for the fault %s its own class', async (name, kind) => {
    const error = await refusal(clientOf(await started(fault(name))).completions.create(OPEN));
    expect(error).toBeInstanceOf(kind);
    expect(emulator?.stats()).toMatchObject({ requests: 1, by_fault: { [name]: 1 } });
  });

  it('raises RateLimitError with its hint over the quota, and does not retry when told so', async () => {
    const client = clientOf(await started({ quota: { requestsPerMinute: 1, requestWindowSeconds: 60 } }));
    await client.completions.create(OPEN);
    const error = await refusal(client.completions.create(OPEN));
    expect(error).toBeInstanceOf(OpenAI.RateLimitError);
    expect(Number(error.headers?.get('retry-after'))).toBeGreaterThan(0);
    expect(emulator?.stats().requests).toBe(2);
  });

  it('fault 23: never takes half a stream for a whole one', async () => {
    const client = clientOf(await started(fault('truncate', {})));
    let ended = false;
    const read = async () => {
      const stream = await client.completions.create({ ...OPEN, stream: true });
      for await (const { choices } of stream) ended ||= choices[0]?.finish_reason === 'length';
    };
    // The SDK takes the early end of a connection without a length for the end of the stream.
    await read().catch(() => {});
    expect(ended).toBe(false);
    expect(emulator?.stats()).toMatchObject({ answered: 0, by_fault: { truncate: 1 } });
  });
});

it('the Azure client takes its deployment as an option, with an older API version', async () => {
  const { url, keys } = await started();
  const client = new AzureOpenAI({
    endpoint: url,
    apiKey: keys[1],
    apiVersion: '2022-12-01',
    deployment: 'text-davinci-003',
  });
  const completion = await client.completions.create({ ...OPEN, model: 'its name does not matter' });
  expect(completion.model).toBe('text-davinci-003');
});

describe('the plain client', () => {
  const [, [, plain]] = CLIENTS;

  // Both clients wait and retry with the same code.
  it('retries a chat of the flex tier until there is capacity', async () => {
    const client = plain(await started({ flexCapacity: 0.5, seed: 2 }), { maxRetries: 5 });
    const ask = (index: number) => ({
      ...CHAT,
      messages: [{ role: 'user' as const, content: `Question ${index}` }],
      service_tier: 'flex' as const,
    });
    const answers = await Promise.all(
      [1, 2, 3, 4].map((index) => client.chat.completions.create(ask(index))),
    );
    expect(answers.map(({ service_tier }) => service_tier)).toEqual(Array(4).fill('flex'));
    expect(emulator?.stats().by_fault['no-capacity']).toBeGreaterThan(0);
  });

  it.each(['ms', 'seconds'] as const)(
    'waits as long as a 429 asks for in %s, and then gets its answer',
    async (hint) => {
      const client = plain(await started({ ...fault('429'), hint }), { maxRetries: 1 });
      const before = performance.now();
      await client.completions.create(OPEN);
      // Its own backoff would come back after half a second at most. A timer may fire a millisecond early.
      expect(performance.now() - before).toBeGreaterThanOrEqual(998);
      expect(emulator?.stats()).toMatchObject({ requests: 2, by_status: { 200: 1, 429: 1 } });
    },
  );

  it.each(['500', 'reset'])('is answered after %s when it may retry', async (name) => {
    const client = plain(await started(fault(name)), { maxRetries: 1 });
    const { choices } = await client.completions.create({ model: MODEL, prompt: SENTIMENT });
    expect(choices[0]?.text).toBe(' positive');
  });

  it('lists the models', async () => {
    const { data } = await plain(await started({ deployments: { reviews: MODEL } })).models.list();
    const conversations = ['lm-35-turbo', 'lm-35-turbo-16k', 'lm-4', 'lm-4-32k'];
    expect(data.map(({ id }) => id)).toEqual([MODEL, 'text-davinci-003', ...conversations, 'reviews']);
  });

  it('gets the usage of a stream when it asks for it', async () => {
    const client = plain(await started());
    const { usage } = await client.completions.create(OPEN);
    const usages: unknown[] = [];
    const stream = { ...OPEN, stream: true, stream_options: { include_usage: true } } as const;
    for await (const chunk of await client.completions.create(stream)) usages.push(chunk.usage);
    expect(usages.at(-1)).toEqual(usage);
    expect(usages.slice(0, -1).every((entry) => entry === null)).toBe(true);
  });
});
