import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunFlags } from '../../src/config/settings.js';
import { MemoryPlace } from '../support/memory-place.js';
import type { Workplace } from '../support/promptmill.js';
import { chatBody, completionBody, type Script, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { withResolvers } from '../support/with-resolvers.js';

const store = oneStore();

const CHAT = { operation: 'chat', deployment: 'lm-35-turbo' };
const LABELS = { labels: ['positive', 'negative', 'neutral'] };

describe('the chat operation', () => {
  let place: MemoryPlace;
  let work: Workplace;
  beforeEach(() => {
    place = new MemoryPlace();
    work = place.work;
    work.write('in.csv', 'id,review\n1,Good\n2,Bad\n3,Fine\n');
  });
  afterEach(() => work.remove());

  const bodies = () => place.machine.requests.map(({ body }) => body);
  const written = (job: object): string =>
    work.job({
      service: CHAT,
      input: { path: 'in.csv' },
      prompt: 'Review: {{ review }}',
      output: { path: 'out.csv' },
      ...job,
    });
  const run = (job: object, flags: RunFlags = {}) => place.run(written(job), flags);
  /** By the command, with a server. */
  const runCommand = async (job: string, ...flags: string[]) => {
    const service = await startScriptedService(place.script);
    try {
      const ended = await work.call(['run', job, ...flags], { PROMPTMILL_BASE_URL: service.url, ...store() });
      expect(ended.code, ended.stderr).toBe(0);
      return { requests: service.requests, stderr: ended.stderr };
    } finally {
      await service.close();
    }
  };

  it('asks each row as the message of a user, and the answer is the content of a message', async () => {
    const parameters = { max_tokens: 5, temperature: 0 };
    const { requests } = await runCommand(written({ answer: LABELS, parameters }));
    expect(requests[0]?.url).toBe(
      '/openai/deployments/lm-35-turbo/chat/completions?api-version=2023-09-15-preview',
    );
    expect(requests[0]?.headers['api-key']).toBeDefined();
    expect(requests.map(({ body }) => body)).toContainEqual({
      messages: [{ role: 'user', content: 'Review: Good' }],
      max_tokens: 5,
      temperature: 0,
    });
    expect(work.records('out.csv')).toMatchObject([
      { id: '1', status: 'completed', answer: 'positive', text: 'positive', model: 'lm-35-turbo' },
      { id: '2' },
      { id: '3' },
    ]);
  });

  it('is called in the openai style at /v1/chat/completions, with the model in the body', async () => {
    const service = { operation: 'chat', deployment: 'my-model', style: 'openai' };
    const {
      requests: [first],
    } = await runCommand(written({ service }));
    expect(first).toMatchObject({
      url: '/v1/chat/completions',
      body: { model: 'my-model', max_tokens: 1024 },
    });
    expect(first?.headers.authorization).toMatch(/^Bearer /);
  });

  it('has a system message beside the prompt, or the messages of the job', async () => {
    const asked = await run({ system: 'You judge {{ id }}.' }, { limit: 1 });
    expect(asked.code, asked.said).toBe(0);
    expect(bodies()[0]?.['messages']).toEqual([
      { role: 'system', content: 'You judge 1.' },
      { role: 'user', content: 'Review: Good' },
    ]);
    const messages = [
      { role: 'user', content: 'Great!' },
      { role: 'assistant', content: 'positive' },
      { role: 'user', content: '{{ review }}' },
    ];
    const ended = await run({ prompt: undefined, messages, output: { path: 'b.csv' } }, { limit: 1 });
    expect(ended.code, ended.said).toBe(0);
    expect(bodies()[1]?.['messages']).toEqual([...messages.slice(0, 2), { role: 'user', content: 'Good' }]);
  });

  it("takes a row's own messages from its body, and its parameters", async () => {
    const own = [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }];
    const lines = [
      { custom_id: 'a', body: { messages: own, model: 'other', max_completion_tokens: 7 } },
      { custom_id: 'b', body: { messages: [{ role: 'boss', content: 'Hi' }] } },
      { custom_id: 'c', body: { messages: own, suffix: 'x' } },
      { custom_id: 'd', body: { messages: [{ role: 'user', content: ' ' }] } },
    ];
    work.write('in.jsonl', lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const ended = await run({ prompt: undefined, system: 'Ignored', input: { path: 'in.jsonl' } });
    expect(ended.code, ended.said).toBe(1);
    expect(bodies()).toEqual([{ messages: [{ role: 'user', content: 'Hi' }], max_completion_tokens: 7 }]);
    expect(work.records('out.csv').map((row) => [row['status'], row['error_message']])).toEqual([
      ['completed', ''],
      ['failed', 'messages[0].role must be developer, system, user or assistant, got "boss"'],
      [
        'failed',
        'suffix is a parameter of the completions operation: take it out, or set service.operation: completions',
      ],
      ['failed', 'the prompt is empty'],
    ]);
  });

  it('names the limit of the tokens as the model wants it, found out in one wave and said once', async () => {
    work.write('in.csv', `id,review\n${Array.from({ length: 40 }, (_, i) => `${i},text ${i}\n`).join('')}`);
    // The calls of the wave are all made before the first of them is answered.
    const wave = withResolvers();
    place.script = async ({ body, total }) => {
      if (total === 4) wave.resolve();
      await wave.promise;
      return 'max_tokens' in body
        ? {
            status: 400,
            json: {
              error: {
                message:
                  "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                type: 'invalid_request_error',
                param: 'max_tokens',
                code: 'unsupported_parameter',
              },
            },
          }
        : { json: chatBody() };
    };
    const job = written({ parameters: { max_tokens: 50 }, limits: { concurrency: 4 } });
    const { requests, stderr } = await runCommand(job);
    const bodies = requests.map(({ body }) => body);
    const refused = bodies.filter((body) => 'max_tokens' in body).length;
    expect(refused).toBe(4);
    expect(bodies.filter((body) => body['max_completion_tokens'] === 50)).toHaveLength(40);
    expect(new Set(work.records('out.csv').map((row) => row['attempts']))).toEqual(new Set(['1']));
    expect(work.json('out.summary.json')).toMatchObject({ calls: { sent: 40 + refused, retried: refused } });
    expect(stderr.match(/refuses max_tokens/g)).toHaveLength(1);
  });

  it('sends max_completion_tokens at once where the job or its reasoning effort says so', async () => {
    await run({ parameters: { max_completion_tokens: 9 } }, { limit: 1 });
    await run({ parameters: { reasoning_effort: 'low' }, output: { path: 'b.csv' } }, { limit: 1 });
    expect(bodies()).toMatchObject([{ max_completion_tokens: 9 }, { max_completion_tokens: 1024 }]);
    expect(bodies().some((body) => 'max_tokens' in body)).toBe(false);
  });

  it('packs no rows, and says so', async () => {
    const ended = await run({ limits: { prompts_per_request: 3 } });
    expect(ended.code, ended.said).toBe(0);
    expect(place.machine.calls()).toBe(3);
    expect(ended.said).toContain('limits.prompts_per_request has no effect');
  });

  it.each([
    ['completions', { prompt: 'Review: {{ review }}' }],
    ['chat', { messages: [{ role: 'user', content: '{{ review }}' }], prompt: undefined }],
  ])('sends fields of a server itself beside the others (%s)', async (operation, job) => {
    const extra = { top_k: 20, chat_template_kwargs: { enable_thinking: false } };
    await run(
      {
        ...job,
        service: { operation, deployment: 'm', style: 'openai' },
        parameters: { extra_body: extra },
      },
      { limit: 1 },
    );
    expect(bodies()[0]).toMatchObject(extra);
    expect(bodies()[0]).not.toHaveProperty('extra_body');
  });

  it('asks again with all messages, and the last one says what was wrong', async () => {
    place.script = (request) => ({
      json: chatBody({ content: request.prompt.startsWith('(') ? 'negative' : 'what?' }),
    });
    const ended = await run(
      { system: 'Judge.', answer: { ...LABELS, on_invalid: { ask_again: 1 } } },
      { limit: 1 },
    );
    expect(ended.code, ended.said).toBe(0);
    expect(bodies()[1]?.['messages']).toMatchObject([
      { role: 'system', content: 'Judge.' },
      {
        role: 'user',
        content: expect.stringMatching(/^\(An earlier answer could not be used: .*Review: Good$/s),
      },
    ]);
    expect(work.records('out.csv')).toMatchObject([{ answer: 'negative', answer_source: 'asked_again' }]);
  });

  it('copies the answer of an equal request, but not from the other operation', async () => {
    work.write('in.csv', 'id,review\n1,Same\n2,Same\n');
    const reuse = { input: { path: 'in.csv', dedupe: true, only_new: true }, parameters: { temperature: 0 } };
    const openai = { deployment: 'm', style: 'openai' };
    await run({ ...reuse, service: { ...openai, operation: 'chat' } });
    expect(place.machine.calls()).toBe(1);
    place.script = () => ({});
    const ended = await run({ ...reuse, service: openai }, { overwrite: true });
    expect(ended.code, ended.said).toBe(0);
    expect(place.machine.calls()).toBe(2);
  });

  it('records a refusal as a completed row without an answer, and counts it as invalid', async () => {
    place.script = (request) => ({
      json: request.prompt.includes('Bad')
        ? chatBody({ content: null, refusal: "I can't judge that.", completion_tokens: 7 })
        : chatBody(),
    });
    const ended = await run({
      answer: { ...LABELS, require: { valid: 0.9 } },
      prices: { prompt: 1, completion: 1 },
    });
    expect(ended.code, ended.said).toBe(4);
    expect(place.machine.calls()).toBe(3);
    expect(ended.shown).toContain('3 completed + 0 filtered + 0 failed + 0 skipped; answers.refused 1');
    expect(ended.shown).toContain('66.6 % of 3 answers are valid');
    expect(work.records('out.csv')[1]).toMatchObject({
      ...{
        status: 'completed',
        answer: '',
        text: '',
        refusal: "I can't judge that.",
        completion_tokens: '7',
      },
      ...{
        error_code: 'answer_refused',
        error_message: 'the model refused: the text "I can\'t judge that."',
      },
    });
    expect(work.json('out.summary.json')).toMatchObject({
      ...{ answers_invalid: 0, answers_refused: 1, usage: { total_tokens: 41 }, cost: 0.041 },
    });
  });

  it('asks again after a refusal, where answers that do not fit are', async () => {
    place.script = ({ total }) => ({
      json: total === 1 ? chatBody({ content: null, refusal: 'No.' }) : chatBody(),
    });
    const ended = await run({ answer: { ...LABELS, on_invalid: { ask_again: 1 } } }, { limit: 1 });
    expect(ended.code, ended.said).toBe(0);
    expect(work.records('out.csv')).toMatchObject([{ answer: 'positive', refusal: '', total_tokens: '24' }]);
  });

  it('stops behind a canary of refusals, also where the job has no answer section', async () => {
    work.write('in.csv', `id,review\n${Array.from({ length: 60 }, (_, i) => `${i},text ${i}\n`).join('')}`);
    place.script = () => ({ json: chatBody({ content: null, refusal: 'No.' }) });
    const ended = await run({ limits: { canary: 5 } });
    expect(ended.code, ended.said).toBe(3);
    expect(ended.shown).toMatch(/answers\.refused \d+/);
    expect(place.machine.calls()).toBe(5);
  });

  it.each([
    [
      'a text that reasoning used up',
      chatBody({ content: '', finish_reason: 'length', completion_tokens: 50, reasoning_tokens: 50 }),
      ['cut_before_answer', /raise parameters.max_completion_tokens, or lower parameters.reasoning_effort/],
    ],
    [
      'tool calls',
      chatBody({ content: null, finish_reason: 'tool_calls', message: { tool_calls: [{ id: 'a' }] } }),
      ['unexpected_tool_calls', /calls a tool/],
    ],
  ])('fails a row with %s at once, and what it took is counted', async (_, json, [code, message]) => {
    place.script = () => ({ json });
    const ended = await run({ answer: LABELS }, { limit: 1 });
    expect(ended.code, ended.said).toBe(1);
    expect(place.machine.calls()).toBe(1);
    const [record] = work.records('out.csv');
    const { total_tokens, completion_tokens } = json.usage;
    expect(record).toMatchObject({
      status: 'failed',
      error_code: code,
      completion_tokens: `${completion_tokens}`,
    });
    expect(record?.['error_message']).toMatch(message ?? '');
    expect(work.json('out.summary.json')).toMatchObject({ usage: { total_tokens } });
  });

  it('joins a content in parts, and names one without a text', async () => {
    const parts = [
      { type: 'text', text: 'posi' },
      { type: 'text', text: 'tive' },
    ];
    place.script = ({ body }) => ({
      json: chatBody({ content: JSON.stringify(body).includes('Good') ? parts : null }),
    });
    const ended = await run({ answer: LABELS, limits: { attempts: 1 } }, { limit: 2 });
    expect(ended.code, ended.said).toBe(1);
    expect(work.records('out.csv')).toMatchObject([
      { answer: 'positive', text: 'positive' },
      { status: 'failed', error_code: 'no_text', error_message: expect.stringContaining('"content":null') },
    ]);
  });

  it('is filtered where the content filter leaves no content', async () => {
    place.script = () => ({ json: chatBody({ content: null, finish_reason: 'content_filter' }) });
    const ended = await run({ answer: LABELS }, { limit: 1 });
    expect(ended.code, ended.said).toBe(0);
    expect(work.records('out.csv')).toMatchObject([{ status: 'filtered', completion_filtered: 'true' }]);
  });

  it('stops where the service answers in the form of the other operation', async () => {
    place.script = () => ({ json: completionBody() });
    const ended = await run({});
    expect(ended.code, ended.said).toBe(3);
    expect(ended.shown).toMatch(
      /in the form of the completions operation, .* write service: { operation: completions }/,
    );
  });

  it('records cached and reasoning tokens behind the latency, in CSV and JSONL', async () => {
    place.script = () => ({
      json: chatBody({
        prompt_tokens: 2000,
        cached_tokens: 1024,
        completion_tokens: 30,
        reasoning_tokens: 20,
      }),
    });
    await run({}, { limit: 1 });
    const [header = ''] = work.read('out.csv').split('\n');
    expect(header).toMatch(/,latency_ms,refusal,cached_tokens,reasoning_tokens,error_code,error_message$/);
    expect(work.records('out.csv')).toMatchObject([
      { cached_tokens: '1024', reasoning_tokens: '20', refusal: '' },
    ]);
    const ended = await run({ output: { path: 'b.jsonl' } }, { limit: 1 });
    expect(ended.code, ended.said).toBe(0);
    expect(work.lines('b.jsonl')).toMatchObject([
      { usage: { cached_tokens: 1024, reasoning_tokens: 20 }, latency_ms: expect.any(Number), refusal: null },
    ]);
    expect(work.json('out.summary.json')).toMatchObject({
      usage: { cached_tokens: 1024, reasoning_tokens: 20, total_tokens: 2030 },
    });
  });

  it('calls refused and cut rows again with retry, and counts what both calls took', async () => {
    place.script = (request) => ({
      json: request.prompt.includes('Good')
        ? chatBody({ content: '', finish_reason: 'length' })
        : request.prompt.includes('Bad')
          ? chatBody({ content: null, refusal: 'No.' })
          : chatBody(),
    });
    await run({ answer: { ...LABELS, require: { valid: 0 } } });
    place.script = () => ({ json: chatBody() });
    const again = await place.retry('out.csv');
    expect(again.code, again.said).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({
      ...{ rows: { completed: 3 }, answers_refused: 1, usage: { total_tokens: 48 } },
    });
    const invalid = await place.retry('out.csv', { invalid: true });
    expect(invalid.code, invalid.said).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({ answers_refused: 0, usage: { total_tokens: 60 } });
    expect(new Set(work.records('out.csv').map(({ answer }) => answer))).toEqual(new Set(['positive']));
  });

  const SCHEMA = {
    type: 'object',
    properties: { tone: { type: 'string' }, score: { type: ['number', 'null'] } },
    required: ['tone', 'score'],
    additionalProperties: false,
  };
  const refusing =
    (message: string, code?: string): Script =>
    () => ({ status: 400, json: { error: { message, type: 'invalid_request_error', code } } });

  it('sends the schema of answer.json, strict where it can be, and checks what comes', async () => {
    place.script = () => ({ json: chatBody({ content: '{"tone": "warm", "score": 1}' }) });
    await run({ answer: { json: SCHEMA } }, { limit: 1 });
    expect(bodies()[0]?.['response_format']).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', schema: SCHEMA, strict: true },
    });
    expect(work.records('out.csv')).toMatchObject([{ tone: 'warm', score: '1' }]);
    const { additionalProperties: _, ...loose } = SCHEMA;
    place.script = () => ({ json: chatBody({ content: '{"tone": 7}' }) });
    const ended = await run({ answer: { json: loose }, output: { path: 'b.csv' } }, { limit: 1 });
    expect(ended.code).toBe(4);
    expect(bodies()[1]?.['response_format']).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', schema: loose },
    });
    await run({ answer: { json: SCHEMA, send_schema: false }, output: { path: 'c.csv' } }, { limit: 1 });
    expect(bodies()[2]).not.toHaveProperty('response_format');
  });

  it('sends labels as an enum only where asked, and reads the label out of the object', async () => {
    place.script = () => ({ json: chatBody({ content: '{"answer":"negative"}' }) });
    const ended = await run({ answer: { ...LABELS, send_schema: true } }, { limit: 1 });
    expect(ended.code, ended.said).toBe(0);
    expect(bodies()[0]).toMatchObject({
      response_format: {
        json_schema: {
          strict: true,
          schema: { properties: { answer: { type: 'string', enum: LABELS.labels } } },
        },
      },
    });
    expect(work.records('out.csv')).toMatchObject([{ answer: 'negative' }]);
    await run({ answer: LABELS, output: { path: 'b.csv' } }, { limit: 1 });
    expect(bodies()[1]).not.toHaveProperty('response_format');
  });

  it('stops at a server that refuses the schema, with the line to write', async () => {
    place.script = refusing(
      "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
    );
    const ended = await run({ answer: { json: SCHEMA } });
    expect(ended.code, ended.said).toBe(3);
    expect(ended.shown).toContain('write answer: { send_schema: false }');
  });

  it('says in check which schema is sent, and what is sent unchecked', async () => {
    const strict = await check({ answer: { json: SCHEMA }, parameters: { extra_body: { top_k: 1 } } });
    expect(strict).toMatchObject({ answer_schema: 'strict', extra_body: { top_k: 1 } });
    expect(await check({ answer: { json: { type: 'object' } } })).toMatchObject({
      answer_schema: 'not_strict',
    });
    expect(await check({ answer: LABELS })).toMatchObject({ answer_schema: null, extra_body: null });
    const path = work.job({
      service: CHAT,
      input: { path: 'in.csv' },
      prompt: '{{ review }}',
      answer: { json: SCHEMA },
    });
    const { stderr } = await work.call(['check', path], {});
    expect(stderr).toContain('sent with each request, strict');
  });

  it('reads how sure the model is from the log probabilities of its tokens', async () => {
    const at = (token: string, probability: number) => ({ token, logprob: Math.log(probability), bytes: [] });
    const top = [at('positive', 0.7), at('negative', 0.2)];
    const logprobs = { content: [{ ...at('positive', 0.7), top_logprobs: top }], refusal: null };
    place.script = () => ({ json: chatBody({ logprobs }) });
    const ended = await run(
      { answer: { ...LABELS, confidence: 'logprobs', abstain_below: 0.8 } },
      { limit: 1 },
    );
    expect(bodies()[0]).toMatchObject({ logprobs: true, top_logprobs: 5, temperature: 0 });
    expect(ended.shown).toContain('answers.abstained 1');
    expect(work.records('out.csv')).toMatchObject([{ answer: '', confidence: '0.7', abstained: 'true' }]);
  });

  it('has several choices vote, and a refusal or a text that was used up is no vote', async () => {
    place.script = () => {
      const body = chatBody();
      const bodies = [
        chatBody({ content: '', finish_reason: 'length' }),
        chatBody({ content: '', refusal: 'No.' }),
        ...['positive', 'negative', 'positive'].map((content) => chatBody({ content })),
      ];
      const choices = bodies.map(({ choices: [choice] }, index) => ({ ...choice, index }));
      return { json: { ...body, choices } };
    };
    const ended = await run({ answer: { ...LABELS, votes: 5 } }, { limit: 1 });
    expect(ended.code, ended.said).toBe(0);
    expect(bodies()[0]).toMatchObject({ n: 5 });
    expect(work.records('out.csv')).toMatchObject([{ answer: 'positive', confidence: '0.4', refusal: '' }]);
  });

  it.each(['temperature', 'logprobs'])('says votes where a reasoning model refuses %s', async (field) => {
    place.script = refusing(
      `Unsupported parameter: '${field}' is not supported with this model.`,
      'unsupported_parameter',
    );
    const ended = await run({ answer: { ...LABELS, confidence: 'logprobs' } });
    expect(ended.code, ended.said).toBe(3);
    expect(ended.shown).toContain('write answer.votes: 5 in place of answer.confidence');
  });

  it('answers the sample job', async () => {
    for (const file of ['jobs/chat.yaml', 'samples/reviews.csv']) work.write(file, readFileSync(file));
    const answer = { sentiment: 'positive', topic: 'price', would_buy_again: null };
    place.script = () => ({ json: chatBody({ content: JSON.stringify(answer), cached_tokens: 5 }) });
    const {
      requests: [first],
    } = await runCommand('jobs/chat.yaml', '--limit', '12');
    expect(first?.body).toMatchObject({
      messages: [{ role: 'system' }, { role: 'user', content: expect.stringContaining('Review: ') }],
      response_format: { json_schema: { strict: true } },
    });
    expect(work.records('out/facts.csv')[0]).toMatchObject({
      ...{ status: 'completed', sentiment: 'positive', topic: 'price', cached_tokens: '5', refusal: '' },
    });
  });

  const check = async (job: object) => {
    const path = work.job({
      service: CHAT,
      input: { path: 'in.csv' },
      prompt: 'Review: {{ review }}',
      ...job,
    });
    const ended = await work.call(['check', path, '--json'], {});
    expect(ended.code, ended.stderr).toBe(0);
    return JSON.parse(ended.stdout);
  };

  it('is quoted with the tokens around the messages: exact for a known model, a range for others', async () => {
    const known = await check({ system: 'Judge.', parameters: { max_tokens: 5 } });
    expect(known.tokens).toMatchObject({
      // Four around each message, three before the answer; Judge. has two, each prompt three.
      ...{ tokenizer: 'cl100k_base', tokenizer_assumed: false, prompt_tokens: 3 * (2 * 4 + 3 + 2 + 3) },
      completion_tokens: { least: 0, most: 15 },
    });
    const other = await check({ service: { ...CHAT, deployment: 'my-model' } });
    expect(other.tokens).toMatchObject({ tokenizer: 'o200k_base', tokenizer_assumed: true });
    expect(other.tokens.total_tokens.least).toBeLessThan(other.tokens.prompt_tokens);
  });

  it('is quoted with what a cache can hold: the common beginning, and what the columns hide', async () => {
    const text = 'word '.repeat(2000);
    const first = await check({ system: text, prices: { prompt: 1, cached: 0.5, completion: 1 } });
    const { prompt_tokens } = first.tokens;
    expect(first.cacheable_prompt_share).toBeGreaterThan(0.99);
    expect(first.cacheable_prompt_tokens).toBeGreaterThan(6000);
    expect(first.cost.least).toBeCloseTo((prompt_tokens - first.cacheable_prompt_tokens / 2) / 1000);
    const hidden = await check({ prompt: `{{ review }} ${text}` });
    expect(hidden.cacheable_prompt_share).toBeLessThan(0.01);
    expect(hidden.cacheable_at_best).toEqual({ columns: ['review'], prompt_tokens: expect.any(Number) });
    expect(hidden.cacheable_at_best.prompt_tokens).toBeGreaterThan(6000);
  });

  it('costs less for cached tokens, in the summary and in the budget', async () => {
    place.script = () => ({
      json: chatBody({ prompt_tokens: 1000, cached_tokens: 1000, completion_tokens: 0 }),
    });
    const prices = { prompt: 1, cached: 0.1, completion: 1 };
    // Three answers cost 0.3, and would cost 3 without a cache.
    const limits = { budget: { cost: 0.5 }, concurrency: 1 };
    const ended = await run({ prices, limits, parameters: { max_tokens: 1 } });
    expect(ended.code, ended.said).toBe(0);
    expect(work.json('out.summary.json')).toMatchObject({ cost: 0.3 });
  });

  it.each([
    [
      { service: { operation: 'caht', deployment: 'm' } },
      /:\d+: service.operation must be completions or chat, got "caht"; did you mean chat\?/,
    ],
    [
      { messages: [{ role: 'user', content: 'x' }] },
      /:\d+: messages cannot stand beside prompt: write the prompt as the last message/,
    ],
    [
      { system: 'x', prompt: undefined, messages: [{ role: 'user', content: 'x' }] },
      /:\d+: system cannot stand beside messages: write it as the first message/,
    ],
    [
      { prompt: undefined, messages: [{ role: 'boss', content: 'x' }] },
      /role must be developer, system, user or assistant, got "boss"/,
    ],
    [
      {
        prompt: undefined,
        messages: [
          { role: 'system', content: 'x' },
          { role: 'developer', content: 'y' },
        ],
      },
      /messages must not have the roles system and developer both/,
    ],
    [
      { parameters: { best_of: 3 } },
      /parameters.best_of is a parameter of the completions operation: take it out/,
    ],
    [{ parameters: { logprobs: 5 } }, /parameters.logprobs must be true or false, got 5/],
    [
      { parameters: { top_logprobs: 21, logprobs: true } },
      /parameters.top_logprobs must be a whole number between 0 and 20, got 21/,
    ],
    [{ parameters: { max_tokens: 0 } }, /parameters.max_tokens must be a whole number of at least 1, got 0/],
    [
      { parameters: { reasoning_effort: 'some' } },
      /parameters.reasoning_effort must be none, minimal, .*got "some"/,
    ],
    [
      { parameters: { logprobs: true }, answer: { ...LABELS, votes: 3 } },
      /parameters.logprobs must be left out where answer.votes is given/,
    ],
    [{ parameters: { logprobs: true, n: 2 } }, /parameters.n must be 1/],
    [{ parameters: { tools: [] } }, /parameters.tools cannot be set/],
    [{ parameters: { extra_body: { messages: [] } } }, /parameters.extra_body must not have messages/],
    [{ service: { deployment: 'm' }, system: 'x' }, /system needs service: { operation: chat }/],
    [
      { service: { deployment: 'm' }, prompt: undefined, messages: [{ role: 'user', content: 'x' }] },
      /messages needs service: { operation: chat }/,
    ],
    [
      { service: { deployment: 'm' }, parameters: { seed: 1 } },
      /parameters.seed is a parameter of the chat operation/,
    ],
    [
      { service: { deployment: 'm' }, answer: { ...LABELS, send_schema: true } },
      /answer.send_schema needs service: { operation: chat }/,
    ],
    [
      { answer: { ...LABELS, send_schema: true }, parameters: { response_format: { type: 'text' } } },
      /answer.send_schema cannot stand beside parameters.response_format/,
    ],
    [{ row_parameters: ['suffix'] }, /row_parameters is no parameter of the chat operation/],
    [
      { service: { deployment: 'lm-4' } },
      /lm-4 is a conversation model, .* write service: { operation: chat }/,
    ],
    [
      { service: { operation: 'chat', deployment: 'text-davinci-003' } },
      /is a completions model, .* write service: { operation: completions }/,
    ],
    [{ service: { ...CHAT, model: 'text-davinci-003' } }, /service.model is a completions model/],
  ])('refuses %j with a sentence, and sends nothing', async (job, message) => {
    const ended = await run(job);
    expect(ended.said).toMatch(message);
    expect(ended.code).toBe(2);
    expect(place.machine.calls()).toBe(0);
  });
});
