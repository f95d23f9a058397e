import { describe, expect, it } from 'vitest';
import type { Exchange, FailureCode } from '../../src/service/exchange.js';
import { completions, OPERATIONS, type Operation } from '../../src/service/operation.js';
import { verdicts } from '../../src/service/verdict.js';
import { completionBody } from '../support/scripted-service.js';
import { FORMS, failed, gateway, model, retry, stop, wait } from './verdict-table.js';

const NOW = Date.UTC(2025, 0, 1);

/** The verdict on an exchange with a single prompt. */
const verdict = (exchange: Exchange, now: number, choices = 1, operation: Operation = completions) =>
  verdicts(exchange, now, { prompts: 1, choices, withLogprobs: false, operation }, 2)[0];

/** The verdict on a response; a body that is no string is sent as JSON. */
const judge = (
  status: number,
  body: unknown = '',
  headers: Record<string, string> = {},
  operation: Operation = completions,
) =>
  verdict(
    {
      kind: 'response',
      status,
      headers,
      body: typeof body === 'string' ? body : JSON.stringify(body),
      latency_ms: 12,
    },
    NOW,
    1,
    operation,
  );

describe('the verdict on a response', () => {
  it.each(FORMS)('%s: %i', (_, status, body, expected) => {
    expect(judge(status, body)).toMatchObject(expected);
  });

  it('an error means the same in every operation', () => {
    for (const operation of OPERATIONS)
      for (const [name, status, body, expected] of FORMS.filter(([, code]) => code >= 300))
        expect(judge(status, body, {}, operation), `${operation.name}: ${name}`).toMatchObject(expected);
  });

  it('a conversation model: the hint says which models fit', () => {
    expect(judge(400, gateway('OperationNotSupported', 'no'))).toMatchObject({
      hint: expect.stringContaining('lm-35-turbo-instruct or text-davinci-003'),
    });
  });

  it('a server error that quotes such words does not stop a run', () => {
    expect(judge(500, gateway('x', 'api-version not supported; this is a chat model'))).toMatchObject(
      retry('server_error', false),
    );
  });

  it.each([301, 302, 307, 308])('fault 27: %i stops the run, and says the host only', (status) => {
    const result = judge(status, '', { location: 'https://elsewhere.example/p?api-key=hidden' });
    expect(result).toMatchObject(stop('redirected'));
    expect(result).toMatchObject({
      problem: { message: `the service redirects to elsewhere.example (HTTP ${status})` },
    });
  });

  it('a redirect within the host, or to nowhere, stops the run too', () => {
    expect(judge(308, '', { location: '/other' })).toMatchObject(stop('redirected'));
    expect(judge(304)).toMatchObject(stop('redirected'));
  });
});

describe('a blocked prompt', () => {
  const hate = { filtered: true, severity: 'high' };

  it('is filtered, with what the filter said', () => {
    const innererror = {
      code: 'ResponsibleAIPolicyViolation',
      content_filter_result: { hate, jailbreak: { filtered: false, detected: false } },
    };
    const body = {
      error: { message: 'The response was filtered', code: 'content_filter', status: 400, innererror },
    };
    expect(judge(400, body)).toEqual({
      kind: 'final',
      outcome: {
        status: 'filtered',
        completion: null,
        filters: { prompt: { hate, jailbreak: { filtered: false, detected: false } }, completion: null },
        error: { code: 'content_filter', message: 'The response was filtered (HTTP 400)' },
        attempts: 2,
        latency_ms: 12,
      },
    });
  });
});

