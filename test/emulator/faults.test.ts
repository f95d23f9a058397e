import { once } from 'node:events';
import { type IncomingMessage, request as send } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import type { FaultRate } from '../../src/emulator/fault-plan.js';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { call, named, SENTIMENT } from './call.js';

let emulator: Emulator | null = null;
afterEach(async () => {
  await emulator?.close();
  emulator = null;
});

async function started(options: EmulatorOptions): Promise<Emulator> {
  emulator = await startEmulator(options);
  return emulator;
}

const always = (name: string): FaultRate => ({ fault: named(name), rate: 1 });

const PROMPTS = Array.from({ length: 2000 }, (_, i) => `Review ${i}: I love it!`);

describe('a status', () => {
  it.each(['400', '401', '403', '404', '408', '409', '413', '422', '424', '425', '429', '500', '501'])(
    '%s comes with a message a client can read',
    async (name) => {
      const { status, body } = await call(await started({ faults: [always(name)] }), { prompt: SENTIMENT });
      expect(status).toBe(Number(name));
      expect(body.error?.message ?? body.message ?? body.error).toMatch(/\w{3}/);
    },
  );

  it.each(['502', '503', '504'])('%s comes empty, as HTML and as plain text', async (name) => {
    const { url, keys } = await started({ faults: [always(name)] });
    const target = `${url}/openai/deployments/text-davinci-003/completions?api-version=2022-12-01`;
    const kinds = new Set<string>();
    for (const prompt of PROMPTS.slice(0, 30)) {
      const response = await fetch(target, {
        method: 'POST',
        headers: { 'api-key': keys[0] },
        body: JSON.stringify({ prompt }),
      });
      expect(response.status).toBe(Number(name));
      const text = await response.text();
      kinds.add(text === '' ? 'empty' : (response.headers.get('content-type') ?? 'none'));
    }
    for (const kind of ['empty', 'text/html', 'text/plain']) expect(kinds).toContain(kind);
  });

  it('fault 27: 307 names another host', async () => {
    const { status, headers } = await exchange(await started({ faults: [always('307')] }));
    expect([status, headers['location']]).toEqual([307, 'https://elsewhere.invalid/']);
  });

  it('429 without credit has the code that waiting does not cure', async () => {
    const { status, body } = await call(await started({ faults: [always('insufficient-quota')] }), {
      prompt: SENTIMENT,
    });
    expect([status, body.error.code]).toEqual([429, 'insufficient_quota']);
  });
});

/** Sends a request and returns what came before the connection ended, one way or the other. */
async function exchange({ url, keys }: Emulator, prompt = SENTIMENT) {
  const { response, request } = await begun({ url, keys }, prompt);
  let text = '';
  response.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const error = await Promise.race([
    once(response, 'end').then(() => null),
    once(response, 'error').then(([reason]) => reason.code ?? 'error'),
  ]).catch((reason) => reason.code);
  request.destroy();
  return { status: response.statusCode, headers: response.headers, text, error };
}

/** Sends a request and waits for the head of its answer. */
async function begun({ url, keys }: Pick<Emulator, 'url' | 'keys'>, prompt = SENTIMENT) {
  const request = send(
    `${url}/openai/deployments/lm-35-turbo-instruct/completions?api-version=2023-09-15-preview`,
    { method: 'POST', headers: { 'api-key': keys[0] }, agent: false },
  );
  request.end(JSON.stringify({ prompt, max_tokens: 5 }));
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return { request, response };
}

