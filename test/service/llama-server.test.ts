import { describe, expect, it } from 'vitest';
import { completions, operationOf } from '../../src/service/operation.js';
import { verdicts } from '../../src/service/verdict.js';
import { type LlamaServer, llamaServer } from '../support/llama-server.js';

/** What the server answers to a request, and what is made of it. */
function ask(
  server: LlamaServer,
  fields: object,
  ownFields: readonly string[] = [],
  operation = completions,
) {
  const text = 'one two three';
  const asked =
    operation === completions ? { prompt: text } : { messages: [{ role: 'user', content: text }] };
  const body = { ...asked, model: 'm', max_tokens: 3, ...fields };
  const request = {
    method: 'POST',
    url: `/v1/${operation.path}`,
    headers: {},
    prompt: text,
    count: 1,
    total: 1,
  };
  const left = new AbortController().signal;
  const reply = llamaServer(server)({ ...request, left, body, text: JSON.stringify(body) });
  const { status = 200, json } = reply as { readonly status?: number; readonly json: unknown };
  const exchange = {
    ...{ kind: 'response' as const, status, headers: {}, latency_ms: 1 },
    body: JSON.stringify(json),
  };
  const prompts = 'prompt' in body ? [body.prompt].flat().length : 1;
  const choices = 'n' in body ? Number(body.n) : 1;
  return verdicts(exchange, 0, { prompts, choices, withLogprobs: true, operation, ownFields }, 1);
}

const OLD = { build: 'b4748' } as const;
const NEW = { build: 'v0.5.0' } as const;
const answered = (completion: object = {}) => ({
  kind: 'final',
  outcome: { status: 'completed', completion: { text: ' re one', finish_reason: 'length', ...completion } },
});
const chatted = (completion: object = {}) => answered({ text: 're one', ...completion });
const NEWER = { max_tokens: undefined, max_completion_tokens: 3 };
const failed = (code: string) => ({ kind: 'final', outcome: { status: 'failed', error: { code } } });
const stop = (code: string, hint = '') => ({
  kind: 'stop',
  problem: { code },
  hint: expect.stringContaining(hint),
});

describe("llama.cpp's own server, asked with", () => {
  const usage = (completion_tokens: number) => ({
    usage: { prompt_tokens: 4, completion_tokens, total_tokens: 4 + completion_tokens },
  });

  // Its template puts the role before each message.
  const chatUsage = (completion_tokens: number) => ({
    usage: { prompt_tokens: 5, completion_tokens, total_tokens: 5 + completion_tokens },
  });

  it.each<[field: string, LlamaServer, fields: object, verdict: object]>([
    ['nothing else', OLD, {}, answered({ model: 'm', ...usage(3) })],
    ['nothing else', NEW, {}, answered({ model: 'model-q8_0.gguf', ...usage(3) })],
    ['max_tokens: 0', OLD, { max_tokens: 0 }, answered(usage(1))],
    ['max_tokens: 0', NEW, { max_tokens: 0 }, answered(usage(1))],
    ['suffix', OLD, { suffix: ' end' }, stop('not_supported', 'take the field')],
    ['suffix', NEW, { suffix: ' end' }, answered()],
    ['best_of', OLD, { best_of: 2 }, stop('not_supported', 'take the field')],
    ['best_of', NEW, { best_of: 2 }, answered(usage(3))],
    ['echo', OLD, { echo: false }, stop('not_supported', 'take the field')],
    ['echo', NEW, { echo: true }, answered()],
    ['n', OLD, { n: 3 }, stop('not_supported', 'answer.votes')],
    ['n', NEW, { n: 3 }, answered({ others: [{ text: ' re one' }, { text: ' re one' }], ...usage(3) })],
    ['n above its slots', NEW, { n: 5 }, stop('not_supported', 'answer.votes')],
    ['logprobs', OLD, { logprobs: 1 }, answered({ logprobs: { content: [{ logprob: -0.5 }] } })],
    ['logprobs', NEW, { logprobs: 1 }, answered({ logprobs: { content: [{ logprob: -0.5 }] } })],
    ['half a pair', OLD, { prompt: 'odd \ud800' }, { kind: 'retry', problem: { code: 'server_error' } }],
    ['half a pair', NEW, { prompt: 'odd \ud800' }, { kind: 'retry', problem: { code: 'server_error' } }],
    // Of four tokens it reads two.
    ['too long a prompt', { ...OLD, context: 4 }, {}, answered({ usage: { prompt_tokens: 2 } })],
    ['too long a prompt', { ...NEW, context: 4 }, {}, failed('context_length_exceeded')],
    ['any words while it loads', { ...NEW, loading: 1 }, {}, { kind: 'retry', notReady: true }],
  ])('%s (%o)', (_, server, fields, expected) => {
    expect(ask(server, fields)).toMatchObject([expected]);
  });

  it.each<[field: string, LlamaServer, fields: object, verdict: object]>([
    ['nothing else', OLD, {}, chatted({ model: 'm', ...chatUsage(3) })],
    [
      'nothing else',
      NEW,
      {},
      chatted({
        model: 'model-q8_0.gguf',
        usage: { ...chatUsage(3).usage, cached_tokens: 0 },
      }),
    ],
    // It generates as much as it can.
    ['the newer name of the limit', OLD, NEWER, chatted(chatUsage(2048))],
    [
      'the newer name of the limit',
      NEW,
      NEWER,
      chatted({ usage: expect.objectContaining(chatUsage(3).usage) }),
    ],
    ['a schema, which it ignores', OLD, { response_format: {} }, chatted()],
    ['a schema', NEW, { response_format: {} }, chatted({ text: '{"answer":"re one"}' })],
    ['n', OLD, { n: 3 }, stop('not_supported', 'answer.votes')],
    ['n', NEW, { n: 3 }, chatted({ others: [{ text: 're one' }, { text: 're one' }] })],
    ['n above its slots', NEW, { n: 5 }, stop('not_supported', 'answer.votes')],
    ['logprobs', OLD, { logprobs: true }, chatted({ logprobs: { content: [{ logprob: -0.5 }] } })],
    ['logprobs', NEW, { logprobs: true }, chatted({ logprobs: { content: [{ logprob: -0.5 }] } })],
    ['too long a conversation', { ...OLD, context: 4 }, {}, chatted({ usage: { prompt_tokens: 3 } })],
    ['too long a conversation', { ...NEW, context: 4 }, {}, failed('context_length_exceeded')],
    ['any words while it loads', { ...NEW, loading: 1 }, {}, { kind: 'retry', notReady: true }],
  ])('a conversation and %s (%o)', (_, server, fields, expected) => {
    expect(ask(server, fields, [], operationOf({ operation: 'chat' }))).toMatchObject([expected]);
  });

  it('a list of prompts, says the usage of each (b4748) or of the first (v0.5.0)', () => {
    const prompt = ['one', 'two words and more'];
    const said = (prompt_tokens: number) => ({ outcome: { completion: { usage: { prompt_tokens } } } });
    expect(ask(OLD, { prompt })).toMatchObject([{ ...said(2), ownUsage: true }, said(5)]);
    expect(ask(NEW, { prompt })).toMatchObject([said(2), said(2)]);
  });

  it('a field of the row alone that it refuses, fails that row', () => {
    expect(ask(OLD, { suffix: ' end' }, ['suffix'])).toMatchObject([failed('not_supported')]);
  });
});
