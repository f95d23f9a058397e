import { expect, it } from 'vitest';
import { type Chunk, decodeChunk, encodeChunk } from '../../src/queue/chunk.js';

const chunk: Chunk = {
  run: '20261121-020000-4f9c1a',
  execution: 2,
  first: 11,
  deployment: 'lm-35-turbo-instruct',
  apiVersion: '2023-09-15-preview',
  style: 'deployments',
  timeoutMs: 120_000,
  promptsPerRequest: 1,
  parameters: { max_tokens: 5 },
  budget: { tokens: 1_000, cost: null, prices: null, orphaned: 4 },
  hold: true,
  rows: [{ row: 11, prompt: 'a', parameters: null }],
};

it('reads a chunk as it was written', () => {
  expect(decodeChunk(encodeChunk(chunk))).toEqual(chunk);
  const without = { ...chunk, budget: null, hold: false };
  expect(decodeChunk(encodeChunk(without))).toEqual(without);
});

it('calls the orphaned calls `unheard` in the entry, as workers of the version before know them', () => {
  const { body } = encodeChunk(chunk);
  expect(JSON.parse(body)).toMatchObject({ budget: { tokens: 1_000, unheard: 4 } });
  expect(body).not.toContain('orphaned');
});
