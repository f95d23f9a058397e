import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { completions, OPERATIONS, type Operation, operationOf } from '../../src/service/operation.js';
import { readAnswers, readError } from '../../src/service/response.js';

const chat = operationOf({ operation: 'chat' });

/** A choice of the completions operation, or the same in the form of the chat operation. */
const formed = (operation: Operation, choice: unknown): unknown => {
  if (operation !== chat || typeof choice !== 'object' || choice === null || !('text' in choice))
    return choice;
  const { text: content, ...others } = choice;
  return { ...others, message: { role: 'assistant', content } };
};

const readCompletions = (body: string, prompts: number, withLogprobs = false) =>
  readAnswers(body, { prompts, choices: 1, withLogprobs, operation: completions });

/** The readings of an answer in which each prompt has several choices. */
const votesOf = (operation: Operation, choices: readonly unknown[], prompts: number, ofEach: number) =>
  readAnswers(JSON.stringify({ choices: choices.map((choice) => formed(operation, choice)) }), {
    prompts,
    choices: ofEach,
    withLogprobs: false,
    operation,
  });

/** All texts of a prompt. */
const textsOf = (reading: ReturnType<typeof votesOf>[number] | undefined) =>
  reading?.ok
    ? [reading.completion.text, ...(reading.completion.others ?? []).map(({ text }) => text)]
    : null;

/** The reading of a body with one choice, in the form of the operation. */
const readAs = (operation: Operation, choice: unknown, more: object = {}) =>
  readAnswers(JSON.stringify({ ...more, choices: [formed(operation, choice)] }), {
    ...{ prompts: 1, choices: 1, withLogprobs: false, operation },
  })[0];

/** The reading of a body for a single prompt. */
const readOne = (body: string) => readCompletions(body, 1)[0];
const read = (body: unknown) => readOne(JSON.stringify(body));
const safe = { filtered: false, severity: 'safe' };

