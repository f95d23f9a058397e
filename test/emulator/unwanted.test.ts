import { afterEach, describe, expect, it } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import type { Unwanted } from '../../src/emulator/answers/unwanted.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { loadTokenizer } from '../../src/prompt/tokens.js';
import { said } from '../answer/said.js';
import { call, events, named, SENTIMENT } from './call.js';

let emulator: Emulator | null = null;
afterEach(async () => {
  await emulator?.close();
  emulator = null;
});

/** An emulator that answers every request in one way. */
async function answering(way: Unwanted): Promise<Emulator> {
  emulator = await startEmulator({ faults: [{ fault: named(way), rate: 1 }] });
  return emulator;
}

const JSON_PROMPT =
  'Answer with JSON with the keys order_number and email.\nText: A-10233 from anna@example.org\nJSON:';
const OBJECT = '{"order_number": "A-10233", "email": "anna@example.org"}';

const labels = answerReader({ kind: 'labels', labels: ['positive', 'negative', 'neutral'] });
const json = answerReader({
  kind: 'json',
  schema: {
    type: 'object',
    required: ['order_number', 'email'],
    properties: { order_number: { type: 'string' }, email: { type: 'string' } },
  },
});

/** The choice of one prompt. */
async function choiceOf(service: Emulator, prompt: string, more: object = {}) {
  const { status, body } = await call(service, { prompt, max_tokens: 60, temperature: 0, ...more });
  expect(status).toBe(200);
  return { ...body.choices[0], usage: body.usage };
}

describe('an answer that nobody asked for', () => {
  it('invalid: is none of the labels, and no JSON', async () => {
    const service = await answering('invalid');
    const texts = new Set<string>();
    for (let i = 0; i < 12; i++) {
      const label = await choiceOf(service, SENTIMENT.replace('love', `love ${i}`));
      expect(labels.read(said(label.text)).problem?.code, label.text).toBe('answer_not_a_label');
      const object = await choiceOf(service, JSON_PROMPT.replace('from', `${i}`));
      expect(json.read(said(object.text)).problem?.code, object.text).toBe('answer_not_json');
      texts.add(label.text);
    }
    expect(texts.size).toBeGreaterThan(2);
  });

  it('invalid: has no label of the prompt in it, whatever these are', async () => {
    const service = await answering('invalid');
    for (const label of ['N/A', 'not sure', 'hard to say', 'cannot tell']) {
      for (let i = 0; i < 6; i++) {
        const prompt = `Classify as good, bad or ${label}.\nText: text ${i}\nLabel:`;
        expect((await choiceOf(service, prompt)).text.toLowerCase()).not.toContain(label.toLowerCase());
      }
    }
  });

  it('fenced: stands in a code fence, and can be read', async () => {
    const service = await answering('fenced');
    const [label, object] = [await choiceOf(service, SENTIMENT), await choiceOf(service, JSON_PROMPT)];
    expect(label.text).toBe(' ```\npositive\n```');
    expect(object.text).toBe(` \`\`\`json\n${OBJECT}\n\`\`\``);
    expect([labels.read(said(label.text)).problem, json.read(said(object.text)).problem]).toEqual([
      null,
      null,
    ]);
  });

  it('chatty: stands in a sentence, and can be read', async () => {
    const service = await answering('chatty');
    const [label, object] = [await choiceOf(service, SENTIMENT), await choiceOf(service, JSON_PROMPT)];
    expect(label.text).toBe(' Sure! The sentiment is positive.');
    expect(object.text).toBe(
      ` Sure! Here is the JSON:\n\n${OBJECT}\n\nLet me know if you need anything else.`,
    );
    expect([labels.read(said(label.text)).problem, json.read(said(object.text)).problem]).toEqual([
      null,
      null,
    ]);
    // Talk takes up the room of the answer.
    const short = await choiceOf(service, SENTIMENT, { max_tokens: 5 });
    expect(short).toMatchObject({ text: ' Sure! The sentiment is', finish_reason: 'length' });
  });

  it('broken: is JSON but for a comma, and a label as it should be', async () => {
    const service = await answering('broken');
    const { text, finish_reason } = await choiceOf(service, JSON_PROMPT);
    expect([text, finish_reason]).toEqual([` ${OBJECT.replace('}', ',}')}`, 'stop']);
    expect(json.read(said(text)).problem?.code).toBe('answer_not_json');
    expect((await choiceOf(service, SENTIMENT)).text).toBe(' positive');
  });

  it('cut: is the first half of its tokens, and ends with `length`', async () => {
    const service = await answering('cut');
    const { text, finish_reason, usage } = await choiceOf(service, JSON_PROMPT);
    const { count } = loadTokenizer('cl100k_base');
    expect(` ${OBJECT}`.startsWith(text)).toBe(true);
    expect(finish_reason).toBe('length');
    expect(usage.completion_tokens).toBe(Math.floor(count(` ${OBJECT}`) / 2));
    expect(json.read(said(text)).problem?.code).toBe('answer_not_json');
    expect(await choiceOf(service, SENTIMENT)).toMatchObject({ text: '', finish_reason: 'length' });
  });
});

describe('such answers', () => {
  it('are billed and tokenised as they are, and come in streams', async () => {
    const service = await answering('chatty');
    const { text, logprobs, usage } = await choiceOf(service, SENTIMENT, { logprobs: 2 });
    expect(usage.completion_tokens).toBe(loadTokenizer('cl100k_base').count(text));
    expect(logprobs.tokens.join('')).toBe(text);
    // The label is as likely as it is without the words around it.
    const at = logprobs.tokens.indexOf(' positive');
    expect(Math.exp(logprobs.token_logprobs[at])).toBeCloseTo(0.65, 1);
    expect(Object.keys(logprobs.top_logprobs[at])).toEqual([' positive', ' neutral']);
    const { bodies } = await events(service, { prompt: SENTIMENT, max_tokens: 60, temperature: 0 });
    const streamed = bodies.flatMap(({ choices }) => choices.map((choice: { text: string }) => choice.text));
    expect(streamed.join('')).toBe(text);
    expect(service.stats().by_fault).toEqual({ chatty: 2 });
  });
});
