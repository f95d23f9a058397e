import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isBlocked, judge } from '../../src/emulator/filter.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { call, SENTIMENT } from './call.js';

let emulator: Emulator;
beforeAll(async () => {
  emulator = await startEmulator();
});
afterAll(() => emulator.close());

const THREAT = 'Translate to French: I will kill you.';

describe('the content filter', () => {
  it('blocks a prompt with 400 and says why', async () => {
    const { status, body } = await call(emulator, { prompt: THREAT });
    expect(status).toBe(400);
    expect(body).not.toHaveProperty('choices');
    expect(body.error).toMatchObject({
      code: 'content_filter',
      param: 'prompt',
      innererror: {
        code: 'ResponsibleAIPolicyViolation',
        content_filter_result: {
          violence: { filtered: true, severity: 'medium' },
          hate: { filtered: false, severity: 'safe' },
        },
      },
    });
  });

  it('blocks with the older body for 2022-12-01', async () => {
    const { status, body } = await call(emulator, { prompt: THREAT }, { version: '2022-12-01' });
    expect(status).toBe(400);
    expect(body.error.code).toBe('content_filter');
    expect(body.error).not.toHaveProperty('innererror');
  });

  it('blocks a request when one of its prompts is blocked', async () => {
    expect((await call(emulator, { prompt: ['Hello.', THREAT] })).body.error.code).toBe('content_filter');
  });

  it('cuts a completion that it blocks, which is billed all the same', async () => {
    const ask = { prompt: 'Describe a boxing match in graphic detail.', max_tokens: 40 };
    const { status, body } = await call(emulator, ask);
    expect(status).toBe(200);
    expect(body.prompt_filter_results[0].content_filter_results.violence.filtered).toBe(false);
    expect(body.choices[0]).toMatchObject({
      finish_reason: 'content_filter',
      content_filter_results: { violence: { filtered: true, severity: 'medium' } },
    });
    expect(body.usage.completion_tokens).toBeGreaterThan(0);

    const older = await call(emulator, ask, { version: '2022-12-01' });
    expect(older.body.choices[0].finish_reason).toBe('content_filter');
    expect(older.body.choices[0]).not.toHaveProperty('content_filter_results');
  });

  it('reports mild words as low and lets them pass', async () => {
    const { status, body } = await call(emulator, { prompt: 'Review: silky and sexy and comfortable' });
    expect(status).toBe(200);
    expect(body.prompt_filter_results[0].content_filter_results.sexual).toEqual({
      filtered: false,
      severity: 'low',
    });
  });

  it.each([
    ['how to make a bomb', 'violence', 'high'],
    ['I hate all immigrants', 'hate', 'medium'],
    ['I hate all these dresses, this one is to die for', 'hate', 'safe'],
    ['killer heels, I would kill for these', 'violence', 'safe'],
    ['what is the best way to commit suicide', 'self_harm', 'high'],
    ['suicide prevention week', 'self_harm', 'low'],
  ] as const)('takes %j in %s for %s', (text, category, severity) => {
    expect(judge(text)[category].severity).toBe(severity);
  });

  it('leaves half of a blocked text, none of it, or no text at all', async () => {
    const left = new Set<string>();
    for (let round = 0; round < 20; round++) {
      const prompt = `Describe boxing match ${round} in graphic detail.`;
      const { body } = await call(emulator, { prompt, max_tokens: 20 });
      expect(body.choices[0].finish_reason).toBe('content_filter');
      const { text } = body.choices[0];
      left.add(text === undefined ? 'missing' : text === '' ? 'empty' : 'partial');
    }
    expect(left).toEqual(new Set(['missing', 'empty', 'partial']));
  });
});

describe('the threshold of a side', () => {
  const MILD = 'Review: silky and sexy and comfortable';

  it.each([
    ['low', MILD, 400],
    ['low', SENTIMENT, 200],
    ['medium', MILD, 200],
    ['medium', THREAT, 400],
    ['high', THREAT, 200],
    ['high', 'how to make a bomb', 400],
    ['off', 'how to make a bomb', 200],
  ] as const)('%s answers %j with %i', async (threshold, prompt, status) => {
    const service = await startEmulator({ filter: { prompts: { threshold } } });
    expect((await call(service, { prompt })).status).toBe(status);
    await service.close();
  });

  it('is one for prompts and one for completions', async () => {
    const service = await startEmulator({ filter: { completions: { threshold: 'off' } } });
    const { body } = await call(service, { prompt: 'Describe a boxing match in graphic detail.' });
    expect(body.choices[0]).toMatchObject({
      finish_reason: 'length',
      content_filter_results: { violence: { filtered: false, severity: 'medium' } },
    });
    expect((await call(service, { prompt: THREAT })).status).toBe(400);
    await service.close();
  });
});

describe('the rate of a side', () => {
  const PROMPTS = Array.from({ length: 2000 }, (_, i) => `Review ${i}: fine.\nSentiment:`);
  const blocked = (seed: number) => PROMPTS.filter((prompt) => isBlocked(judge(prompt, RATE, seed)));
  const RATE = { threshold: 'medium', rate: 0.03 } as const;

  it('blocks its share, in every category, always the same prompts', () => {
    const first = blocked(1);
    expect(first.length).toBeGreaterThan(35);
    expect(first.length).toBeLessThan(90);
    expect(blocked(1)).toEqual(first);
    expect(blocked(2)).not.toEqual(first);
    const categories = first.flatMap((prompt) =>
      Object.entries(judge(prompt, RATE, 1)).flatMap(([category, { filtered }]) =>
        filtered ? category : [],
      ),
    );
    expect(new Set(categories).size).toBe(4);
  });

  it('cuts completions as well', async () => {
    const service = await startEmulator({ filter: { completions: { rate: 1 } } });
    const { body } = await call(service, { prompt: SENTIMENT });
    expect(body.choices[0].finish_reason).toBe('content_filter');
    expect(service.stats().filtered).toEqual({ prompts: 0, completions: 1 });
    await service.close();
  });
});
