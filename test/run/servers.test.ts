import { describe, expect, it } from 'vitest';
import type { Ended } from '../support/promptmill.js';
import { scriptedPlace } from '../support/scripted-place.js';
import { promptsOf, type ScriptedRequest } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

/** One choice for each prompt of a request. */
const choices = (request: ScriptedRequest, more: object = {}) =>
  promptsOf(request).map((prompt, index) => ({
    index,
    text: ` re ${prompt}`,
    finish_reason: 'stop',
    ...more,
  }));

const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };

/** An answer with what all have in common but LocalAI. */
const answer = (request: ScriptedRequest, id: string, more: object = {}) => ({
  json: { id, object: 'text_completion', created: 1, model: 'm', choices: choices(request, more), usage },
});

/** Each test is one server as its family answers; see docs/servers.md. */
describe('a server of the same shape', () => {
  const store = oneStore();
  const place = scriptedPlace();
  /** Runs a job of the style `openai`, one call at a time. */
  async function run(job: object, base = '', env: Readonly<Record<string, string>> = {}): Promise<Ended> {
    const { deployment = 'my-model', limits = {}, ...rest } = { deployment: 'my-model', limits: {}, ...job };
    const path = place.work.job({
      service: { deployment, style: 'openai' },
      input: { path: place.work.rows(3) },
      output: { path: 'out.jsonl' },
      limits: { concurrency: 1, attempts: 3, ...limits },
      ...rest,
    });
    return await place.work.call(['run', path], {
      PROMPTMILL_BASE_URL: place.service.url + base,
      ...store(),
      ...env,
    });
  }

  const records = () => place.work.lines('out.jsonl');
  const summary = () => place.work.json('out.summary.json');

  it('like vLLM: errors of an `object` with a number as code, and a context window that is not known here', async () => {
    const refusal = (message: string) => ({
      status: 400,
      json: { object: 'error', message, type: 'BadRequestError', param: null, code: 400 },
    });
    place.script = (request) => {
      if (request.prompt.length > 100_000) {
        return refusal(
          "This model's maximum context length is 4096 tokens. However, you requested 50000 tokens.",
        );
      }
      if (request.prompt === 'row 3') return refusal('temperature must be at most 2');
      return answer(request, 'cmpl-1');
    };
    place.work.write('long.csv', `id\n1\n${'long '.repeat(40_000)}\n3\n`);

    const { code, stderr } = await run({
      deployment: 'org/model-7b',
      input: { path: 'long.csv' },
      parameters: { max_tokens: 8, best_of: 2 },
    });

    expect(code, stderr).toBe(1);
    expect(records().map(({ answer, attempts, error }) => [answer, attempts, error?.code])).toEqual([
      ['re row 1', 1, undefined],
      [null, 1, 'context_length_exceeded'],
      [null, 1, 'invalid_request'],
    ]);
    const [first] = place.service.requests;
    expect(first).toMatchObject({ method: 'POST', url: '/v1/completions' });
    expect(first?.headers).toMatchObject({ authorization: 'Bearer a-key-for-tests-only' });
    expect(first?.headers).not.toHaveProperty('api-key');
    expect(first?.body).toEqual({ model: 'org/model-7b', prompt: 'row 1', max_tokens: 8, best_of: 2 });
  });

  it('like vLLM that chats: nulls in every place, a thought beside the answer, and both names of the limit in one error', async () => {
    const spare = {
      service_tier: null,
      system_fingerprint: null,
      prompt_logprobs: null,
      kv_transfer_params: null,
    };
    const said = (message: object, finish_reason: string, more: object = {}) => ({
      json: {
        ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'org/model-7b', ...spare },
        choices: [
          {
            ...{ index: 0, logprobs: null, finish_reason, stop_reason: null, token_ids: null },
            message: {
              ...{ role: 'assistant', content: null, refusal: null, annotations: null, audio: null },
              ...{
                function_call: null,
                tool_calls: [],
                reasoning: null,
                reasoning_content: null,
                ...message,
              },
            },
          },
        ],
        usage: { ...usage, prompt_tokens_details: null, ...more },
      },
    });
    place.script = ({ prompt }) => {
      if (prompt === 'row 1') return said({ content: '\n\nre row 1', reasoning: 'Well.' }, 'stop');
      if (prompt === 'row 2') return said({ reasoning_content: 'Well, this is' }, 'length');
      const message =
        "'max_tokens' or 'max_completion_tokens' is too large: 1024. This model's maximum context length is 4096 tokens and your request has 4000 input tokens (1024 > 4096 - 4000).";
      return { status: 400, json: { error: { message, type: 'BadRequestError', param: null, code: 400 } } };
    };

    const service = { deployment: 'org/model-7b', style: 'openai', operation: 'chat' };
    const { code, stderr } = await run({ service });

    expect(code, stderr).toBe(1);
    expect(records().map(({ answer, attempts, error }) => [answer, attempts, error?.code])).toEqual([
      ['re row 1', 1, undefined],
      [null, 1, 'cut_before_answer'],
      [null, 1, 'context_length_exceeded'],
    ]);
    expect(place.service.requests.map(({ url, body }) => [url, body['max_tokens']])).toEqual(
      Array(3).fill(['/v1/chat/completions', 1024]),
    );
    expect(stderr).not.toContain('max_completion_tokens, which');
    expect(summary()).toMatchObject({ calls: { sent: 3, retried: 0 }, usage: { total_tokens: 18 } });
  });

  it('like llama.cpp: 503 while the model loads, chat-style logprobs, ids that repeat', async () => {
    place.script = (request) => {
      const error = { code: 503, message: 'Loading model', type: 'unavailable_error' };
      if (request.total === 1) return { status: 503, json: { error } };
      const logprobs = { content: [{ id: 1, token: ' re', logprob: -0.1, top_logprobs: [] }] };
      return answer(request, 'chatcmpl-same', { logprobs });
    };

    const { code, stderr } = await run({ parameters: { logprobs: 1 } }, '/v1');

    expect(code, stderr).toBe(0);
    const logprobs = { content: [{ id: 1, token: ' re', logprob: -0.1, top_logprobs: [] }] };
    expect(records().map((record) => [record.answer, record.completion_id, record.logprobs])).toEqual(
      [1, 2, 3].map((row) => [`re row ${row}`, 'chatcmpl-same', logprobs]),
    );
    expect(place.service.requests.map(({ url }) => url)).toEqual(Array(4).fill('/v1/completions'));
    expect(summary()).toMatchObject({
      calls: { sent: 4, retried: 1, repeated: 0 },
      usage: { total_tokens: 27 },
    });
  });

  it('like Text Generation Inference: `error_type` with 422, 424 and 429, stop as a list, empty ids', async () => {
    const refusal = (status: number, error_type: string) => ({
      status,
      json: { error: 'in words', error_type },
    });
    place.script = (request) => {
      const { prompt, count, body } = request;
      if (prompt === 'row 1' && count === 1) return refusal(424, 'generation');
      if (prompt === 'row 2' && count === 1) return refusal(429, 'overloaded');
      if (prompt === 'row 3' || !Array.isArray(body['stop'])) return refusal(422, 'validation');
      return answer(request, '', { finish_reason: 'stop_sequence', logprobs: null });
    };

    const { code, stderr } = await run({ deployment: 'tgi', parameters: { stop: '\n' } });

    expect(code, stderr).toBe(1);
    expect(records()).toMatchObject([
      { status: 'completed', finish_reason: 'stop_sequence', completion_id: '', attempts: 2 },
      { status: 'completed', finish_reason: 'stop_sequence', completion_id: '', attempts: 1 },
      { status: 'failed', attempts: 1, error: { code: 'invalid_request', message: 'in words (HTTP 422)' } },
    ]);
    expect(place.service.requests.map(({ body }) => body['stop'])).toEqual(Array(5).fill(['\n']));
    expect(summary()).toMatchObject({
      calls: { sent: 5, retried: 1, rate_limited: 1, repeated: 0 },
      finish_reasons: { stop_sequence: 2 },
    });
  });

  it('like Ollama: takes a prompt as text only, and any word as a key', async () => {
    place.script = (request) => {
      const error = { message: 'json: cannot unmarshal array', type: 'invalid_request_error', code: null };
      return request.prompt === '' ? { status: 400, json: { error } } : answer(request, 'cmpl-7');
    };

    const limits = { prompts_per_request: 3 };
    const { code, stderr } = await run({ limits }, '/v1/', { PROMPTMILL_API_KEY: 'none' });

    expect(code, stderr).toBe(0);
    expect(records().map(({ answer }) => answer)).toEqual(['re row 1', 're row 2', 're row 3']);
    // Refused as three and as two; one prompt is sent as a text.
    const all = ['row 1', 'row 2', 'row 3'];
    expect(place.service.requests.map(({ body }) => body['prompt'])).toEqual([all, all.slice(0, 2), ...all]);
    const { url, headers } = place.service.requests[0] ?? {};
    expect([url, headers?.authorization]).toEqual(['/v1/completions', 'Bearer none']);
  });

  it('like LocalAI of old: no usage, no id, and more choices than prompts', async () => {
    place.script = (request) => ({
      json: { object: 'text_completion', choices: [...choices(request), { index: 9, text: 'no' }] },
    });

    const { code, stderr } = await run({ output: { path: 'out.csv' }, limits: { prompts_per_request: 2 } });

    expect(code, stderr).toBe(0);
    // Of the answer to two prompts nobody can say what the third choice means.
    expect(place.service.requests.map((request) => promptsOf(request).length).sort()).toEqual([1, 1, 1, 2]);
    const empty = ['prompt_tokens', 'total_tokens', 'prompt_filtered', 'completion_filtered'];
    for (const [i, record] of place.work.records('out.csv').entries()) {
      expect(record['answer']).toBe(`re row ${i + 1}`);
      for (const column of [...empty, 'model', 'completion_id', 'created'])
        expect(record[column], column).toBe('');
    }
    expect(place.work.records('out.csv').length).toBe(3);
    expect(summary()).toMatchObject({
      usage: { total_tokens: 0 },
      filters: { prompt: {}, completion: {} },
    });
  });

  it('like the LiteLLM proxy: below a path, with two keys, and codes that are texts', async () => {
    place.script = (request) => {
      const error = { message: 'Authentication Error', type: 'auth_error', param: 'None', code: '401' };
      const admitted = request.headers.authorization === 'Bearer second';
      return admitted ? answer(request, 'x') : { status: 401, json: { error } };
    };

    const keys = { PROMPTMILL_API_KEY: 'first', PROMPTMILL_API_KEY_2: 'second' };
    const { code, stderr } = await run({}, '/llm', keys);

    expect(code, stderr).toBe(0);
    expect(records().map(({ answer }) => answer)).toEqual(['re row 1', 're row 2', 're row 3']);
    // Only the first request bears the refused key.
    expect(place.service.requests.map(({ url, headers }) => `${url} ${headers.authorization}`)).toEqual(
      ['first', 'second', 'second', 'second'].map((key) => `/llm/v1/completions Bearer ${key}`),
    );
  });

  it('is not asked for several choices or for a stream, nor called without a key', async () => {
    place.script = () => ({});
    const unsupported = await run({ parameters: { n: 2, stream: true } });
    expect(unsupported.code).toBe(2);
    expect(unsupported.stderr).toContain('the first choice is the only one kept');
    expect(unsupported.stderr).toContain('parameters.stream cannot be set');
    const keyless = await run({}, '', { PROMPTMILL_API_KEY: '' });
    expect(keyless.code).toBe(2);
    expect(keyless.stderr).toContain('PROMPTMILL_API_KEY is not set');
    expect(place.service.requests.length).toBe(0);
  });
});
