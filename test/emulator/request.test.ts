import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { call, SENTIMENT } from './call.js';

let emulator: Emulator;
beforeAll(async () => {
  emulator = await startEmulator();
});
afterAll(() => emulator.close());

describe('request validation', () => {
  const refused: readonly [field: string, value: unknown, message: string][] = [
    ['temperature', 3, "3 is greater than the maximum of 2 - 'temperature'"],
    ['temperature', -0.1, "-0.1 is less than the minimum of 0 - 'temperature'"],
    ['temperature', '1', "'1' is not of type 'number' - 'temperature'"],
    ['top_p', 1.5, "1.5 is greater than the maximum of 1 - 'top_p'"],
    ['max_tokens', -1, "-1 is less than the minimum of 0 - 'max_tokens'"],
    ['max_tokens', 1.5, "1.5 is not of type 'integer' - 'max_tokens'"],
    ['n', 0, "0 is less than the minimum of 1 - 'n'"],
    ['n', 129, "129 is greater than the maximum of 128 - 'n'"],
    ['best_of', 129, "129 is greater than the maximum of 128 - 'best_of'"],
    ['best_of', null, "null is not of type 'number' - 'best_of'"],
    ['logprobs', 6, "6 is greater than the maximum of 5 - 'logprobs'"],
    ['echo', 'yes', "'yes' is not of type 'boolean' - 'echo'"],
    ['suffix', 1, "1 is not of type 'string' - 'suffix'"],
    ['stop', ['a', 'b', 'c', 'd', 'e'], "is too long - 'stop'"],
    ['stop', [], "[] is too short - 'stop'"],
    ['stop', [1], "1 is not of type 'string' - 'stop.0'"],
    ['presence_penalty', 2.1, "2.1 is greater than the maximum of 2 - 'presence_penalty'"],
    ['frequency_penalty', null, "null is not of type 'number' - 'frequency_penalty'"],
    ['logit_bias', { 50256: -101 }, "-101 is less than the minimum of -100 - 'logit_bias.50256'"],
    ['logit_bias', { word: 1 }, "'word' is not a token id - 'logit_bias'"],
    ['user', 7, "7 is not of type 'string' - 'user'"],
    ['prompt', 7, "7 is not of type 'string' - 'prompt'"],
    ['prompt', Array(2049).fill('a'), "is too long - 'prompt'"],
    ['messages', [], 'Unrecognized request argument supplied: messages'],
    ['constructor', 1, 'Unrecognized request argument supplied: constructor'],
    ['stream_options', { include_usage: true }, 'Unrecognized request argument supplied: stream_options'],
    ['seed', 1, 'Unrecognized request argument supplied: seed'],
    ['stream', 1, "1 is not of type 'boolean' - 'stream'"],
    ['model', null, "null is not of type 'string' - 'model'"],
  ];

  it.each(refused)('refuses %s %j', async (field, value, message) => {
    const { status, body } = await call(emulator, { prompt: SENTIMENT, [field]: value });
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ type: 'invalid_request_error', code: null });
    expect(body.error.message).toContain(message);
  });

  it.each([
    ['max_tokens', null],
    ['temperature', 2],
    ['top_p', 0],
    ['n', 128],
    ['best_of', 128],
    ['logprobs', null],
    ['echo', false],
    ['suffix', 'the end'],
    ['stop', null],
    ['stop', ['a', 'b', 'c', 'd']],
    ['presence_penalty', -2],
    ['frequency_penalty', 2],
    ['logit_bias', { 50256: -100 }],
    ['user', 'someone'],
    ['stream', null],
    ['model', 'whatever: the deployment decides'],
    ['logprobs', 5],
    ['echo', true],
  ])('accepts %s %j', async (field, value) => {
    expect((await call(emulator, { prompt: SENTIMENT, [field]: value })).status).toBe(200);
  });

  it('refuses more choices than candidates', async () => {
    const { body } = await call(emulator, { prompt: SENTIMENT, n: 3, best_of: 2 });
    expect(body.error.message).toContain(
      "you must set 'n' (currently 3) to be at most 'best_of' (currently 2)",
    );
  });

  it('refuses to stream the best of more candidates than it returns', async () => {
    const { status, body } = await call(emulator, { prompt: SENTIMENT, best_of: 2, stream: true });
    expect([status, body.error.param]).toEqual([400, 'best_of']);
    expect(body.error.message).toContain('cannot be streamed');
  });

  it('refuses a request without a prompt', async () => {
    expect((await call(emulator, { max_tokens: 5 })).body.error.message).toBe(
      "'prompt' is a required property",
    );
  });

  it.each(['{"prompt": "a', '', '[]', 'null', '"text"'])('refuses the body %j', async (body) => {
    const response = await call(emulator, body);
    expect(response.status).toBe(400);
    expect(response.body.error.message).toContain('could not parse the JSON body');
  });

  it('refuses a body of more than 16 MiB', async () => {
    expect((await call(emulator, 'a'.repeat(16 * 1024 * 1024 + 1))).status).toBe(413);
  });

  it('names both sides of a context window that is too small, and fills it to the last token', async () => {
    // "a" and each " a" are one token of cl100k_base.
    const prompt = `a${' a'.repeat(3999)}`;
    const tooLong = await call(emulator, { prompt, max_tokens: 98 });
    expect(tooLong.status).toBe(400);
    expect(tooLong.body.error.message).toContain(
      "This model's maximum context length is 4097 tokens, however you requested 4098 tokens " +
        '(4000 in your prompt; 98 for the completion)',
    );
    expect((await call(emulator, { prompt, max_tokens: 97 })).status).toBe(200);
  });
});
