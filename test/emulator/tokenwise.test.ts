import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { loadTokenizer } from '../../src/prompt/tokens.js';
import { call, events, SENTIMENT } from './call.js';

let emulator: Emulator;
beforeAll(async () => {
  emulator = await startEmulator();
});
afterAll(() => emulator.close());

const OPEN = { prompt: 'Tell me about bridges.', max_tokens: 30, temperature: 0 };
const EMOJI = { prompt: 'Summarize the text.\nText: 😀🦜🧩🪁🪂🛼\nSummary:', max_tokens: 8 };

describe('echo', () => {
  it('puts each prompt before each of its choices, and is not billed', async () => {
    const prompt = [SENTIMENT, 'Tell me about bridges.'];
    const ask = { prompt, n: 2, max_tokens: 4, temperature: 0 };
    const [plain, echoed] = [await call(emulator, ask), await call(emulator, { ...ask, echo: true })];
    for (const [index, { text }] of echoed.body.choices.entries()) {
      expect(text).toBe(prompt[index < 2 ? 0 : 1] + plain.body.choices[index].text);
    }
    expect(echoed.body.usage).toEqual(plain.body.usage);
  });

  it('is all there is with max_tokens 0', async () => {
    const { body } = await call(emulator, { prompt: SENTIMENT, echo: true, max_tokens: 0, logprobs: 1 });
    expect(body.choices[0].text).toBe(SENTIMENT);
    expect(body.choices[0].logprobs.tokens.join('')).toBe(SENTIMENT);
  });
});

describe('logprobs', () => {
  it.each([OPEN, EMOJI])('are parallel arrays, one entry a token: %j', async (ask) => {
    const { body } = await call(emulator, { ...ask, logprobs: 2 });
    const { text, logprobs } = body.choices[0];
    expect(logprobs.tokens.join('')).toBe(text);
    expect(logprobs.tokens).toHaveLength(loadTokenizer('cl100k_base').count(text));
    // Offsets count characters from the beginning of the prompt, returned or not.
    let offset = [...ask.prompt].length;
    for (const [index, token] of logprobs.tokens.entries()) {
      expect(logprobs.text_offset[index]).toBe(offset);
      offset += [...token].length;
      expect(logprobs.top_logprobs[index][token]).toBe(logprobs.token_logprobs[index]);
    }
    for (const list of [logprobs.token_logprobs, logprobs.top_logprobs, logprobs.text_offset]) {
      expect(list).toHaveLength(logprobs.tokens.length);
    }
  });

  it('are probabilities, the listed ones together at most 1, the token the likeliest at temperature 0', async () => {
    const { body } = await call(emulator, { ...OPEN, logprobs: 5 });
    const { token_logprobs, top_logprobs } = body.choices[0].logprobs;
    for (const [index, top] of top_logprobs.entries()) {
      const values = Object.values<number>(top);
      expect(values).toHaveLength(5);
      expect(Math.max(...values)).toBe(token_logprobs[index]);
      expect(values.reduce((sum, value) => sum + Math.exp(value), 0)).toBeLessThanOrEqual(1 + 1e-6);
    }
  });

  it('are null for the first token of an echoed prompt', async () => {
    const { body } = await call(emulator, { ...OPEN, echo: true, logprobs: 1 });
    const { tokens, token_logprobs, top_logprobs, text_offset } = body.choices[0].logprobs;
    expect(tokens.join('')).toBe(body.choices[0].text);
    expect([token_logprobs[0], top_logprobs[0], text_offset[0]]).toEqual([null, null, 0]);
    expect(token_logprobs.slice(1).every((value: unknown) => typeof value === 'number')).toBe(true);
  });

  it('change nothing in the answer, and are the same again', async () => {
    const ask = { ...OPEN, temperature: 1 };
    const [plain, once, again] = await Promise.all([
      call(emulator, ask),
      call(emulator, { ...ask, logprobs: 3 }),
      call(emulator, { ...ask, logprobs: 3 }),
    ]);
    expect(once.body.choices[0].text).toBe(plain.body.choices[0].text);
    expect(again.body.choices).toEqual(once.body.choices);
  });
});

describe('suffix', () => {
  it('is read, and not returned', async () => {
    const plain = await call(emulator, OPEN);
    const { body } = await call(emulator, { ...OPEN, suffix: ' And so it ends.' });
    expect(body.choices[0].text).not.toContain('And so it ends');
    const { count } = loadTokenizer('cl100k_base');
    expect(body.usage.prompt_tokens).toBe(plain.body.usage.prompt_tokens + count(' And so it ends.'));
  });
});

describe('a stream', () => {
  it('is the answer in pieces, and ends in [DONE]', async () => {
    const ask = { prompt: [SENTIMENT, EMOJI.prompt], max_tokens: 8, n: 2, temperature: 0.5 };
    const { body } = await call(emulator, ask);
    const { type, bodies, last } = await events(emulator, ask);
    expect([type, last]).toEqual(['text/event-stream', 'data: [DONE]']);
    for (const { index, text, finish_reason } of body.choices) {
      const pieces = bodies.flatMap(({ choices }) => choices).filter((choice) => choice.index === index);
      expect(pieces.map((piece) => piece.text).join('')).toBe(text);
      expect(pieces.at(-1)).toMatchObject({ text: '', finish_reason });
      expect(pieces.slice(0, -1).every((piece) => piece.finish_reason === null)).toBe(true);
    }
    expect(new Set(bodies.map(({ id }) => id)).size).toBe(1);
    expect(bodies.every((chunk) => !('usage' in chunk))).toBe(true);
  });

  it('begins with the filter results of the prompts, and ends each choice with its own', async () => {
    const { bodies } = await events(emulator, OPEN);
    expect(bodies[0]).toMatchObject({ choices: [], prompt_filter_results: [{ prompt_index: 0 }] });
    expect(bodies.at(-1).choices[0].content_filter_results).toHaveProperty('hate.severity', 'safe');
    const older = '/openai/deployments/text-davinci-003/completions?api-version=2022-12-01';
    expect(JSON.stringify((await events(emulator, OPEN, older)).bodies)).not.toContain('filter');
  });

  it('carries the log probabilities of each token', async () => {
    const { body } = await call(emulator, { ...OPEN, logprobs: 1 });
    const { bodies } = await events(emulator, { ...OPEN, logprobs: 1 });
    const parts = bodies.flatMap(({ choices }) =>
      choices.map((choice: { logprobs: unknown }) => choice.logprobs),
    );
    const joined = (member: string) => parts.flatMap((part) => part?.[member] ?? []);
    for (const [member, list] of Object.entries(body.choices[0].logprobs))
      expect(joined(member)).toEqual(list);
  });
});
