import { expect, it } from 'vitest';
import { type Chunk, decodeChunk, encodeChunk, type OnInvalid } from '../../src/queue/chunk.js';

const chunk = (model?: string, asks: OnInvalid | null = null): Chunk => ({
  run: '20261121-020000-aaaaaa',
  execution: 2,
  first: 21,
  endpoints: [
    {
      name: 'd',
      operation: 'completions',
      deployment: 'd',
      ...(model !== undefined && { model }),
      apiVersion: '2022-12-01',
      style: 'openai',
      timeoutMs: 5_000,
    },
  ],
  promptsPerRequest: 1,
  parameters: { completions: { max_tokens: 5 } },
  budget: { tokens: 10, cost: null, prices: null, orphaned: 1 },
  hold: model !== undefined,
  asks,
  rows: [
    { row: 21, prompt: 'one \0', parameters: null },
    { row: 22, prompt: 'two', parameters: { temperature: 0 } },
  ],
});

it.each([
  ['without a model', chunk()],
  ['with a model, whose rows are called once', chunk('m')],
])('a queue entry %s is read as it was written', (_, ours) => {
  expect(decodeChunk(JSON.parse(JSON.stringify(encodeChunk(ours))))).toEqual(ours);
});

it('a queue entry has all endpoints of its run, and the parameters of their operations', () => {
  const [one] = chunk().endpoints;
  const both = { ...chunk(), endpoints: [one, { ...one, name: 'e', deployment: 'e' }] } as const;
  expect(decodeChunk(encodeChunk(both))).toEqual(both);
  const mixed = { ...both, endpoints: [one, { ...one, name: 'e', operation: 'chat' }] } as const;
  expect(decodeChunk(encodeChunk(mixed))).toBeNull();
  const parameters = { completions: { max_tokens: 5, logprobs: 5 }, chat: { max_tokens: 5, logprobs: true } };
  const ofBoth = { ...mixed, parameters };
  expect(decodeChunk(encodeChunk(ofBoth))).toEqual(ofBoth);
  // A row's own must mean the same to both.
  const own = (parameters: object) => [{ row: 21, prompt: 'one', parameters }];
  expect(decodeChunk(encodeChunk({ ...ofBoth, rows: own({ max_tokens: 3 }) }))?.rows).toEqual(
    own({ max_tokens: 3 }),
  );
  expect(decodeChunk(encodeChunk({ ...ofBoth, rows: own({ logprobs: 5 }) }))).toBeNull();
  expect(decodeChunk(encodeChunk({ ...ofBoth, rows: own({ seed: 5 }) }))).toBeNull();
  expect(decodeChunk(encodeChunk({ ...chunk(), endpoints: [] as never }))).toBeNull();
});

const conversation = [
  { role: 'system', content: 'Judge.' },
  { role: 'user', content: 'one' },
] as const;
const ofChat = (): Chunk => ({
  ...chunk(),
  endpoints: [{ ...chunk().endpoints[0], operation: 'chat' }],
  parameters: { chat: { max_tokens: 5, logprobs: true, top_logprobs: 5, n: 3 } },
  rows: [
    { row: 21, prompt: conversation, parameters: { seed: 1 } },
    { row: 22, prompt: 'two', parameters: null },
  ],
});

it('a queue entry of the chat operation is read as it was written', () => {
  expect(decodeChunk(JSON.parse(JSON.stringify(encodeChunk(ofChat()))))).toEqual(ofChat());
});

it.each([
  [
    'messages of the other operation',
    { ...chunk(), rows: [{ row: 21, prompt: conversation, parameters: null }] },
  ],
  ['parameters of the other operation', { ...chunk(), parameters: { completions: { seed: 1 } } }],
  [
    'a row with parameters of the other operation',
    { ...ofChat(), rows: [{ row: 21, prompt: 'a', parameters: { echo: true } }] },
  ],
  ['a role that is none', [{ role: 'boss', content: 'a' }]],
  ['more in a message than is known', [{ role: 'user', content: 'a', url: 'http://elsewhere' }]],
  [
    'a content that is no text',
    [{ role: 'user', content: [{ type: 'image_url', image_url: 'http://elsewhere' }] }],
  ],
  ['a content in parts', [{ role: 'user', content: [{ type: 'text', text: 'a' }] }]],
  ['no messages', []],
  ['too many messages', Array(2049).fill({ role: 'user', content: 'a' })],
])('fault 58: a queue entry with %s is none of ours', (_, what) => {
  const whole = Array.isArray(what)
    ? { ...ofChat(), rows: [{ row: 21, prompt: what, parameters: null }] }
    : what;
  expect(decodeChunk(JSON.parse(JSON.stringify(encodeChunk(whole))))).toBeNull();
});

it('fault 8: no text of a queue entry has a NUL or half of a character in it', () => {
  const rows = [{ row: 21, prompt: '\0 \ud800', parameters: null }];
  const whole = encodeChunk({ ...chunk(), rows });
  expect(whole.rows).toBe(String.raw`[[21,"\u0000 \ud800",null]]`);
  expect(decodeChunk(whole)?.rows).toEqual(rows);
});

it.each([
  ['of another version', { v: 2 }],
  ['without a run', { run: '' }],
  ['of no execution', { x: 0 }],
  ['whose first row is no number', { first: '21' }],
  ['with an address beside it', { baseUrl: 'http://elsewhere' }],
  ['with more in common than is known', { common: '{"url":"http://elsewhere"}' }],
  ['without rows', { rows: '[]' }],
  ['with a row that is cut off', { rows: '[[21,"one"]]' }],
  ['whose rows are no JSON', { rows: '[[21' }],
])('fault 58: a queue entry %s is none of ours', (_, change) => {
  const whole = encodeChunk(chunk());
  expect(decodeChunk(whole)).not.toBeNull();
  expect(decodeChunk({ ...whole, ...change })).toBeNull();
});

it('a queue entry has what is to be done about answers that do not fit', () => {
  const asks: OnInvalid = {
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
  const whole = encodeChunk(chunk('m', asks as OnInvalid));
  expect(decodeChunk(whole)).toBe(null);
});

it("fault 58: of a row's parameters only what was checked is taken", () => {
  const whole = encodeChunk(chunk());
  const rows = whole.rows.replace(
    '{"temperature":0}',
    '{"logit_bias":{"5":1,"__proto__":{"any":["thing"]}}}',
  );
  expect(rows).not.toBe(whole.rows);
  expect(JSON.stringify(decodeChunk({ ...whole, rows })?.rows[1]?.parameters)).toBe('{"logit_bias":{"5":1}}');
});

it('asks for several choices for all of its rows, and a row for none of its own', () => {
  const votes = { ...chunk(), parameters: { completions: { max_tokens: 5, n: 5 } } };
  expect(decodeChunk(encodeChunk(votes))).toEqual(votes);
  expect(decodeChunk(encodeChunk({ ...votes, parameters: { completions: { n: 129 } } }))).toBeNull();
  const rows = [{ row: 21, prompt: 'one', parameters: { n: 5 } }];
  expect(decodeChunk(encodeChunk({ ...votes, rows }))).toBeNull();
});
