import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type LlamaServer, llamaServer, tokensOf } from '../support/llama-server.js';
import { MemoryPlace } from '../support/memory-place.js';
import { SERVICES } from '../support/operations.js';
import { promptsOf } from '../support/scripted-service.js';

const BUILDS = ['b4748', 'v0.5.0'] as const;

/** Prompts of 6 to 25 words, the first of which is the number of the row. */
const prompt = (row: number): string => [`${row}`, ...Array(row % 20), ...Array(5)].fill('word', 1).join(' ');

/** Prompts of 20 to 39 words of nine letters. */
const long = (row: number): string =>
  Array(20 + (row % 20))
    .fill('delivered')
    .join(' ');

/** What it answers to the first rows. */
const LABELS = { labels: ['re 1', 're 2', 're 3'] };

const SUFFIX: [LlamaServer['build'], object, string] = [
  'b4748',
  { parameters: { suffix: ' end' } },
  'Unsupported param: suffix (HTTP 500)',
];

describe.each(SERVICES)("llama.cpp's own server, asked for $operation", ({ operation, deployment }) => {
  const isChat = operation === 'chat';
  // Its template puts a word before the message.
  const tokens = (text: string): number => tokensOf(text) + (isChat ? 1 : 0);
  const service = { deployment: 'm', style: 'openai', operation };
  let place: MemoryPlace;
  beforeEach(() => {
    place = new MemoryPlace();
  });
  afterEach(() => place.work.remove());
  const run = async (server: LlamaServer, job: object, rows = 12) => {
    place.script = llamaServer(server);
    const lines = Array.from({ length: rows }, (_, i) => JSON.stringify({ prompt: prompt(i + 1) }));
    const path = place.work.job({
      service,
      parameters: { max_tokens: 16 },
      input: { path: place.work.write('in.jsonl', `${lines.join('\n')}\n`) },
      prompt: '{{ prompt }}',
      output: { path: 'out.jsonl' },
      ...job,
    });
    return await place.run(path);
  };
  const records = () => place.work.lines('out.jsonl');
  const summary = () => place.work.json('out.summary.json');
  const sum = (tokens: readonly number[]): number => tokens.reduce((a, b) => a + b, 0);

  it.each(BUILDS)('%s is told max_tokens, so a budget holds', async (build) => {
    const { code, said, shown } = await run(
      { build },
      { limits: { budget: { tokens: 600 }, concurrency: 4 } },
      40,
    );
    expect(code, said).toBe(3);
    expect(shown).toContain('limits.budget.tokens is 600');
    for (const { body } of place.machine.requests) expect(body['max_tokens']).toBe(16);
    expect(sum(place.machine.requests.map((each) => tokens(each.prompt) + 16))).toBeLessThanOrEqual(600);
  });

  if (!isChat)
    it('b4748 says the usage of each prompt of a list, and each row has its own', async () => {
      const { code, said } = await run(
        { build: 'b4748' },
        { parameters: { max_tokens: 3 }, limits: { prompts_per_request: 6 } },
      );
      expect(code, said).toBe(0);
      expect(place.machine.calls()).toBe(2);
      expect(records().map(({ answer, usage }) => [answer, usage])).toEqual(
        Array.from({ length: 12 }, (_, i) => {
          const prompt_tokens = tokens(prompt(i + 1));
          const usage = { prompt_tokens, completion_tokens: 3, total_tokens: prompt_tokens + 3 };
          return [`re ${i + 1}`, usage];
        }),
      );
      expect(summary()).not.toHaveProperty('usage_estimated');
    });

  if (!isChat)
    it('v0.5.0 says the usage of the first prompt alone, so the tokens of a list are counted here', async () => {
      const { code, said } = await run(
        { build: 'v0.5.0' },
        { parameters: { max_tokens: 3 }, limits: { prompts_per_request: 6, concurrency: 1 } },
      );
      expect(code, said).toBe(0);
      expect(place.machine.calls()).toBe(2);
      const usages = records().map(({ usage }) => usage);
      for (const [i, usage] of usages.entries()) {
        expect(usage).toMatchObject({ estimated: true });
        expect(usage.prompt_tokens).toBeGreaterThan(0.75 * prompt(i + 1).split(' ').length);
      }
      expect(summary()).toMatchObject({ usage_estimated: 12 });
    });

  if (!isChat)
    it('v0.5.0 does not get past a budget with lists of prompts', async () => {
      const limits = { prompts_per_request: 6, concurrency: 1, budget: { tokens: 800 } };
      const { code, said } = await run({ build: 'v0.5.0' }, { limits }, 60);
      expect(code, said).toBe(3);
      const true_tokens = place.machine.requests.flatMap(promptsOf).map((each) => tokens(each) + 16);
      expect(sum(true_tokens)).toBeLessThanOrEqual(800);
    });

  it('fault 96: a budget that is enough is enough, also with lists of prompts and a tokenizer that nobody knows', async () => {
    // Four tokens for each word, short answers that may be long, and the usage of the first prompt alone.
    const count = (text: string): number => 4 * text.split(' ').length;
    let spent = 0;
    place.script = (request) => {
      const prompts = isChat ? [request.prompt] : promptsOf(request);
      const said = isChat ? { message: { role: 'assistant', content: 'good' } } : { text: ' good' };
      spent += prompts.reduce((sum, each) => sum + count(each) + 3, 0);
      const usage = { prompt_tokens: count(prompts[0] ?? ''), completion_tokens: 3 };
      return {
        json: {
          choices: prompts.map((_, index) => ({ ...said, index, finish_reason: 'stop' })),
          usage: { ...usage, total_tokens: usage.prompt_tokens + 3 },
        },
      };
    };
    const lines = Array.from({ length: 300 }, (_, i) => JSON.stringify({ prompt: long(i + 1) }));
    const job = (tokens: number) =>
      place.work.job({
        service,
        input: { path: place.work.write('in.jsonl', `${lines.join('\n')}\n`) },
        prompt: '{{ prompt }}',
        output: { path: `out-${tokens}.jsonl` },
        parameters: { max_tokens: 200 },
        limits: { prompts_per_request: 6, concurrency: 4, budget: { tokens } },
      });
    const { code, said } = await place.run(job(60_000));
    expect(code, said).toBe(0);
    expect(spent).toBeLessThanOrEqual(60_000);
    const { total_tokens } = place.work.json('out-60000.summary.json')['usage'] as {
      total_tokens: number;
    };
    expect(Math.abs(total_tokens / spent - 1)).toBeLessThan(0.25);

    spent = 0;
    const stopped = await place.run(job(20_000));
    expect(stopped.code, stopped.said).toBe(3);
    expect(spent).toBeLessThanOrEqual(20_000);
    expect(spent).toBeGreaterThan(10_000);
  });

  it('fault 97: b4748 cuts prompts in silence, which the counts of the others show where the tokenizer is not known', async () => {
    place.script = llamaServer({ build: 'b4748', context: 200 });
    const words = (row: number): number => (row % 11 === 0 ? 400 : 100 + (row % 30));
    const lines = Array.from({ length: 99 }, (_, i) =>
      JSON.stringify({
        prompt: Array(words(i + 1))
          .fill('wort')
          .join(' '),
      }),
    );
    const path = place.work.job({
      service,
      input: { path: place.work.write('in.jsonl', `${lines.join('\n')}\n`) },
      prompt: '{{ prompt }}',
      output: { path: 'out.jsonl' },
      limits: { concurrency: 1 },
    });
    const { code, said } = await place.run(path);
    expect(code, said).toBe(0);
    expect(records().flatMap(({ row, error }) => (error?.code === 'prompt_cut' ? [row] : []))).toEqual(
      Array.from({ length: 9 }, (_, i) => 11 * (i + 1)),
    );
  });

  it('b4748 cuts a prompt that is too long, and the row says so', async () => {
    const { code, said } = await run(
      { build: 'b4748', context: 16 },
      { service: { ...service, model: deployment } },
    );
    expect(code, said).toBe(0);
    expect(records().map(({ error }) => error?.code ?? null)).toEqual(
      Array.from({ length: 12 }, (_, i) => (tokens(prompt(i + 1)) >= 16 ? 'prompt_cut' : null)),
    );
  });

  it('v0.5.0 refuses it, and only that row fails', async () => {
    const { code, said } = await run({ build: 'v0.5.0', context: 16 }, {});
    expect(code, said).toBe(1);
    expect(records().map(({ error }) => error?.code ?? null)).toEqual(
      Array.from({ length: 12 }, (_, i) => (tokens(prompt(i + 1)) >= 16 ? 'context_length_exceeded' : null)),
    );
  });

  it.each<[LlamaServer['build'], object, message: string]>([
    ...(isChat ? [] : [SUFFIX]),
    ['b4748', { answer: { ...LABELS, votes: 3 } }, 'Only one completion choice is allowed (HTTP 500)'],
    [
      'v0.5.0',
      { answer: { ...LABELS, votes: 5 } },
      'Value must be between 1 <= value <= 4, but got 5 (HTTP 400)',
    ],
  ])('%s stops the run at once where it cannot do %j', async (build, job, message) => {
    const { code, said, shown } = await run({ build }, { ...job, limits: { concurrency: 2 } }, 60);
    expect(code, said).toBe(3);
    expect(shown).toContain('not_supported: ');
    expect(shown).toContain(message);
    if ('answer' in job) expect(shown).toContain('lower answer.votes');
    expect(place.machine.calls()).toBeLessThanOrEqual(2);
  });

  it('v0.5.0 says the usage of the first choice alone, so the tokens of all votes are counted here', async () => {
    const job = { answer: { ...LABELS, votes: 4 }, parameters: { max_tokens: 3 } };
    const { code, said } = await run({ build: 'v0.5.0' }, { ...job, limits: { concurrency: 1 } }, 3);
    expect(code, said).toBe(0);
    expect(records().map(({ answer, confidence }) => [answer, confidence])).toEqual(
      LABELS.labels.map((label) => [label, 1]),
    );
    for (const [i, { usage }] of records().entries()) {
      expect(usage).toMatchObject({ prompt_tokens: tokens(prompt(i + 1)), estimated: true });
      expect(usage.completion_tokens).toBeGreaterThan(3);
    }
    expect(summary()).toMatchObject({ usage_estimated: 3 });
  });

  if (isChat)
    it.each(BUILDS)(
      '%s is sent the schema of the answers, which are read whether it keeps to it or not',
      async (build) => {
        const { code, said } = await run({ build }, { answer: { ...LABELS, send_schema: true } }, 3);
        expect(code, said).toBe(0);
        expect(records().map(({ answer }) => answer)).toEqual(LABELS.labels);
        for (const { body } of place.machine.requests) expect(body).toHaveProperty('response_format');
      },
    );

  if (!isChat)
    it('fails the row alone that has a field of its own that it does not know', async () => {
      const lines = Array.from({ length: 20 }, (_, i) =>
        JSON.stringify({ prompt: prompt(i + 1), ...(i === 3 && { suffix: ' end' }) }),
      );
      const input = place.work.write('suffix.jsonl', `${lines.join('\n')}\n`);
      const { code, said } = await run(
        { build: 'b4748' },
        { input: { path: input }, row_parameters: ['suffix'], limits: { concurrency: 2 } },
      );
      expect(code, said).toBe(1);
      expect(records().map(({ error }) => error?.code ?? null)).toEqual(
        Array.from({ length: 20 }, (_, i) => (i === 3 ? 'not_supported' : null)),
      );
    });

  it('gets a prompt with half a surrogate pair as text', async () => {
    const input = place.work.write('odd.jsonl', '{"prompt":"odd \\ud800 one"}\n');
    const { code, said } = await run({ build: 'b4748' }, { input: { path: input } });
    expect(code, said).toBe(0);
    expect(place.machine.requests.map((each) => each.prompt)).toEqual(['odd \ufffd one']);
  });

  it('is waited for while it loads its model, and no row uses an attempt up', async () => {
    const limits = { attempts: 1, concurrency: 2 };
    const { code, said } = await run({ build: 'v0.5.0', loading: 2 }, { limits }, 5);
    expect(code, said).toBe(0);
    expect(records().map(({ status, attempts }) => `${status} ${attempts}`)).toEqual(
      Array(5).fill('completed 1'),
    );
  });

  it('stops the run when it fails every row alike and answers a plain call: that is no outage', async () => {
    const { code, said, shown } = await run(
      { build: 'b4748', fails: /word/ },
      { limits: { concurrency: 4, budget: { tokens: 100_000 } } },
      60,
    );
    expect(code, said).toBe(3);
    expect(shown).toContain(
      "not_supported: the service says of every row's request: cannot do that (HTTP 500), and answers a plain one",
    );
    const plain = place.machine.requests.filter((each) => each.prompt === 'Hello');
    expect(plain.map(({ body }) => body)).toEqual(Array(2).fill(expect.objectContaining({ max_tokens: 1 })));
    // Twice ten rows and one plain call, and what was on its way.
    expect(place.machine.calls()).toBeLessThanOrEqual(2 * (10 + 1 + 2 * 4));
  });

  it('fails the rows alone that it fails alike, where others are answered', async () => {
    const { code, said } = await run(
      { build: 'v0.5.0', fails: /^(1[3-9]|[2-6]\d) / },
      { limits: { concurrency: 4, attempts: 2, give_up_after: '1h' } },
      60,
    );
    expect(code, said).toBe(1);
    expect(records().map(({ status, attempts }) => `${status} ${attempts}`)).toEqual(
      Array.from({ length: 60 }, (_, i) => (i < 12 ? 'completed 1' : 'failed 2')),
    );
    expect(summary()).toMatchObject({ calls: { sent: place.machine.calls() } });
  });
});
