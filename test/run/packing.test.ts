import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MemoryPlace } from '../support/memory-place.js';
import { promptsOf, type ScriptedRequest, startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

/** An answer to each prompt of a request, the choices in reverse order. */
function answer(request: ScriptedRequest): object {
  const prompts = promptsOf(request);
  const choices = prompts.map((prompt, index) => ({ index, text: ` re ${prompt}`, finish_reason: 'stop' }));
  const prompt_tokens = prompts.length * 7;
  return {
    id: 'cmpl-1',
    object: 'text_completion',
    created: 1_700_000_000,
    model: 'lm-35-turbo-instruct',
    choices: choices.toReversed(),
    usage: { prompt_tokens, completion_tokens: prompts.length, total_tokens: prompt_tokens + prompts.length },
  };
}

const refusal = (code: string) => ({ status: 400, json: { error: { code, message: 'refused' } } });

describe('several prompts in one request', () => {
  const store = oneStore();
  let place: MemoryPlace;
  beforeEach(() => {
    place = new MemoryPlace();
  });
  afterEach(() => place.work.remove());

  const job = (rows: number, limits: object, more: object = {}) =>
    place.work.job({
      input: { path: place.work.rows(rows) },
      output: { path: 'out.jsonl' },
      limits: { concurrency: 2, prompts_per_request: 20, ...limits },
      ...more,
    });
  const records = () => place.work.lines('out.jsonl');

  it('are answered each by the choice of its index, and share the usage out', async () => {
    const service = await startScriptedService((request) => ({ json: answer(request) }));
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const { code, stderr } = await place.work.call(['run', job(100, {})], env);
    await service.close();

    expect(code, stderr).toBe(0);
    expect(service.requests.length).toBe(5);
    expect(records().map((record) => record.answer)).toEqual(
      Array.from({ length: 100 }, (_, i) => `re row ${i + 1}`),
    );
    expect(records().every((record) => record.usage.estimated === true)).toBe(true);
    expect(place.work.json('out.summary.json')).toMatchObject({
      usage: { prompt_tokens: 700, completion_tokens: 100, total_tokens: 800 },
      calls: { sent: 5, retried: 0, repeated: 0 },
    });
  });

  it('a prompt that the service cannot take fails alone, though nobody says which it is', async () => {
    place.script = (request) =>
      promptsOf(request).includes('row 33') ? { status: 500, text: 'oops' } : { json: answer(request) };
    const { code, said } = await place.run(job(60, { attempts: 4 }));
    expect(code, said).toBe(1);
    const failed = records().filter((record) => record.status === 'failed');
    expect(failed.map((record) => record.row)).toEqual([33]);
  });

  it('one blocked prompt among twenty costs its neighbours nothing', async () => {
    place.script = (request) =>
      promptsOf(request).includes('row 13') ? refusal('content_filter') : { json: answer(request) };
    const { code, said } = await place.run(job(20, {}));

    expect(code, said).toBe(0);
    const all = records();
    expect(all.map((record) => record.status)).toEqual(
      Array.from({ length: 20 }, (_, i) => (i === 12 ? 'filtered' : 'completed')),
    );
    expect(all.every((record) => record.attempts === 1)).toBe(true);
    // 20 → 10 + 10 → 5 + 5 → 3 + 2 → 2 + 1 or 1 + 1: the halves without the culprit are answered at once.
    expect(place.machine.requests.length).toBeLessThanOrEqual(11);
    expect(
      place.machine.requests.filter((request) => promptsOf(request).includes('row 1')).length,
    ).toBeLessThanOrEqual(3);
  });

  it('go in one request only with equal parameters', async () => {
    place.script = (request) => ({ json: answer(request) });
    const rows = Array.from({ length: 12 }, (_, i) => `${i + 1},${i % 3 === 0 ? 7 : ''}`);
    place.work.write('mixed.csv', `id,max_tokens\n${rows.join('\n')}\n`);
    const path = place.work.job({
      input: { path: 'mixed.csv' },
      output: { path: 'out.jsonl' },
      parameters: { max_tokens: 3 },
      row_parameters: ['max_tokens'],
      limits: { concurrency: 2, prompts_per_request: 20 },
    });
    const { code, said } = await place.run(path);

    expect(code, said).toBe(0);
    expect(place.machine.requests.map(({ body }) => body['max_tokens']).sort()).toEqual([3, 7]);
  });

  it("an answer that lacks a choice is nobody's, and its rows are asked again one by one", async () => {
    place.script = (request) => {
      const body = answer(request) as { choices: { index: number }[] };
      if (place.machine.requests.length > 1) return { json: body };
      return { json: { ...body, choices: body.choices.filter(({ index }) => index !== 4 && index !== 9) } };
    };
    const { code, said } = await place.run(job(20, { attempts: 3 }));

    expect(code, said).toBe(0);
    expect(place.machine.requests.map((request) => promptsOf(request).length)).toEqual([
      20,
      ...Array(20).fill(1),
    ]);
    expect(records().map((record) => record.answer)).toEqual(
      Array.from({ length: 20 }, (_, i) => `re row ${i + 1}`),
    );
    expect(place.work.json('out.summary.json')).toMatchObject({
      calls: { sent: 21, retried: 20, repeated: 20 },
    });
  });

  it('finishes under a quota of requests in a fifteenth of the requests that single prompts need', async () => {
    place.script = (request) => ({ json: answer(request) });
    expect((await place.run(job(300, {}))).code).toBe(0);
    const packed = place.machine.requests.length;
    expect(
      (
        await place.run(
          place.work.job({ input: { path: 'rows.csv' }, output: { path: 'one.jsonl' } }, 'one.yaml'),
        )
      ).code,
    ).toBe(0);
    const single = place.machine.requests.length - packed;
    expect(single / packed).toBeGreaterThanOrEqual(15);
  });
});
