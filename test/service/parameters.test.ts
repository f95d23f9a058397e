import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { checkParameters, parameterFromText, parametersSchema } from '../../src/service/parameters.js';

const messages = (value: unknown): string[] => {
  const checked = checkParameters(value, parametersSchema);
  return checked.ok ? [] : checked.problems.map((problem) => problem.message);
};

describe('parameters', () => {
  it.each([
    {},
    { max_tokens: 0, temperature: 0, top_p: 0, logprobs: 0, best_of: 1, n: 1 },
    { temperature: 2, top_p: 1, logprobs: 5, best_of: 128, presence_penalty: -2, frequency_penalty: 2 },
    { max_tokens: null, temperature: null, top_p: null, n: null, logprobs: null, echo: null },
    { suffix: null, stop: null, logit_bias: null },
    { stop: '\n', suffix: 'end', user: 'u', echo: true, logit_bias: { '50256': -100, '1': 100 } },
    { stop: ['1', '2', '3', '4'] },
  ])('accepts %j', (parameters) => {
    expect(checkParameters(parameters, parametersSchema)).toEqual({ ok: true, parameters });
  });

  it.each([
    [{ temperature: 3 }, 'temperature must be between 0 and 2, got 3'],
    [{ temperature: -0.1 }, 'temperature must be between 0 and 2, got -0.1'],
    [{ temperature: 'hot' }, 'temperature must be between 0 and 2, got "hot"'],
    [{ temperature: Number.NaN }, 'temperature must be between 0 and 2, got NaN'],
    [{ top_p: 1.1 }, 'top_p must be between 0 and 1, got 1.1'],
    [{ max_tokens: -1 }, 'max_tokens must be a whole number of at least 0, got -1'],
    [{ max_tokens: 1.5 }, 'max_tokens must be a whole number of at least 0, got 1.5'],
    [{ max_tokens: '16' }, 'max_tokens must be a whole number of at least 0, got "16"'],
    [{ best_of: 0 }, 'best_of must be a whole number between 1 and 128, got 0'],
    [{ best_of: 129 }, 'best_of must be a whole number between 1 and 128, got 129'],
    [{ best_of: null }, 'best_of must be a whole number between 1 and 128, got null'],
    [{ logprobs: 6 }, 'logprobs must be a whole number between 0 and 5, got 6'],
    [{ presence_penalty: 2.1 }, 'presence_penalty must be between -2 and 2, got 2.1'],
    [{ frequency_penalty: -3 }, 'frequency_penalty must be between -2 and 2, got -3'],
    [{ echo: 'yes' }, 'echo must be true or false, got "yes"'],
    [{ user: 7 }, 'user must be a text, got 7'],
    [{ stop: [] }, 'stop must be a text or a list of 1 to 4 texts, got []'],
    [
      { stop: ['1', '2', '3', '4', '5'] },
      'stop must be a text or a list of 1 to 4 texts, got ["1","2","3","4","5"]',
    ],
    [{ logit_bias: { '1': 101 } }, 'logit_bias.1 must be between -100 and 100, got 101'],
    [5, 'parameters must be an object, got 5'],
  ])('refuses %j', (parameters, message) => {
    expect(messages(parameters)).toEqual([message]);
  });

  it('refuses a token that is no token id', () => {
    expect(messages({ logit_bias: { hello: 1 } })).toEqual([
      'logit_bias.hello must be an object of token ids to biases between -100 and 100, got "hello"',
    ]);
  });

  it('refuses more than one choice, and says what to use', () => {
    expect(messages({ n: 3, best_of: 5 })).toEqual([
      'n must be 1: the first choice is the only one kept, so use best_of to pick it from several, or answer.votes to have them vote, got 3',
    ]);
  });

  it('refuses stream, prompt and unknown fields, each by its name', () => {
    const found = messages({ stream: false, prompt: 'x', temprature: 1 });
    expect(found).toHaveLength(3);
    expect(found[0]).toMatch(/^stream cannot be set: each row is one answer/);
    expect(found[1]).toMatch(/^prompt cannot be a parameter/);
    expect(found[2]).toMatch(/^temprature is not a parameter; known are max_tokens, temperature,/);
  });

  it('becomes a JSON Schema in which every field says what it means, its range and its default', () => {
    const schema = z.toJSONSchema(parametersSchema);
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      expect(field, name).toMatchObject({ description: expect.stringMatching(/Default: /) });
    }
    expect(schema).toMatchObject({ additionalProperties: false });
  });
});

describe('a parameter out of a CSV cell', () => {
  it.each([
    ['max_tokens', '20', { max_tokens: 20 }],
    ['max_tokens', ' 20 ', { max_tokens: 20 }],
    ['temperature', '0.5', { temperature: 0.5 }],
    ['temperature', 'null', { temperature: null }],
    ['echo', 'TRUE', { echo: true }],
    ['logit_bias', '{"50256": -100}', { logit_bias: { '50256': -100 } }],
    ['stop', '\n', { stop: '\n' }],
    ['stop', '["\\n", "END"]', { stop: ['\n', 'END'] }],
    ['stop', '[end', { stop: '[end' }],
    ['stop', '20', { stop: '20' }],
    ['suffix', 'true', { suffix: 'true' }],
    ['user', '7', { user: '7' }],
  ])('%s %j', (name, text, parameters) => {
    expect(parameterFromText(name, text, parametersSchema)).toEqual({ ok: true, parameters });
  });

  it.each(['max_tokens', 'stop', 'echo'])('%s is not given when the cell is empty', (name) => {
    expect(parameterFromText(name, '', parametersSchema)).toEqual({ ok: true, parameters: {} });
  });

  it('is not given when a number cell holds spaces only', () => {
    expect(parameterFromText('max_tokens', '  ', parametersSchema)).toEqual({ ok: true, parameters: {} });
  });

  it.each([
    ['max_tokens', 'many', 'max_tokens must be a whole number of at least 0, got "many"'],
    ['max_tokens', '1,000', 'max_tokens must be a whole number of at least 0, got "1,000"'],
    ['temperature', '3', 'temperature must be between 0 and 2, got 3'],
    ['__proto__', '{}', '__proto__ is not a parameter'],
  ])('%s %j is a problem', (name, text, message) => {
    expect(parameterFromText(name, text, parametersSchema)).toMatchObject({
      ok: false,
      problems: [{ message: expect.stringContaining(message) }],
    });
  });
});
