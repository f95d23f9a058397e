import { describe, expect, it } from 'vitest';
import { readCompletions, readError } from '../../src/service/response.js';

/** The reading of a body for a single prompt. */
const readOne = (body: string) => readCompletions(body, 1)[0];
const read = (body: unknown) => readOne(JSON.stringify(body));
const safe = { filtered: false, severity: 'safe' };

describe('the body of an answer', () => {
  it('says null for all that the service leaves out', () => {
    expect(read({ choices: [{}] })).toEqual({
      ok: true,
      completion: { text: null, finish_reason: null, usage: null, model: null, id: null, created: null },
      filters: { prompt: null, completion: null },
    });
  });

  it.each([
    [{}, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    [
      { prompt_tokens: 5, total_tokens: 5 },
      { prompt_tokens: 5, completion_tokens: 0, total_tokens: 5 },
    ],
    [
      { prompt_tokens: 5, completion_tokens: 2 },
      { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
    ],
    [null, null],
    [{ prompt_tokens: 12.5, completion_tokens: 2 }, null],
    [{ prompt_tokens: 5, completion_tokens: 1e300 }, null],
    [{ prompt_tokens: -5 }, null],
  ])('counts a missing member of usage as 0, and takes nothing that is no count: %j', (usage, expected) => {
    expect(read({ choices: [{ text: 'x' }], usage })).toMatchObject({ completion: { usage: expected } });
  });

  it('takes the first choice, whatever else it holds', () => {
    const first = {
      text: 'a',
      index: 1,
      finish_reason: 'stop_sequence',
      logprobs: { content: [{ token: 'a', logprob: -0.1 }] },
    };
    expect(read({ id: 'my-id', choices: [first, { text: 'b', index: 0 }] })).toMatchObject({
      completion: { text: 'a', finish_reason: 'stop_sequence', id: 'my-id' },
    });
  });

  it('finds the filter results of the prompt by its index, also under their old name', () => {
    const results = [
      { prompt_index: 1, content_filter_results: { hate: { filtered: true, severity: 'high' } } },
      { prompt_index: 0, content_filter_results: { hate: safe } },
    ];
    for (const name of ['prompt_filter_results', 'prompt_annotations']) {
      expect(read({ choices: [{}], [name]: results })).toMatchObject({ filters: { prompt: { hate: safe } } });
    }
    const [unnumbered] = [{ content_filter_results: { hate: safe } }];
    expect(read({ choices: [{}], prompt_filter_results: [unnumbered] })).toMatchObject({
      filters: { prompt: { hate: safe } },
    });
  });

  it('keeps every category of the filter, and of each what is known', () => {
    const content_filter_results = {
      hate: safe,
      jailbreak: { filtered: false, detected: true },
      protected_material_code: { filtered: false, detected: false, citation: { license: 'x' } },
      odd: 'text',
      empty: {},
    };
    expect(read({ choices: [{ content_filter_results }] })).toMatchObject({
      filters: {
        completion: {
          hate: safe,
          jailbreak: { filtered: false, detected: true },
          protected_material_code: { filtered: false, detected: false },
        },
      },
    });
  });

  it('fault 9: a category named __proto__ reaches no prototype', () => {
    const body =
      '{"choices":[{"content_filter_results":{"__proto__":{"filtered":true},"hate":{"filtered":false}}}]}';
    const reading = readOne(body);
    expect(reading).toEqual({
      ok: true,
      completion: expect.anything(),
      filters: { prompt: null, completion: { hate: { filtered: false } } },
    });
    expect(reading?.ok && Object.getPrototypeOf(reading.filters.completion)).toBe(Object.prototype);
  });

  it.each([
    { content_filter_result: { error: { code: 'content_filter_error', message: 'not available' } } },
    { content_filter_results: { error: { code: 'content_filter_error', message: 'not available' } } },
  ])('says nothing about a filter that was not available: %j', (results) => {
    expect(read({ choices: [{ text: 'x', ...results }] })).toMatchObject({
      completion: { text: 'x' },
      filters: { completion: null },
    });
  });
});

describe('the body of an error', () => {
  it.each([
    [{ error: { code: '429', message: 'm' } }, { code: '429', type: '', message: 'm' }],
    [{ error: { message: 'm', type: 't', param: null, code: null } }, { code: '', type: 't', message: 'm' }],
    [{ error: { message: 'm', code: 42 } }, { code: '42', message: 'm' }],
    [
      { statusCode: 500, message: 'm', activityId: 'a' },
      { code: '', message: 'm' },
    ],
    [
      { error: 'm', error_type: 'overloaded' },
      { type: 'overloaded', message: 'm' },
    ],
    [
      { object: 'error', message: 'm', type: 't', code: 400 },
      { code: '400', type: 't', message: 'm' },
    ],
    [{ detail: 'm' }, { message: 'm' }],
    [{ detail: [{ msg: 'a' }, { msg: 'b' }] }, { message: 'a; b' }],
    [{ error: { message: '' }, message: 'm' }, { message: 'm' }],
    ['upstream  connect\nerror', { message: 'upstream connect error' }],
    ['<html><body>x</body></html>', { message: 'Internal Server Error' }],
    [' \n', { message: 'Internal Server Error' }],
    [{}, { message: 'Internal Server Error' }],
    ['null', { message: 'Internal Server Error' }],
    ['"text"', { message: 'Internal Server Error' }],
  ])('%j', (body, expected) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    expect(readError(500, text)).toMatchObject({ status: 500, ...expected });
  });

  it('clips a long message to one line of 500 characters', () => {
    const { message } = readError(400, JSON.stringify({ error: { message: 'a\r\n\u0000b'.repeat(1000) } }));
    expect(message).toHaveLength(500);
    expect(message).toMatch(/^a ba b[ab ]+…$/);
  });
});

describe('the body of an answer to several prompts', () => {
  const choice = (index: number, text: string) => ({ index, text, finish_reason: 'stop' });

  it('gives each prompt the choice and the filter results of its index, in whatever order they come', () => {
    const prompt_filter_results = [1, 0].map((prompt_index) => ({
      prompt_index,
      content_filter_results: { hate: { filtered: false, severity: prompt_index === 1 ? 'low' : 'safe' } },
    }));
    const body = JSON.stringify({ choices: [choice(1, 'b'), choice(0, 'a')], prompt_filter_results });
    expect(readCompletions(body, 2)).toMatchObject([
      { completion: { text: 'a' }, filters: { prompt: { hate: { severity: 'safe' } } } },
      { completion: { text: 'b' }, filters: { prompt: { hate: { severity: 'low' } } } },
    ]);
  });

  it('says which prompt has no choice', () => {
    const readings = readCompletions(JSON.stringify({ choices: [choice(0, 'a'), choice(2, 'c')] }), 3);
    expect(readings.map((reading) => reading.ok)).toEqual([true, false, true]);
    expect(readings[1]).toMatchObject({ fault: { code: 'no_choices' } });
  });

  it('may be a list of answers, as llama.cpp sends it: their usage is summed', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    const one = (text: string) => ({ id: 'c', choices: [choice(0, text)], usage });
    expect(readCompletions(JSON.stringify([one('a'), one('b')]), 2)).toMatchObject([
      { completion: { text: 'a', id: 'c', usage: { total_tokens: 10 } } },
      { completion: { text: 'b' } },
    ]);
    expect(readCompletions(JSON.stringify([one('a')]), 2).map((reading) => reading.ok)).toEqual([
      true,
      false,
    ]);
    expect(readCompletions('[]', 1)[0]).toMatchObject({ fault: { code: 'no_choices' } });
  });
});