describe('a fault on the wire', () => {
  it('fault 21: resets the connection after the request was read', async () => {
    await expect(begun(await started({ faults: [always('reset')] }))).rejects.toMatchObject({
      code: 'ECONNRESET',
    });
    expect(emulator?.stats()).toMatchObject({ requests: 1, prompts: 1, by_fault: { reset: 1 } });
  });

  it('fault 23: cuts answers by length, by chunk and by close', async () => {
    const service = await started({ faults: [always('truncate')] });
    const ways = new Set<string>();
    for (const prompt of PROMPTS.slice(0, 20)) {
      const { status, headers, text, error } = await exchange(service, prompt);
      expect(status).toBe(200);
      expect(text).toMatch(/^\{"id":"cmpl-/);
      expect(() => JSON.parse(text)).toThrow();
      const way = headers['content-length'] ? 'length' : (headers['transfer-encoding'] ?? 'close');
      // The end of the connection is the end of such a body: the client sees no error.
      expect(error === null).toBe(way === 'close');
      ways.add(way);
    }
    expect(ways).toEqual(new Set(['length', 'chunked', 'close']));
    expect(emulator?.stats()).toMatchObject({ answered: 0, usage: { total_tokens: 0 } });
    expect(emulator?.stats().lost_usage.completion_tokens).toBeGreaterThan(0);
  });

  it('fault 24: answers with a page of HTML and status 200', async () => {
    const { status, headers, text } = await exchange(await started({ faults: [always('garbage')] }));
    expect([status, headers['content-type']]).toEqual([200, 'text/html']);
    expect(text).toContain('<html>');
  });

  it('fault 25: drips, a byte at a time', async () => {
    const { request, response } = await begun(await started({ faults: [always('drip')] }));
    const [first] = await once(response, 'data');
    expect(first).toHaveLength(1);
    expect(Number(response.headers['content-length'])).toBeGreaterThan(100);
    request.destroy();
  });

  it('fault 25: hangs, until the caller or the emulator gives up', async () => {
    const service = await started({ faults: [always('hang')] });
    const waiting = begun(service).then(
      () => 'answered',
      () => 'cut',
    );
    while (service.stats().by_fault['hang'] !== 1) await new Promise((resolve) => setImmediate(resolve));
    await service.close();
    expect(await waiting).toBe('cut');
  });
});

describe('a less usual form of a good answer', () => {
  const FORMS: readonly [string, (body: ReturnType<typeof JSON.parse>) => void][] = [
    ['no-usage', (body) => expect(body).not.toHaveProperty('usage')],
    ['no-finish-reason', (body) => expect(body.choices[0].finish_reason).toBeNull()],
    ['no-prompt-filters', (body) => expect(body).not.toHaveProperty('prompt_filter_results')],
    [
      'prompt-annotations',
      (body) => {
        expect(body).not.toHaveProperty('prompt_filter_results');
        expect(body.prompt_annotations[0].content_filter_results.hate.severity).toBe('safe');
      },
    ],
    [
      'filter-error',
      (body) => {
        expect(body.choices[0]).not.toHaveProperty('content_filter_results');
        expect(body.choices[0].content_filter_result.error.code).toBe('content_filter_error');
      },
    ],
    [
      'filter-error-plural',
      (body) =>
        expect(body.choices[0].content_filter_results.error.message).toBe('The contents are not filtered'),
    ],
    [
      'later-categories',
      (body) => {
        expect(body.choices[0].content_filter_results.hate.severity).toBe('safe');
        expect(body.choices[0].content_filter_results.profanity).toEqual({ filtered: false, detected: true });
      },
    ],
  ];

  it.each(FORMS)('%s is answered all the same', async (name, check) => {
    const { status, body } = await call(await started({ faults: [always(name)] }), { prompt: SENTIMENT });
    expect([status, body.choices[0].text]).toEqual([200, ' positive']);
    check(body);
    expect(emulator?.stats()).toMatchObject({ answered: 1, by_fault: { [name]: 1 } });
  });
});

describe('what a broken gateway makes of an answer', () => {
  const BROKEN: readonly [string, (body: ReturnType<typeof JSON.parse>) => unknown, unknown][] = [
    ['no-text', ({ choices }) => 'text' in choices[0], false],
    ['null-text', ({ choices }) => choices[0].text, null],
    ['number-text', ({ choices }) => choices[0].text, 42],
    ['chat', ({ choices }) => choices[0].message, { role: 'assistant', content: ' positive' }],
    ['shifted-indexes', ({ choices }) => choices.map(({ index }: { index: number }) => index), [1, 2]],
    ['equal-indexes', ({ choices }) => choices.map(({ index }: { index: number }) => index), [0, 0]],
    ['no-indexes', ({ choices }) => choices.some((choice: object) => 'index' in choice), false],
    ['missing-choice', ({ choices }) => choices.map(({ index }: { index: number }) => index), [1]],
    ['empty-usage', ({ usage }) => usage, {}],
    ['total-usage', ({ usage }) => usage, { total_tokens: 7 }],
    ['text-usage', ({ usage }) => usage.prompt_tokens, '5'],
    ['negative-usage', ({ usage }) => usage.prompt_tokens, -5],
    ['huge-usage', ({ usage }) => usage.prompt_tokens, 2 ** 53 - 1],
  ];

  it.each(BROKEN)('%s comes with 200 and is billed', async (name, part, expected) => {
    const { status, body } = await call(await started({ faults: [always(name)] }), {
      prompt: [SENTIMENT, SENTIMENT],
    });
    expect(status).toBe(200);
    expect(part(body)).toEqual(expected);
    expect(emulator?.stats().usage.completion_tokens).toBeGreaterThan(0);
  });
});