describe('fault 17: the wait after a 429', () => {
  const limited = (words: string, headers: Record<string, string> = {}) =>
    judge(429, gateway('429', `Requests to the operation have exceeded call rate limit. ${words}`), headers);

  it.each([
    ['seconds', '26', 26_000],
    ['a part of a second, upwards', '0.0015', 2],
    ['zero', '0', 0],
    ['a date', 'Wed, 01 Jan 2025 00:00:30 GMT', 30_000],
    ['an old form of date', 'Wednesday, 01-Jan-25 00:01:00 GMT', 60_000],
    ['a past date', 'Tue, 31 Dec 2024 23:00:00 GMT', 0],
    ['a huge value', '999999999', 999_999_999_000],
    ['a negative value', '-5', null],
    ['words', 'soon', null],
    ['nothing', '', null],
  ])('retry-after as %s', (_, value, ms) => {
    expect(limited('', { 'retry-after': value })).toMatchObject(wait(ms));
  });

  it.each([
    ['Please retry after 26 seconds.', 26_000],
    ['Rate limit is exceeded. Try again in 7 seconds.', 7000],
    ['Please try again in 1.5s.', 1500],
    ['Please try again in 20ms.', 20],
    ['Please try again in 6m0s.', null],
    ['Please try again later.', null],
  ])('words: %s', (words, ms) => {
    expect(limited(words)).toMatchObject(wait(ms));
  });

  it('milliseconds are more exact than seconds, and a header than words', () => {
    expect(limited('', { 'retry-after': '2', 'retry-after-ms': '1500' })).toMatchObject(wait(1500));
    expect(limited('Please retry after 9 seconds.', { 'retry-after': '8' })).toMatchObject(wait(8000));
  });

  it('has no hint without header, words or body', () => {
    expect(judge(429)).toMatchObject(wait(null));
  });

  it('a hint of a day is a request larger than the whole quota: final for its row', () => {
    expect(limited('Please retry after 86400 seconds.')).toMatchObject(failed('request_exceeds_quota'));
    expect(limited('', { 'retry-after': '86400' })).toMatchObject(failed('request_exceeds_quota'));
    expect(limited('', { 'retry-after': '86399' })).toMatchObject(wait(86_399_000));
  });
});

