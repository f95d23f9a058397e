import { describe, expect, it } from 'vitest';
import type { Exchange, FailureCode } from '../../src/service/exchange.js';
import { completions } from '../../src/service/operation.js';
import { verdicts } from '../../src/service/verdict.js';
import { completionBody } from '../support/scripted-service.js';

const NOW = Date.UTC(2025, 0, 1);

/** The verdict on an exchange with a single prompt. */
const verdict = (exchange: Exchange, now: number, choices = 1) =>
  verdicts(exchange, now, { prompts: 1, choices, withLogprobs: false, operation: completions }, 2)[0];

/** The verdict on a response; a body that is no string is sent as JSON. */
const judge = (status: number, body: unknown = '', headers: Record<string, string> = {}) =>
  verdict(
    {
      kind: 'response',
      status,
      headers,
      body: typeof body === 'string' ? body : JSON.stringify(body),
      latency_ms: 12,
    },
    NOW,
  );

const gateway = (code: string, message: string) => ({ error: { code, message } });
const model = (type: string, message: string, code: string | null = null) => ({
  error: { message, type, param: null, code },
});

const failed = (code: string) => ({
  kind: 'final',
  outcome: { status: 'failed', error: { code }, attempts: 2, latency_ms: 12 },
});
const retry = (code: string, possiblyBilled: boolean) => ({ kind: 'retry', fault: { code }, possiblyBilled });
const wait = (ms: number | null) => ({ kind: 'wait', ms, fault: { code: 'rate_limited' } });
const stop = (code: string) => ({ kind: 'stop', fault: { code }, hint: expect.stringMatching(/\w.+\.$/) });