describe('the body of an answer', () => {
  it('says null for all that the service leaves out', () => {
    expect(read({ choices: [{ text: '' }] })).toEqual({
      ok: true,
      completion: { text: '', finish_reason: null, usage: null, model: null, id: null, created: null },
      filters: { prompt: null, completion: null },
    });
  });

  it.each([
    [
      { prompt_tokens: 5, total_tokens: 5 },
      { prompt_tokens: 5, completion_tokens: 0, total_tokens: 5 },
    ],
    [
      { prompt_tokens: 5, completion_tokens: 2 },
      { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
    ],
    [null, null],
  ])('counts the tokens of an empty completion as 0 where they are missing: %j', (usage, expected) => {
    const reading = read({ choices: [{ text: '' }], usage });
    expect(reading).toMatchObject({ completion: { usage: expected } });
    expect(reading).not.toHaveProperty('oddUsage');
  });

  it.each([
    {},
    [],
    'many',
    { total_tokens: 7 },
    { prompt_tokens: 5, total_tokens: 7 },
    { prompt_tokens: '5', completion_tokens: '2' },
    { prompt_tokens: 5, completion_tokens: 2, total_tokens: '7' },
    { prompt_tokens: 12.5, completion_tokens: 2 },
    { prompt_tokens: 5, completion_tokens: 1e300 },
    { prompt_tokens: -5, completion_tokens: 2 },
    { prompt_tokens: 5, completion_tokens: null, total_tokens: 7 },
  ])('fault 77: takes nothing for usage that is no count: %j', (usage) => {
    for (const operation of OPERATIONS) {
      expect(readAs(operation, { text: 'x' }, { usage }), operation.name).toMatchObject({
        completion: { text: 'x', usage: null },
        oddUsage: true,
      });
    }
  });

  it.each([
    [{ finish_reason: 'stop' }, false, 'the answer has no text: {"finish_reason":"stop"}'],
    [{ index: 0, text: null }, false, 'the answer has no text: {"index":0,"text":null}'],
    [{ text: 42 }, false, 'the answer has no text: {"text":42}'],
    [{ text: { value: 'x' } }, false, 'the answer has no text: {"text":{"value":"x"}}'],
    [{ text: ['x'] }, false, 'the answer has no text: {"text":["x"]}'],
    [{ message: { role: 'assistant', content: 'hello' } }, true, 'the form of the chat operation'],
    [{ delta: { content: 'hello' } }, true, 'the form of the chat operation'],
  ])('fault 75: says what came in the place of a text: %j', (choice, chat, message) => {
    const reading = read({ choices: [choice] });
    expect(reading).toMatchObject({
      completion: { text: null },
      noText: { isOther: chat, problem: { message: expect.stringContaining(message) } },
    });
    expect(JSON.stringify(reading)).not.toContain('hello');
  });

  it.each([
    [{ finish_reason: 'stop' }, false, 'the answer has no text: {"finish_reason":"stop"}'],
    [{ message: null }, false, 'the answer has no text: {"message":null}'],
    [{ text: null }, false, 'the answer has no text: {"message":{"role":"assistant","content":null}}'],
    [{ text: 42 }, false, '"content":42}}'],
    [{ text: ['x'] }, false, '"content":["x"]}}'],
    [{ text: [{ type: 'image_url' }] }, false, '"content":[{"type":"image_url"}]}}'],
  ])('fault 75: says what came in the place of a message: %j', (choice, isOther, message) => {
    expect(readAs(chat, choice)).toMatchObject({
      completion: { text: null },
      noText: { isOther, problem: { message: expect.stringContaining(message) } },
    });
  });

  it('fault 75: names the other operation where a text comes in the place of a message', () => {
    const [reading] = readAnswers('{"choices":[{"text":"hello"}]}', {
      ...{ prompts: 1, choices: 1, withLogprobs: false, operation: chat },
    });
    expect(reading).toMatchObject({
      noText: {
        isOther: true,
        problem: { message: expect.stringContaining('of the completions operation') },
      },
    });
    expect(JSON.stringify(reading)).not.toContain('hello');
  });

  it('keeps log probabilities as they came, where the request asks for them and they are not too long', () => {
    const forms = [
      { tokens: ['a'], token_logprobs: [-0.1], top_logprobs: [{ a: -0.1 }], text_offset: [3] },
      { content: [{ token: 'a', logprob: -0.1 }] },
    ];
    const of = (logprobs: unknown, asked: boolean) =>
      readCompletions(JSON.stringify({ choices: [{ text: 'a', logprobs }] }), 1, asked)[0];
    for (const logprobs of forms) {
      expect(of(logprobs, true)).toMatchObject({ completion: { logprobs } });
      expect(of(logprobs, false)).not.toHaveProperty('completion.logprobs');
    }
    const tooLong = of({ tokens: Array(100_000).fill('a') }, true);
    expect(tooLong).toMatchObject({ completion: { text: 'a', damaged: 'logprobs' } });
    for (const logprobs of [null, undefined, 'x', [1], { tokens: Array(100_000).fill('a') }]) {
      expect(of(logprobs, true)).not.toHaveProperty('completion.logprobs');
    }
    const levels = 20_000;
    const deep = `{"choices":[{"text":"a","logprobs":{"x":${'['.repeat(levels)}${']'.repeat(levels)}}}]}`;
    expect(readCompletions(deep, 1, true)[0]).toMatchObject({
      completion: { text: 'a', damaged: 'logprobs' },
    });
  });

  it('fault 75: shows a long choice in part', () => {
    const reading = read({ choices: [{ text: null, odd: 'x'.repeat(100_000) }] });
    expect(reading?.ok && reading.noText?.problem.message.length).toBeLessThan(200);
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
      '{"choices":[{"text":"","content_filter_results":{"__proto__":{"filtered":true},"hate":{"filtered":false}}}]}';
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

  it.each([
    ['shifted', [1, 2, 3]],
    ['repeated', [0, 1, 1]],
    ['missing', [0, 2]],
    ['one too many', [0, 1, 2, 3]],
    ['one twice', [0, 1, 2, 2]],
    ['out of range', [0, 1, -1]],
    ['texts', ['0', '1', '2']],
    ['fractions', [0, 1, 1.5]],
    ['absent', [undefined, undefined, undefined]],
  ])("fault 76: is nobody's when the indexes are %s", (_, indexes) => {
    const choices = indexes.map((index, i) => ({ index, text: `secret ${i}`, finish_reason: 'stop' }));
    const readings = readCompletions(JSON.stringify({ choices }), 3);
    expect(readings).toHaveLength(3);
    for (const reading of readings) {
      expect(reading).toMatchObject({ ok: false, form: 'mixed_up', problem: { code: 'choices_mixed_up' } });
    }
    expect(JSON.stringify(readings)).not.toContain('secret');
  });

  it('fault 76: a prompt that is alone has its answer whatever index it says', () => {
    for (const index of [0, 7, '0', undefined]) {
      const body = JSON.stringify({ choices: [{ index, text: 'mine' }] });
      expect(readCompletions(body, 1)).toMatchObject([{ ok: true, completion: { text: 'mine' } }]);
    }
  });

  it('fault 76: filter results without a number are of no prompt among several', () => {
    const body = { choices: [choice(0, 'a'), choice(1, 'b')], prompt_filter_results: [{ x: 1 }] };
    expect(readCompletions(JSON.stringify(body), 2)).toMatchObject([
      { filters: { prompt: null } },
      { filters: { prompt: null } },
    ]);
  });

  it('may be a list of answers, as llama.cpp sends it, each with its own usage', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    const one = (text: string) => ({ id: 'c', choices: [choice(0, text)], usage });
    expect(readCompletions(JSON.stringify([one('a'), one('b')]), 2)).toMatchObject([
      { completion: { text: 'a', id: 'c', usage: { total_tokens: 5 } }, ownUsage: true },
      { completion: { text: 'b', usage: { total_tokens: 5 } }, ownUsage: true },
    ]);
    const numbered = (index: number, text: string) => ({ choices: [choice(index, text)], usage });
    expect(
      readCompletions(JSON.stringify([numbered(1, 'b'), numbered(0, 'a')]), 2),
      'numbers of their own',
    ).toMatchObject([{ completion: { text: 'a' } }, { completion: { text: 'b' } }]);
    for (const body of [[one('a')], [numbered(1, 'b'), numbered(2, 'c')], [one('a'), one('b'), one('c')]]) {
      expect(readCompletions(JSON.stringify(body), 2)).toMatchObject([
        { problem: { code: 'choices_mixed_up' } },
        { problem: { code: 'choices_mixed_up' } },
      ]);
    }
    const strange = [one('a'), { ...one('b'), usage: { prompt_tokens: -1 } }];
    expect(readCompletions(JSON.stringify(strange), 2), 'usage').toMatchObject([
      { completion: { usage: { total_tokens: 5 } } },
      { completion: { usage: null }, oddUsage: true },
    ]);
    expect(readCompletions('[]', 1)[0]).toMatchObject({ problem: { code: 'no_choices' } });
  });
});

describe.each(OPERATIONS)(
  'the body of an answer of $name with several choices for each prompt',
  (operation) => {
    const readVotes = (choices: readonly unknown[], prompts: number, ofEach: number) =>
      votesOf(operation, choices, prompts, ofEach);
    const safeResults = { hate: safe };
    const choice = (text: string, more: object = {}) => ({ text, finish_reason: 'stop', ...more });

    /** Prompts, choices for each, and the choices in some order; each has the place where it belongs as its text. */
    const shuffled = fc
      .tuple(fc.integer({ min: 2, max: 5 }), fc.integer({ min: 2, max: 4 }))
      .chain(([prompts, ofEach]) => {
        const places = Array.from({ length: prompts * ofEach }, (_, place) => place);
        return fc.record({
          prompts: fc.constant(prompts),
          ofEach: fc.constant(ofEach),
          places: fc.shuffledSubarray(places, { minLength: places.length }),
        });
      });
    const numbered = (places: readonly number[]) => places.map((index) => ({ index, text: `p${index}` }));

    it('fault 76: gives each prompt its own choices, in their order, in whatever order they come', () => {
      fc.assert(
        fc.property(shuffled, ({ prompts, ofEach, places }) => {
          const readings = readVotes(numbered(places), prompts, ofEach);
          expect(readings.map(textsOf)).toEqual(
            Array.from({ length: prompts }, (_, prompt) =>
              Array.from({ length: ofEach }, (_, i) => `p${prompt * ofEach + i}`),
            ),
          );
        }),
      );
    });

    it("fault 76: is nobody's when one index is wrong, or one choice is missing or too many", () => {
      const spoiled = shuffled.chain(({ prompts, ofEach, places }) =>
        fc.record({
          prompts: fc.constant(prompts),
          ofEach: fc.constant(ofEach),
          choices: fc
            .tuple(
              fc.nat({ max: places.length - 1 }),
              fc.constantFrom('shifted', 'repeated', 'out of range', 'text', 'absent', 'missing', 'too many'),
            )
            .map(([at, way]): object[] => {
              const choices: { index?: unknown; text: string }[] = numbered(places);
              const [odd] = choices.splice(at, 1);
              if (odd === undefined) return choices;
              switch (way) {
                case 'shifted':
                  return [...choices, odd].map(({ index, text }) => ({ index: Number(index) + 1, text }));
                case 'repeated':
                  return [...choices, { ...odd, index: choices[0]?.index }];
                case 'out of range':
                  return [...choices, { ...odd, index: places.length }];
                case 'text':
                  return [...choices, { ...odd, index: String(odd.index) }];
                case 'absent':
                  return [...choices, { text: odd.text }];
                case 'too many':
                  return [...choices, odd, odd];
                default:
                  return choices;
              }
            }),
        }),
      );
      fc.assert(
        fc.property(spoiled, ({ prompts, ofEach, choices }) => {
          const readings = readVotes(choices, prompts, ofEach);
          expect(readings).toHaveLength(prompts);
          for (const reading of readings) expect(reading).toMatchObject({ ok: false, form: 'mixed_up' });
        }),
      );
    });

    it('fault 76: those of a prompt that is alone are its own whatever their indexes say, and no more than were asked for', () => {
      for (const index of [0, 7, '0', undefined]) {
        const [reading] = readVotes([choice('a', { index }), choice('b'), choice('c'), choice('d')], 1, 3);
        expect(textsOf(reading)).toEqual(['a', 'b', 'c']);
      }
    });

    it('leaves out what no one can read: choices that are filtered, have no text, or are missing', () => {
      const filtered = { hate: { filtered: true, severity: 'high' } };
      const choices = [
        choice('half', { finish_reason: 'content_filter' }),
        choice('blocked', { content_filter_results: filtered }),
        { text: null },
        choice('a', { content_filter_results: safeResults }),
        choice('b', { finish_reason: 'length', content_filter_results: safeResults }),
        choice('c', { content_filter_results: { hate: { filtered: false, severity: 'low' } } }),
      ];
      expect(readVotes(choices, 1, 8)).toMatchObject([
        {
          ok: true,
          completion: {
            text: 'a',
            finish_reason: 'stop',
            others: [
              { text: 'b', finish_reason: 'length' },
              { text: 'c', finish_reason: 'stop', filters: { hate: { severity: 'low' } } },
            ],
          },
          filters: { completion: safeResults },
        },
      ]);
      const [reading] = readVotes(choices, 1, 8);
      expect(reading?.ok && reading.completion.others?.[0], 'as of the first').not.toHaveProperty('filters');
    });

    it('is that of a filter when it took every choice, and has no text when nobody knows why', () => {
      const blocked = choice('half', { finish_reason: 'content_filter' });
      expect(readVotes([{ text: null }, blocked, blocked], 1, 3)).toMatchObject([
        { ok: true, completion: { text: 'half', finish_reason: 'content_filter' } },
      ]);
      const [reading] = readVotes([{ text: null, odd: 1 }, { text: null }], 1, 2);
      expect(reading).toMatchObject({ noText: { problem: { message: expect.stringContaining('"odd":1') } } });
      expect(reading).not.toHaveProperty('completion.others');
    });

    it('is of no use where a server that does not know the parameter sends one choice', () => {
      expect(readVotes([choice('a')], 1, 5)).toEqual([
        {
          ok: false,
          form: 'only_one',
          problem: { code: 'choices_missing', message: 'the answer has one choice, and 5 are asked for' },
        },
      ]);
    });

    it('fault 73: keeps no more than a megabyte of the further choices, whatever their number', () => {
      const long = 'x'.repeat(300_000);
      const [reading] = readVotes(
        Array.from({ length: 20 }, () => choice(long)),
        1,
        20,
      );
      expect(textsOf(reading)?.map((text) => text?.length)).toEqual([300_000, 300_000, 300_000, 300_000]);
      const [mixed] = readVotes([choice('a'), choice('x'.repeat(2 ** 21)), choice('b')], 1, 3);
      expect(textsOf(mixed)).toEqual(['a', 'b']);
    });

    it('may be a list of answers, as llama.cpp sends it', () => {
      const one = (...texts: string[]) => ({
        choices: texts.map((text, index) => formed(operation, { index, text })),
      });
      const asked = { prompts: 2, choices: 2, withLogprobs: false, operation };
      const body = JSON.stringify([one('a', 'b'), one('c', 'd')]);
      expect(readAnswers(body, asked).map(textsOf)).toEqual([
        ['a', 'b'],
        ['c', 'd'],
      ]);
      for (const other of [[one('a'), one('c', 'd')], [one('a', 'b', 'c')], [one('a', 'b')]]) {
        expect(readAnswers(JSON.stringify(other), asked)).toMatchObject([
          { form: 'mixed_up' },
          { form: 'mixed_up' },
        ]);
      }
    });
  },
);