describe('the verdict on an answer', () => {
  const safe = { filtered: false, severity: 'safe' };

  it('a completion is final', () => {
    const all = { hate: safe, self_harm: safe, sexual: safe, violence: safe };
    expect(judge(200, completionBody({ text: ' positive' }))).toEqual({
      kind: 'final',
      outcome: {
        status: 'completed',
        completion: {
          text: ' positive',
          finish_reason: 'stop',
          usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
          model: 'lm-35-turbo-instruct',
          id: 'cmpl-scripted',
          created: 1_700_000_000,
        },
        filters: { prompt: all, completion: all },
        attempts: 2,
        latency_ms: 12,
      },
    });
  });

  it('a blocked completion is filtered, and keeps its text and its usage', () => {
    expect(judge(200, completionBody({ text: ' par', finish_reason: 'content_filter' }))).toMatchObject({
      kind: 'final',
      outcome: {
        status: 'filtered',
        completion: { text: ' par', usage: { total_tokens: 12 } },
        error: { code: 'content_filter', message: 'the content filter blocked the completion' },
      },
    });
  });

  it('a block that shows in a boolean alone is filtered too, on either side', () => {
    const blocked = { content_filter_results: { violence: { filtered: true, severity: 'medium' } } };
    expect(judge(200, { choices: [{ text: '', ...blocked }] })).toMatchObject({
      outcome: { status: 'filtered', error: { message: 'the content filter blocked the completion' } },
    });
    const prompt_filter_results = [{ prompt_index: 0, ...blocked }];
    expect(judge(200, { choices: [{ text: '' }], prompt_filter_results })).toMatchObject({
      outcome: { status: 'filtered', error: { message: 'the content filter blocked the prompt' } },
    });
  });

  it('fault 24: a 200 with a page of HTML asks for a stop, vaguely, and may have been billed', () => {
    const page = '<!DOCTYPE html>\n<html><head><title>Sign\nin</title></head></html>';
    expect(judge(200, page)).toMatchObject({
      ...stop('not_json'),
      problem: { message: 'the answer is a web page and not JSON: <!DOCTYPE html> … Sign in' },
      hint: expect.stringContaining('Check PROMPTMILL_BASE_URL'),
      certainty: 'vague',
      possiblyBilled: true,
    });
  });

  it.each([
    ['no text', {}],
    ['null', { text: null }],
    ['a number', { text: 1 }],
    ['an object', { text: {} }],
  ])('fault 75: %s as text is tried again, and may have been billed', (_, choice) => {
    expect(judge(200, { choices: [{ ...choice, finish_reason: 'stop' }] })).toMatchObject(
      retry('no_text', true),
    );
    expect(judge(200, { choices: [{ ...choice, finish_reason: 'content_filter' }] })).toMatchObject({
      kind: 'final',
      outcome: { status: 'filtered' },
    });
  });

  it('fault 75: an answer of the chat operation asks for a stop; the empty text is an answer', () => {
    const chat = { message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' };
    expect(judge(200, { choices: [chat] })).toMatchObject({
      ...stop('operation_not_supported'),
      certainty: 'likely',
      possiblyBilled: true,
    });
    expect(judge(200, { choices: [{ ...chat, finish_reason: 'content_filter' }] })).toMatchObject({
      outcome: { status: 'filtered' },
    });
    expect(judge(200, { choices: [{ text: '', finish_reason: 'stop' }] })).toMatchObject({
      outcome: { status: 'completed', completion: { text: '' } },
    });
  });

  it('one choice where several are asked for is tried again, and may have been billed; some of them are an answer', () => {
    const judged = (choices: readonly object[], notUtf8?: true) => {
      const body = JSON.stringify({ choices });
      const response = { kind: 'response', status: 200, headers: {}, latency_ms: 12 } as const;
      return verdict({ ...response, body, ...(notUtf8 && { notUtf8 }) }, NOW, 5);
    };
    const [good, filtered] = [{ text: 'x' }, { text: 'x', finish_reason: 'content_filter' }];
    expect(judged([good])).toMatchObject({
      ...retry('choices_missing', true),
      hint: expect.stringContaining('answer.votes'),
    });
    expect(judged([filtered, good, good])).toMatchObject({ outcome: { status: 'completed' } });
    expect(judged([filtered, filtered, {}])).toMatchObject({ outcome: { status: 'filtered' } });
    expect(judged([{}, {}])).toMatchObject(retry('no_text', true));
    expect(judged([good, { text: 'y\ufffd' }], true)).toMatchObject({
      outcome: { completion: { others: [{ damaged: 'bytes' }] } },
    });
    expect(JSON.stringify(judged([good, good], true))).not.toContain('damaged');
    expect(JSON.stringify(judged([good, { text: 'y\ufffd' }]))).not.toContain('damaged');
  });

  it('fault 24: a 200 without usage is final', () => {
    expect(judge(200, { choices: [{ text: 'x' }] })).toMatchObject({
      kind: 'final',
      outcome: { status: 'completed', completion: { usage: null } },
    });
  });
});

describe('the verdict on a failure', () => {
  const failure = (code: FailureCode, phase: 'connect' | 'exchange'): Exchange => ({
    kind: 'failure',
    phase,
    code,
    message: 'm',
    latency_ms: 1,
  });

  it.each([
    ['dns', 'dns_failure'],
    ['refused', 'connection_refused'],
    ['unreachable', 'connection_failed'],
    ['tls', 'tls_failure'],
    ['timeout', 'timeout'],
    ['aborted', 'aborted'],
  ] as const)('fault 26: %s before anything was sent is tried again, and was not billed', (code, fault) => {
    expect(verdict(failure(code, 'connect'), NOW)).toEqual({
      kind: 'retry',
      problem: { code: fault, message: 'm' },
      latency_ms: 1,
      connected: code === 'aborted',
      possiblyBilled: false,
    });
  });

  it.each([
    ['timeout', 'timeout'],
    ['reset', 'connection_reset'],
    ['truncated', 'truncated_response'],
    ['too_large', 'response_too_large'],
    ['not_http', 'invalid_http'],
    ['aborted', 'aborted'],
  ] as const)('fault 21: %s after it was sent is tried again, and may have been billed', (code, fault) => {
    expect(verdict(failure(code, 'exchange'), NOW)).toMatchObject(retry(fault, true));
  });
});

describe('the verdict on what servers of the same shape say', () => {
  it.each(['best_of', 'echo', 'logprobs', 'logit_bias'])(
    'on the field %s, which a server does not know',
    (field) => {
      for (const status of [400, 422]) {
        const body = model('invalid_request_error', `${field} is not supported`);
        expect(judge(status, body), `${status}`).toMatchObject(stop('not_supported'));
      }
    },
  );

  it('on a field that only its row has is one on the row', () => {
    const refused = (message: string, ownFields: readonly string[], status = 500) => {
      const body = JSON.stringify(model('server_error', message));
      const exchange = { kind: 'response', status, headers: {}, body, latency_ms: 12 } as const;
      const asked = { prompts: 1, choices: 1, withLogprobs: false, operation: completions, ownFields };
      return verdicts(exchange, NOW, asked, 2)[0];
    };
    expect(refused('Unsupported param: suffix', ['suffix'])).toMatchObject(failed('not_supported'));
    expect(refused('Only no echo is supported', ['max_tokens', 'echo'])).toMatchObject(
      failed('not_supported'),
    );
    expect(refused('Suffix is not supported.', ['suffix'], 422)).toMatchObject(failed('not_supported'));
    expect(refused('Unsupported param: suffix', ['max_tokens'])).toMatchObject(stop('not_supported'));
  });

  it('does not go by words that a server may have quoted from a prompt', () => {
    const message =
      'parse error; last read: "my phone does not support it: unsupported param, only one completion choice is allowed"';
    expect(judge(500, model('server_error', message))).toMatchObject(retry('server_error', false));
  });
});