describe('the verdict on an error response', () => {
  it.each([
    [
      'a parameter out of range',
      400,
      model('invalid_request_error', "3 is greater than the maximum of 2 - 'temperature'"),
      failed('invalid_request'),
    ],
    [
      'a prompt over the context window',
      400,
      model(
        'invalid_request_error',
        "This model's maximum context length is 4097 tokens, however you requested 5000 tokens",
      ),
      failed('context_length_exceeded'),
    ],
    [
      'a prompt over the context window, by code',
      400,
      model('invalid_request_error', 'too long', 'context_length_exceeded'),
      failed('context_length_exceeded'),
    ],
    [
      'a conversation model',
      400,
      gateway(
        'OperationNotSupported',
        'The completion operation does not work with the specified model, lm-4. Please choose different model.',
      ),
      stop('operation_not_supported'),
    ],
    [
      'a conversation model of a server of the same shape',
      404,
      model(
        'invalid_request_error',
        'This is a chat model and not supported in the v1/completions endpoint.',
      ),
      stop('operation_not_supported'),
    ],
    [
      'an api-version that is not supported',
      400,
      gateway('BadRequest', 'API version not supported'),
      stop('api_version_not_supported'),
    ],
    [
      'an api-version that is not supported, as 404',
      404,
      gateway('404', "Unsupported api-version '2020-01-01'"),
      stop('api_version_not_supported'),
    ],
    [
      'a wrong key, of the gateway',
      401,
      gateway('401', 'Access denied due to invalid subscription key or wrong API endpoint.'),
      retry('unauthorized', false),
    ],
    [
      'a wrong token',
      401,
      { statusCode: 401, message: 'Unauthorized. Access token is missing, invalid or expired.' },
      {
        kind: 'retry',
        fault: { message: 'Unauthorized. Access token is missing, invalid or expired. (HTTP 401)' },
      },
    ],
    [
      'network rules',
      403,
      gateway('403', 'Access denied due to Virtual Network/Firewall rules.'),
      stop('forbidden'),
    ],
    [
      'a deployment that does not exist',
      404,
      gateway('DeploymentNotFound', 'The API deployment for this resource does not exist.'),
      stop('deployment_not_found'),
    ],
    [
      'a model that does not exist',
      404,
      model('x', 'no model m', 'model_not_found'),
      stop('deployment_not_found'),
    ],
    ['a wrong path', 404, gateway('404', 'Resource not found'), stop('not_found')],
    ['a wrong path that is HTML', 404, '<html>nginx</html>', stop('not_found')],
    ['a method that is not allowed', 405, '', stop('not_found')],
    ['a request timeout', 408, gateway('Timeout', 'The operation was timeout.'), retry('timeout', true)],
    ['a conflict', 409, '', retry('conflict', false)],
    ['a body that is too large', 413, '', failed('request_too_large')],
    [
      'a validation error that is a list',
      422,
      { detail: [{ msg: 'field required', input: 'secret row' }] },
      {
        kind: 'final',
        outcome: { error: { code: 'invalid_request', message: 'field required (HTTP 422)' } },
      },
    ],
    [
      'a validation error of a text server',
      422,
      { error: 'Input validation error', error_type: 'validation' },
      failed('invalid_request'),
    ],
    [
      'a generation that failed',
      424,
      { error: 'Request failed during generation', error_type: 'generation' },
      retry('failed_dependency', false),
    ],
    [
      'an overloaded text server',
      429,
      { error: 'Model is overloaded', error_type: 'overloaded' },
      wait(null),
    ],
    [
      'a quota that is used up',
      429,
      model('insufficient_quota', 'You exceeded your quota'),
      stop('insufficient_quota'),
    ],
    [
      'a quota that is used up, by code',
      429,
      gateway('insufficient_quota', 'You exceeded your quota'),
      stop('insufficient_quota'),
    ],
    ['no credit', 402, '', stop('insufficient_quota')],
    [
      'an error of the model',
      500,
      model('server_error', 'The server had an error'),
      retry('server_error', false),
    ],
    [
      'an error of the gateway',
      500,
      { statusCode: 500, message: 'Internal server error', activityId: 'a' },
      retry('server_error', false),
    ],
    ['a bad gateway', 502, '', retry('server_error', true)],
    ['a service that is down', 503, '<html>down</html>', retry('server_error', false)],
    [
      'a model that loads',
      503,
      { error: 'Model is loading' },
      { ...retry('not_ready', false), notReady: true },
    ],
    ['a gateway timeout', 504, 'upstream request timeout', retry('server_error', true)],
    ['a status that nobody knows', 418, '', failed('invalid_request')],
  ])('%s: %i', (_, status, body, expected) => {
    expect(judge(status, body)).toMatchObject(expected);
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
      fault: { message: `the service redirects to elsewhere.example (HTTP ${status})` },
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

  it('is filtered where the service gives no details', () => {
    expect(judge(400, gateway('content_filter', 'filtered'))).toMatchObject({
      kind: 'final',
      outcome: { status: 'filtered', filters: { prompt: null, completion: null } },
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

  it.each([
    ['text', 'It works!', 'not_json'],
    ['nothing', '', 'not_json'],
    ['half a body (fault 23)', JSON.stringify(completionBody()).slice(0, 90), 'not_json'],
    ['an error', { error: { message: 'oops' } }, 'error_in_answer'],
    ['an error as text', { error: 'oops' }, 'error_in_answer'],
    ['no choices', { id: 'x' }, 'no_choices'],
    ['empty choices', { choices: [] }, 'no_choices'],
    ['a choice that is null', { choices: [null] }, 'no_choices'],
    ['JSON that is no object', '[]', 'no_choices'],
  ])('fault 24: a 200 with %s is tried again, and may have been billed', (_, body, code) => {
    expect(judge(200, body)).toMatchObject(retry(code, true));
  });

  it('fault 24: a 200 with a page of HTML asks for a stop, vaguely, and may have been billed', () => {
    const page = '<!DOCTYPE html>\n<html><head><title>Sign\nin</title></head></html>';
    expect(judge(200, page)).toMatchObject({
      ...stop('not_json'),
      fault: { message: 'the answer is a web page and not JSON: <!DOCTYPE html> … Sign in' },
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
      fault: { code: fault, message: 'm' },
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
  it.each([
    [
      'vLLM, no such model',
      404,
      { message: 'The model `x` does not exist.', code: 404 },
      stop('deployment_not_found'),
    ],
    [
      'Ollama, no such model',
      404,
      { error: { message: "model 'x' not found" } },
      stop('deployment_not_found'),
    ],
    [
      'LiteLLM, no such model',
      400,
      { error: { message: '/completions: Invalid model name passed in model=x', code: '400' } },
      stop('deployment_not_found'),
    ],
    [
      "fault 98: llama.cpp's router, no such model",
      400,
      { error: { code: 400, message: "model 'x' not found", type: 'invalid_request_error' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: LM Studio, no such model',
      400,
      { error: 'Invalid model identifier "x". Please specify a valid downloaded model.' },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: LM Studio, a model that cannot be loaded',
      400,
      { error: { message: 'Failed to load model "x". Error: Error loading model.' } },
      stop('deployment_not_found'),
    ],
    [
      "fault 98: model 'x' was not found",
      400,
      { error: { message: "model 'x' was not found" } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: Model x is not found',
      400,
      { error: { message: 'Model x is not found' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: No such model: x',
      400,
      { error: { message: 'No such model: x' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: Unknown model x',
      400,
      { error: { message: 'Unknown model x' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: Invalid model: x',
      400,
      { error: { message: 'Invalid model: x' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: x is not a valid model ID',
      400,
      { error: { message: 'x is not a valid model ID' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: Model Not Exist',
      400,
      { error: { message: 'Model Not Exist' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: unsupported model x',
      400,
      { error: { message: 'unsupported model x' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: could not find model x',
      400,
      { error: { message: 'could not find model x' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: deployment x not found',
      400,
      { error: { message: 'deployment x not found' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: The model `x` does not exist.',
      400,
      { error: { message: 'The model `x` does not exist.' } },
      stop('deployment_not_found'),
    ],
    [
      'fault 98: what is no name of a model: Unsupported model parameter: suffix',
      400,
      { error: { message: 'Unsupported model parameter: suffix' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: what is no name of a model: Invalid model output',
      400,
      { error: { message: 'Invalid model output' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: what is no name of a model: unknown model type in request body',
      400,
      { error: { message: 'unknown model type in request body' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: what is no name of a model: Could not find model weights for the prompt you gave',
      400,
      { error: { message: 'Could not find model weights for the prompt you gave' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: what is no name of a model: ' + 'temperature is not a valid model parameter',
      400,
      { error: { message: 'temperature is not a valid model parameter' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: what is no name of a model: ' + 'Unknown model error.',
      400,
      { error: { message: 'Unknown model error.' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: what is no name of a model: ' + 'Invalid model_kwargs',
      400,
      { error: { message: 'Invalid model_kwargs' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: what is no name of a model: ' + 'Invalid model response.',
      400,
      { error: { message: 'Invalid model response.' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: a refusal that begins with a row about a model that was not found',
      400,
      { error: { message: 'The model of the car I bought was not found: bad prompt' } },
      failed('invalid_request'),
    ],
    [
      'fault 98: a refusal that quotes a row about a model that was not found',
      400,
      { error: { message: 'Bad prompt: "The model was not found in the shop."' } },
      failed('invalid_request'),
    ],
    [
      'LiteLLM, no budget',
      429,
      { error: { message: 'Budget', type: 'budget_exceeded' } },
      stop('insufficient_quota'),
    ],
    [
      'llama.cpp, too long',
      400,
      { error: { message: 'the request exceeds', type: 'exceed_context_size_error' } },
      failed('context_length_exceeded'),
    ],
    [
      'llama.cpp, too long, of an older build',
      500,
      { error: { message: 'the request exceeds the available context size', type: 'server_error' } },
      failed('context_length_exceeded'),
    ],
    [
      'llama.cpp, a field that it does not know',
      500,
      { error: { code: 500, message: 'Unsupported param: suffix', type: 'server_error' } },
      stop('not_supported'),
    ],
    [
      'llama.cpp, the prompt in its answer',
      500,
      { error: { code: 500, message: 'Only no echo is supported', type: 'server_error' } },
      stop('not_supported'),
    ],
    [
      'llama.cpp, several choices, of a build that gives one',
      500,
      { error: { code: 500, message: 'Only one completion choice is allowed', type: 'server_error' } },
      { ...stop('not_supported'), hint: expect.stringContaining('answer.votes') },
    ],
    [
      'llama.cpp, more choices than slots',
      400,
      { error: { message: "Field 'n': Value must be between 1 <= value <= 4, but got 5" } },
      { ...stop('not_supported'), hint: expect.stringContaining('answer.votes') },
    ],
    [
      'llama.cpp, more choices than slots, of an older build',
      400,
      { error: { message: 'n_cmpl cannot be greater than the number of slots, please increase -np' } },
      { ...stop('not_supported'), hint: expect.stringContaining('answer.votes') },
    ],
    [
      'vLLM, too long',
      400,
      {
        error: {
          message:
            "You passed 1193 input tokens and requested 7000 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 1192 tokens.",
          ...{ type: 'BadRequestError', param: 'input_tokens', code: 400 },
        },
      },
      failed('context_length_exceeded'),
    ],
    [
      'vLLM, a field that it does not know',
      400,
      { error: { message: 'suffix is not currently supported', type: 'BadRequestError', code: 400 } },
      stop('not_supported'),
    ],
    [
      'Text Generation Inference, a field that it does not know',
      422,
      { error: 'Suffix is not supported and can be achieved by preprocessing the prompt.' },
      stop('not_supported'),
    ],
    [
      'llama.cpp, a model that generates nothing',
      500,
      { error: { message: 'the current context does not logits computation. skipping' } },
      stop('not_supported'),
    ],
    [
      'llama.cpp, calls that together outgrow its context',
      500,
      { error: { message: 'Context size has been exceeded.', type: 'server_error' } },
      { ...retry('context_length_exceeded', false), noRoom: true },
    ],
    [
      'llama.cpp, the same of an older build',
      500,
      { error: { message: 'Input prompt is too big compared to KV size. Please try increasing KV size.' } },
      { ...retry('context_length_exceeded', false), noRoom: true },
    ],
    [
      'llama.cpp, an operation that it was not started for',
      501,
      {
        error: {
          code: 501,
          message: 'This server does not support completions',
          type: 'not_supported_error',
        },
      },
      stop('not_supported'),
    ],
  ])('%s', (_, status, body, expected) => {
    expect(judge(status, body)).toMatchObject(expected);
  });

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
