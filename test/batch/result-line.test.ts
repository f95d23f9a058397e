import { describe, expect, it } from 'vitest';
import { outcomeOfLine, parseResultLine } from '../../src/batch/result-line.js';
import type { EndpointSpec } from '../../src/service/endpoint-spec.js';

const completions: EndpointSpec = {
  ...{ name: 'd', operation: 'completions', deployment: 'd', apiVersion: 'v', style: 'openai', timeoutMs: 1 },
};
const chat: EndpointSpec = { ...completions, operation: 'chat' };

const request = { prompt: 'Is it good?', parameters: null };

const usage = { prompt_tokens: 4, completion_tokens: 1, total_tokens: 5 };
const completionsBody = {
  ...{ id: 'cmpl-1', object: 'text_completion', created: 1700000000, model: 'm', usage },
  choices: [{ index: 0, text: ' positive', finish_reason: 'stop', logprobs: null }],
};
const chatBody = {
  ...{ id: 'c-1', object: 'chat.completion', created: 1700000000, model: 'm', usage },
  choices: [{ index: 0, message: { role: 'assistant', content: 'positive' }, finish_reason: 'stop' }],
};
const blocked = {
  error: {
    ...{ code: 'content_filter', message: 'The response was filtered', status: 400 },
    innererror: {
      code: 'ResponsibleAIPolicyViolation',
      content_filter_result: { hate: { filtered: true, severity: 'high' } },
    },
  },
};

const lineOf = (status_code: unknown, body: unknown, more: object = {}): string =>
  JSON.stringify({
    ...{ id: 'batch_req_1', custom_id: 'r-1', response: { status_code, request_id: 'q', body }, error: null },
    ...more,
  });

const outcome = (text: string, tier: 'done' | 'batch' = 'done', spec = completions) => {
  const line = parseResultLine(text);
  return line && outcomeOfLine(line, spec, request, { max_tokens: 5 }, tier);
};

describe('a result line', () => {
  it('has an id, which may be a number', () => {
    expect(parseResultLine(lineOf(200, completionsBody))?.customId).toBe('r-1');
    expect(parseResultLine(lineOf(200, {}, { custom_id: 17 }))?.customId).toBe('17');
    const large = lineOf(200, {}).replace('"r-1"', '12345678901234567890');
    expect(parseResultLine(large)?.customId).toBe('12345678901234567890');
  });

  it.each([
    ['other text', 'no JSON'],
    ['half a line', lineOf(200, completionsBody).slice(0, -20)],
    ['a list', '[1]'],
    ['no id', lineOf(200, completionsBody, { custom_id: null })],
    ['a request', '{"custom_id":"r-1","method":"POST","url":"/v1/completions","body":{"prompt":"p"}}'],
    ['a row', '{"id":"r-1","review":"Good."}'],
  ])('%s is none', (_, text) => {
    expect(parseResultLine(text)).toBeNull();
  });

  it('is read as the answer to a call', () => {
    expect(outcome(lineOf(200, completionsBody))).toEqual({
      status: 'completed',
      completion: {
        ...{ text: ' positive', finish_reason: 'stop', usage, model: 'm', id: 'cmpl-1', created: 1700000000 },
        tier: 'done',
      },
      filters: { prompt: null, completion: null },
      ...{ attempts: 1, latency_ms: null, elsewhere: 'done' },
    });
    expect(outcome(lineOf(200, chatBody), 'batch', chat)).toMatchObject({
      ...{ status: 'completed', elsewhere: 'batch', attempts: 1, latency_ms: null },
      completion: { text: 'positive', usage, tier: 'batch' },
    });
    // The body as a text, and a line of `vllm run-batch` without some fields.
    expect(outcome(lineOf(200, JSON.stringify(completionsBody)))).toMatchObject({ status: 'completed' });
    const bare = `{"custom_id":"r-1","response":{"body":${JSON.stringify(completionsBody)}}}`;
    expect(outcome(bare)).toMatchObject({ status: 'completed' });
  });

  it('counts tokens itself where the counts cannot be, as for a call', () => {
    const odd = { ...completionsBody, usage: { ...usage, prompt_tokens: -1 } };
    expect(outcome(lineOf(200, odd))).toMatchObject({ completion: { usage: { estimated: true } } });
  });

  it('of a blocked prompt is an answer', () => {
    for (const tier of ['done', 'batch'] as const)
      expect(outcome(lineOf(400, blocked), tier)).toMatchObject({
        ...{ status: 'filtered', completion: null, elsewhere: tier, latency_ms: null },
        filters: { prompt: { hate: { filtered: true, severity: 'high' } }, completion: null },
        error: { code: 'content_filter' },
      });
  });

  it.each([
    ['status 0', lineOf(0, null)],
    ['status 0 with a body', lineOf(0, completionsBody)],
    ['no status', lineOf(null, null)],
    ['5xx', lineOf(500, { error: { message: 'down' } })],
    ['429', lineOf(429, { error: { message: 'slow down' } })],
    ['401', lineOf(401, { error: { message: 'who are you' } })],
    ['no body', lineOf(200, null)],
    ['an empty body', lineOf(200, {})],
    ['a body that is an error', lineOf(200, { error: { message: 'x' } })],
    ['an answer of the other operation', lineOf(200, chatBody)],
    ['an answer beside an error', lineOf(200, completionsBody, { error: { code: 'x', message: 'y' } })],
    ['no response', lineOf(0, 0, { response: null, error: { code: 'batch_expired', message: 'expired' } })],
    ['cancelled', lineOf(0, 0, { response: null, error: { code: 'batch_cancelled', message: 'gone' } })],
    ['neither', lineOf(0, 0, { response: null })],
  ])('%s is no answer', (_, text) => {
    expect(parseResultLine(text)).not.toBeNull();
    expect(outcome(text)).toBeNull();
    expect(outcome(text, 'batch')).toBeNull();
  });

  it.each([
    ['in the body', lineOf(400, { error: { message: 'bad parameter', type: 'invalid_request_error' } })],
    ['beside an empty body', lineOf(400, null, { error: { message: 'bad parameter', code: 400 } })],
  ])(
    'of a bad request, %s, is final in a batch, and called again when it is known from before',
    (_, text) => {
      expect(outcome(text)).toBeNull();
      expect(outcome(text, 'batch')).toMatchObject({
        ...{ status: 'failed', elsewhere: 'batch', attempts: 1, latency_ms: null },
        error: { code: 'invalid_request', message: 'bad parameter (HTTP 400)' },
      });
    },
  );

  it('with nesting that no stack holds does no harm', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const text = lineOf(200, completionsBody).replace('"object":"text_completion"', `"object":${deep}`);
    expect(outcome(text)).toMatchObject({ status: 'completed' });
  });
});
