import { AzureOpenAI } from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { SENTIMENT } from './call.js';
import { azure, CLIENTS, MODEL, OPEN, plain, refusal, THREAT } from './sdk.js';

let emulator: Emulator | null = null;
afterEach(async () => {
  await emulator?.close();
  emulator = null;
});

async function started(options: EmulatorOptions = {}): Promise<Emulator> {
  emulator = await startEmulator(options);
  return emulator;
}

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

  it('gets the choices of several prompts', async () => {
    const client = clientOf(await started());
    const prompt = [SENTIMENT, SENTIMENT.replace('love', 'hate')];
    const { choices } = await client.completions.create({ model: MODEL, prompt, n: 2, temperature: 0 });
    expect(choices.map(({ index, text }) => [index, text])).toEqual([
      [0, ' positive'],
      [1, ' positive'],
      [2, ' negative'],
      [3, ' negative'],
    ]);
  });

  it('reads a stream that is the completion, piece by piece', async () => {
    const client = clientOf(await started());
    const ask = { ...OPEN, model: MODEL, n: 2 };
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

  it('gets log probabilities', async () => {
    const client = clientOf(await started());
    const { choices } = await client.completions.create({ ...OPEN, model: MODEL, logprobs: 3, echo: true });
    const { tokens = [], token_logprobs, top_logprobs, text_offset } = choices[0]?.logprobs ?? {};
    expect(tokens.join('')).toBe(choices[0]?.text);
    for (const list of [token_logprobs, top_logprobs, text_offset]) expect(list).toHaveLength(tokens.length);
    expect(token_logprobs?.[0]).toBeNull();
  });
});

describe('the Azure client alone', () => {
  it('takes its deployment as an option, with an older API version', async () => {
    const { url, keys } = await started();
    const client = new AzureOpenAI({
      endpoint: url,
      apiKey: keys[1],
      apiVersion: '2022-12-01',
      deployment: 'text-davinci-003',
    });
    const completion = await client.completions.create({
      model: 'its name does not matter',
      prompt: SENTIMENT,
    });
    expect(completion.model).toBe('text-davinci-003');
    expect(completion).not.toHaveProperty('prompt_filter_results');
  });

  it('reads what the content filter found', async () => {
    const client = azure(await started());
    expect(await client.completions.create({ model: MODEL, prompt: SENTIMENT })).toHaveProperty(
      'prompt_filter_results.0.content_filter_results.hate.severity',
      'safe',
    );
    const error = await refusal(client.completions.create({ model: MODEL, prompt: THREAT }));
    expect(error.error).toHaveProperty('innererror.content_filter_result.violence', {
      filtered: true,
      severity: 'medium',
    });
  });

  it('is refused by conversation models and unknown API versions', async () => {
    const service = await started();
    const conversation = azure(service).completions.create({ ...OPEN, model: 'lm-4' });
    expect(await refusal(conversation)).toMatchObject({ status: 400, code: 'OperationNotSupported' });
    const version = azure(service, { apiVersion: '2019-01-01' });
    expect(await refusal(version.completions.create({ ...OPEN, model: MODEL }))).toMatchObject({
      status: 400,
    });
  });
});

describe('the plain client alone', () => {
  it('lists the models', async () => {
    const { data } = await plain(await started({ deployments: { reviews: MODEL } })).models.list();
    expect(data.map(({ id }) => id)).toEqual([MODEL, 'text-davinci-003', 'reviews']);
  });

  it('gets the usage of a stream when it asks for it', async () => {
    const client = plain(await started());
    const ask = { ...OPEN, model: MODEL } as const;
    const { usage } = await client.completions.create(ask);
    const usages: unknown[] = [];
    const stream = { ...ask, stream: true, stream_options: { include_usage: true } } as const;
    for await (const chunk of await client.completions.create(stream)) usages.push(chunk.usage);
    expect(usages.at(-1)).toEqual(usage);
    expect(usages.slice(0, -1).every((entry) => entry === null)).toBe(true);
  });

  it('is refused by conversation models', async () => {
    const error = await refusal(plain(await started()).completions.create({ ...OPEN, model: 'lm-4' }));
    expect([error.status, error.param]).toEqual([404, 'model']);
  });
});
