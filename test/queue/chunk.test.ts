import { expect, it } from 'vitest';
import { type Asks, type Chunk, decodeChunk, encodeChunk } from '../../src/queue/chunk.js';

const chunk = (model?: string, asks: Asks | null = null): Chunk => ({
  run: '20261121-020000-aaaaaa',
  execution: 2,
  first: 21,
  endpoint: {
    deployment: 'd',
    ...(model !== undefined && { model }),
    apiVersion: '2022-12-01',
    style: 'openai',
    timeoutMs: 5_000,
  },
  promptsPerRequest: 1,
  parameters: { max_tokens: 5 },
  budget: { tokens: 10, cost: null, prices: null, orphaned: 1 },
  hold: model !== undefined,
  asks,
  rows: [
    { row: 21, prompt: 'one \0', parameters: null },
    { row: 22, prompt: 'two', parameters: { temperature: 0 } },
  ],
});

/** What version 0.1.0 writes of these chunks, and a fleet of it reads. */
const entry = (model: string, hold: string) => ({
  v: 1,
  run: '20261121-020000-aaaaaa',
  x: 2,
  first: 21,
  body:
    `{"deployment":"d",${model}"apiVersion":"2022-12-01","style":"openai","timeoutMs":5000,"promptsPerRequest":1,` +
    '"parameters":{"max_tokens":5},"budget":{"tokens":10,"cost":null,"prices":null,"unheard":1},' +
    String.raw`${hold}"rows":[[21,"one \u0000",null],[22,"two",{"temperature":0}]]}`,
});

it.each([
  ['without a model', chunk(), entry('', '')],
  ['with a model, whose rows are called once', chunk('m'), entry('"model":"m",', '"hold":true,')],
])('a queue entry %s is what versions of before write and read', (_, ours, theirs) => {
  expect(encodeChunk(ours)).toEqual(theirs);
  expect(decodeChunk(theirs)).toEqual(ours);
});

it('a queue entry has what is to be done about answers that do not fit', () => {
  const asks: Asks = {
    answer: { kind: 'labels', labels: ['a', '__proto__'] },
    ...{ again: 2, prompt: '{{ prompt }} again' },
    deployment: 'larger',
  };
  const asked = chunk('m', asks);
  expect(decodeChunk(JSON.parse(JSON.stringify(encodeChunk(asked))))).toEqual(asked);
});

it('fault 58: a queue entry whose answers are to be sent elsewhere is none', () => {
  const asks = {
    answer: { kind: 'text' },
    again: 1,
    prompt: null,
    deployment: null,
    url: 'http://elsewhere',
  };
  const whole = encodeChunk(chunk('m', asks as Asks));
  expect(decodeChunk(whole)).toBe(null);
});

it("fault 58: of a row's parameters only what was checked is taken", () => {
  const whole = encodeChunk(chunk());
  const body = whole.body.replace(
    '{"temperature":0}',
    '{"logit_bias":{"5":1,"__proto__":{"any":["thing"]}}}',
  );
  expect(body).not.toBe(whole.body);
  expect(JSON.stringify(decodeChunk({ ...whole, body })?.rows[1]?.parameters)).toBe('{"logit_bias":{"5":1}}');
});

it('asks for several choices for all of its rows, and a row for none of its own', () => {
  const votes = { ...chunk(), parameters: { max_tokens: 5, n: 5 } };
  expect(decodeChunk(encodeChunk(votes))).toEqual(votes);
  expect(decodeChunk(encodeChunk({ ...votes, parameters: { n: 129 } }))).toBeNull();
  const rows = [{ row: 21, prompt: 'one', parameters: { n: 5 } }];
  expect(decodeChunk(encodeChunk({ ...votes, rows }))).toBeNull();
});
