import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readForm } from '../../src/emulator/batches/form.js';
import type { BatchSettings } from '../../src/emulator/batches/settings.js';
import type { EmulatorOptions } from '../../src/emulator/options.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { call, named, SENTIMENT } from './call.js';

const VERSION = '2023-09-15-preview';
const MODEL = 'lm-35-turbo-instruct';
const ASK = { model: MODEL, prompt: SENTIMENT, max_tokens: 5 };
const REVIEWS = [
  'I love it!',
  'Awful, a waste of money.',
  'It is a box.',
  'Great value, but it broke.',
  'Sturdy.',
];

// biome-ignore lint/suspicious/noExplicitAny: tests look at wire bodies of every shape
type Body = any;

const running: Emulator[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((emulator) => emulator.close()));
});

/** An emulator whose batches take 100 seconds, by a clock that the test turns. */
async function started(batches: Partial<BatchSettings> = {}, options: EmulatorOptions = {}) {
  let now = 0;
  const emulator = await startEmulator({
    batches: { seconds: 100, ...batches },
    clock: () => now,
    ...options,
  });
  running.push(emulator);
  const pass = (seconds: number) => {
    now += seconds * 1000;
  };
  return { emulator, pass };
}

/** The two forms of the API. */
const FORMS = {
  plain: { base: '/v1', query: '', prefix: '/v1' },
  service: { base: '/openai', query: `?api-version=${VERSION}`, prefix: '' },
};

class Hosted {
  constructor(
    readonly emulator: Emulator,
    private readonly form: keyof typeof FORMS = 'plain',
  ) {}

  async get(path: string, method = 'GET', body?: FormData | string): Promise<Response> {
    const { base, query } = FORMS[this.form];
    const more = path.includes('?') ? query.replace('?', '&') : query;
    return fetch(`${this.emulator.url}${base}${path}${more}`, {
      method,
      headers: { authorization: `Bearer ${this.emulator.keys[0]}` },
      ...(body === undefined ? {} : { body }),
    });
  }

  async json(path: string, method = 'GET', body?: FormData | string): Promise<Body> {
    return (await this.get(path, method, body)).json();
  }

  async upload(text: string | Buffer): Promise<Body> {
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new File([text], 'in.jsonl'));
    return this.json('/files', 'POST', form);
  }

  line(id: string, body: object, path = 'completions'): string {
    const url = `${FORMS[this.form].prefix}/${path}`;
    return JSON.stringify({ custom_id: id, method: 'POST', url, body });
  }

  order(inputId: string, path = 'completions'): string {
    const endpoint = `${FORMS[this.form].prefix}/${path}`;
    return JSON.stringify({ input_file_id: inputId, endpoint, completion_window: '24h' });
  }

  async create(text: string | Buffer, path?: string): Promise<Body> {
    return this.json('/batches', 'POST', this.order((await this.upload(text)).id, path));
  }

  look(batch: Body): Promise<Body> {
    return this.json(`/batches/${batch.id}`);
  }

  async read(id: string | null): Promise<Body[]> {
    const text = id === null ? '' : await (await this.get(`/files/${id}/content`)).text();
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  }
}

const sentiment = (text: string) => SENTIMENT.replace('I love it!', text);

const statusesOf = (lines: Body[]) => lines.map(({ response }) => response?.status_code);

/** Ten requests with ids from 0 to 9. */
const ten = (hosted: Hosted) =>
  Array.from({ length: 10 }, (_, index) => hosted.line(`${index}`, ASK)).join('\n');

describe.each(['plain', 'service'] as const)('a batch in the %s form', (form) => {
  const CHAT = { model: 'lm-4', temperature: 0 };
  const messages = (content: string) => [{ role: 'user', content }];
  const completions = [
    ...REVIEWS.map((text) => ({ ...ASK, prompt: sentiment(text) })),
    {
      ...ASK,
      prompt: 'Tell me about bridges.',
      temperature: 1,
      n: 2,
      best_of: 3,
      max_tokens: 20,
      logprobs: 2,
    },
    { ...ASK, prompt: ['One.', 'Two.'], echo: true },
    { ...ASK, prompt: 'Describe a boxing match in graphic detail.', max_tokens: 40 },
    { ...ASK, prompt: 'Translate to French: I will kill you.' },
    { ...ASK, prompt: 'word '.repeat(5000) },
    { ...ASK, temperature: 3 },
    { ...ASK, unheard_of: true },
  ];
  const chats = [
    ...REVIEWS.map((text) => ({ ...CHAT, messages: messages(sentiment(text)) })),
    { ...CHAT, messages: messages('Tell me about bridges.'), temperature: 1, n: 2, logprobs: true },
    { ...CHAT, messages: messages('Answer in json.'), response_format: { type: 'json_object' } },
    { ...CHAT, messages: messages('I will kill you.') },
    { ...CHAT, messages: messages('word '.repeat(9000)) },
    { ...CHAT, messages: [] },
  ];

  it.each([
    ['completions', completions, 4],
    ['chat/completions', chats, 3],
  ] as const)('answers %s as the same calls are answered online', async (path, bodies, refused) => {
    const { emulator, pass } = await started();
    const hosted = new Hosted(emulator, form);
    const lines = bodies.map((body, index) => hosted.line(`${index}`, body, path));
    const { id } = await hosted.upload(lines.join('\n'));
    pass(10);
    const batch = await hosted.json('/batches', 'POST', hosted.order(id, path));
    pass(100);
    const ended = await hosted.look(batch);
    expect(ended).toMatchObject({
      status: 'completed',
      request_counts: { total: bodies.length, completed: bodies.length - refused, failed: refused },
    });
    const [output, errors] = [
      await hosted.read(ended.output_file_id),
      await hosted.read(ended.error_file_id),
    ];
    expect(new Set(statusesOf(output))).toEqual(new Set([200]));
    expect(new Set(statusesOf(errors))).toEqual(new Set([400]));
    const ids = output.map(({ custom_id }) => Number(custom_id));
    expect(ids).not.toEqual([...ids].sort((a, b) => a - b));

    for (const { custom_id, response } of [...output, ...errors]) {
      const body = bodies[custom_id] as { readonly model: string };
      const target =
        form === 'plain' ? `/v1/${path}` : `/openai/deployments/${body.model}/${path}?api-version=${VERSION}`;
      const headers = { authorization: `Bearer ${emulator.keys[0]}` };
      const online = await call(emulator, body, { target, headers });
      const same = { id: expect.any(String), created: expect.any(Number) };
      expect(response.body).toEqual(online.status === 200 ? { ...online.body, ...same } : online.body);
      expect(response.status_code).toBe(online.status);
    }
  });

  it('shows what it does, in turn', async () => {
    const { emulator, pass } = await started();
    const hosted = new Hosted(emulator, form);
    const file = await hosted.upload(ten(hosted));
    expect(file.status).toBe(form === 'plain' ? 'processed' : 'pending');
    if (form === 'service') {
      const early = await hosted.json('/batches', 'POST', hosted.order(file.id));
      expect(early.error.message).toContain('not processed yet');
    }
    pass(10);
    expect(await hosted.json(`/files/${file.id}`)).toMatchObject({ status: 'processed' });
    const batch = await hosted.json('/batches', 'POST', hosted.order(file.id));
    const seen = [batch];
    for (const seconds of [9, 1, 40, 40, 10]) {
      pass(seconds);
      seen.push(await hosted.look(batch));
    }
    expect(seen.map(({ status, request_counts: { completed } }) => [status, completed])).toEqual([
      ['validating', 0],
      ['validating', 0],
      ['in_progress', 0],
      ['in_progress', 5],
      ['finalizing', 10],
      ['completed', 10],
    ]);
    const { created_at, in_progress_at, finalizing_at, completed_at, expires_at } = seen[5];
    expect([in_progress_at, finalizing_at, completed_at, expires_at].map((at) => at - created_at)).toEqual([
      10, 90, 100, 86_400,
    ]);
    expect(seen[4]).toMatchObject({ output_file_id: null, error_file_id: null });
    expect(await hosted.json(`/files/${seen[5].output_file_id}`)).toMatchObject({ purpose: 'batch_output' });
  });
});

describe('the check of an input', () => {
  const good = new Hosted({} as Emulator).line('a', ASK);
  const other = new Hosted({} as Emulator).line('b', ASK);

  it.each([
    ['no JSON', `${good}\n{"custom_id": "b",`, 'invalid_json_line', 2],
    ['a byte-order mark', `\uFEFF${good}`, 'invalid_json_line', 1],
    [
      'a line without a body',
      `${good}\n{"custom_id": "b", "method": "POST", "url": "/v1/completions"}`,
      'invalid_request',
      2,
    ],
    ['a line without an id', good.replace('"a"', '""'), 'invalid_request', 1],
    ['two lines of one id', `${good}\n\n${good}`, 'duplicate_custom_id', 3],
    ['two models', `${good}\n${other.replace(MODEL, 'text-davinci-003')}`, 'model_mismatch', 2],
    ['a model that there is not', good.replace(MODEL, 'no-such'), 'model_not_found', 1],
    ['a model of the other operation', good.replace(MODEL, 'lm-4'), 'model_not_found', 1],
    ['the url of the other operation', good.replace('/v1/', '/v1/chat/'), 'url_mismatch', 1],
    ['no request', '\n', 'empty_batch', null],
    ['too many requests', `${good}\n${other}\n${good.replace('"a"', '"c"')}`, 'too_many_tasks', null],
    ['too many bytes', good.replace(SENTIMENT.slice(0, 5), 'word '.repeat(250)), 'file_too_large', null],
  ])('refuses %s', async (_, text, code, line) => {
    const { emulator, pass } = await started({ requests: 2, bytes: 1000 });
    const hosted = new Hosted(emulator);
    const batch = await hosted.create(text);
    expect(batch).toMatchObject({ status: 'validating', errors: null });
    pass(10);
    const failed = await hosted.look(batch);
    expect(failed).toMatchObject({ status: 'failed', output_file_id: null, error_file_id: null });
    expect(failed.errors).toEqual({ object: 'list', data: [{ code, message: expect.any(String), line }] });
    expect(failed.failed_at).toBe(failed.created_at + 10);
    expect(emulator.stats().batches).toEqual({ created: 1, requests: 0 });
  });

  it('refuses conversations with no model', async () => {
    const { emulator, pass } = await started();
    const hosted = new Hosted(emulator);
    const line = hosted.line('a', { messages: [] }, 'chat/completions');
    const batch = await hosted.create(line, 'chat/completions');
    pass(10);
    expect((await hosted.look(batch)).errors.data).toMatchObject([{ code: 'model_not_found', line: 1 }]);
  });

  it('finds every problem', async () => {
    const { emulator, pass } = await started();
    const hosted = new Hosted(emulator);
    const batch = await hosted.create(`${good}\nno\n${good.replace('/v1/', '/')}`);
    pass(10);
    const { errors } = await hosted.look(batch);
    expect(errors.data.map(({ code, line }: Body) => [code, line])).toEqual([
      ['invalid_json_line', 2],
      ['duplicate_custom_id', 3],
      ['url_mismatch', 3],
    ]);
  });

  it('refuses a batch while the enqueued tokens of others leave no room', async () => {
    const { emulator, pass } = await started({ enqueuedTokens: 60 });
    const hosted = new Hosted(emulator);
    // 26 tokens each.
    const batches = [await hosted.create(`${good}\n${other}`), await hosted.create(good)];
    const davinci = await hosted.create(good.replace(MODEL, 'text-davinci-003'));
    pass(10);
    const statusOf = async (batch: Body) => (await hosted.look(batch)).status;
    expect(await Promise.all(batches.map(statusOf))).toEqual(['in_progress', 'failed']);
    expect((await hosted.look(batches[1])).errors.data[0].code).toBe('token_limit_exceeded');
    expect(await statusOf(davinci)).toBe('in_progress');
    pass(90);
    const again = await hosted.create(good);
    pass(10);
    expect(await statusOf(again)).toBe('in_progress');
  });
});

describe('calls of files and batches', () => {
  it('are refused in the words of the API', async () => {
    const { emulator } = await started();
    const [hosted, service] = [new Hosted(emulator), new Hosted(emulator, 'service')];
    const file = await hosted.upload(ten(hosted));
    const order = JSON.parse(hosted.order(file.id));
    const refused = async (path: string, method: string, body?: string) => {
      const response = await hosted.get(path, method, body);
      return [response.status, ((await response.json()) as Body).error.message];
    };
    const create = (members: object) => refused('/batches', 'POST', JSON.stringify({ ...order, ...members }));
    expect(await create({ input_file_id: 'file-1' })).toEqual([404, "No file found with id 'file-1'."]);
    expect(await create({ endpoint: '/v1/embeddings' })).toEqual([
      400,
      expect.stringContaining("'/v1/completions'"),
    ]);
    expect(await create({ completion_window: '1h' })).toEqual([
      400,
      expect.stringContaining('completion_window'),
    ]);
    expect(await create({ metadata: { a: 'x'.repeat(513) } })).toEqual([
      400,
      expect.stringContaining('metadata'),
    ]);
    expect(await refused('/batches', 'POST', '[')).toEqual([400, expect.stringContaining('JSON object')]);
    expect(await refused('/batches/batch_1', 'GET')).toEqual([404, "No batch found with id 'batch_1'."]);
    expect(await refused('/batches?limit=101', 'GET')).toEqual([400, expect.stringContaining('limit')]);
    expect(await refused('/batches?after=batch_1', 'GET')).toEqual([400, expect.stringContaining('after')]);
    expect(await refused('/files/file-1/content', 'GET')).toEqual([404, expect.any(String)]);
    expect(await refused('/files', 'PUT', '')).toEqual([404, 'Resource not found']);

    const response = await fetch(`${emulator.url}/v1/batches`);
    expect(response.status).toBe(401);
    const noVersion = await fetch(`${emulator.url}/openai/files`, {
      headers: { 'api-key': emulator.keys[0] },
    });
    expect(noVersion.status).toBe(404);
    expect((await service.json(`/files/${file.id}`)).status).toBe('processed');
    expect(emulator.stats()).toMatchObject({ requests: 0, batches: { created: 0 } });
  });

  it('take a form only, of the purpose batch', async () => {
    const { emulator } = await started();
    const hosted = new Hosted(emulator);
    const refused = async (fields: Record<string, string | File>) => {
      const form = new FormData();
      for (const [name, value] of Object.entries(fields)) form.append(name, value);
      return (await hosted.json('/files', 'POST', form)).error.message;
    };
    const file = new File(['{}'], 'in.jsonl');
    expect(await refused({ file, purpose: 'fine-tune' })).toContain("'fine-tune' is not one of");
    expect(await refused({ file })).toContain('purpose');
    expect(await refused({ purpose: 'batch' })).toContain("'file' is a required property");
    expect((await hosted.json('/files', 'POST', '{}')).error.message).toContain('multipart/form-data');
    expect((await hosted.json('/files')).data).toEqual([]);
  });

  it('give an upload back byte for byte', async () => {
    const { emulator } = await started();
    const hosted = new Hosted(emulator);
    const text = `${'é\r\n--\r\n'.repeat(100_000)}--boundary`;
    const { id, bytes } = await hosted.upload(text);
    expect(bytes).toBe(Buffer.byteLength(text));
    expect(await (await hosted.get(`/files/${id}/content`)).text()).toBe(text);
  });

  it('leave no temporary files behind', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'promptmill-batches-'));
    vi.stubEnv('TMPDIR', folder);
    const { emulator } = await started();
    await new Hosted(emulator).upload('{}');
    expect(readdirSync(folder)).toHaveLength(1);
    await emulator.close();
    expect(readdirSync(folder)).toEqual([]);
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });
});

describe('a form', () => {
  const FORM = [
    'preamble\r\n--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n',
    '--b\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\nContent-Type: text/plain\r\n\r\n',
    'x\r\n--c\r\n\r\n-\r\n--b--\r\nepilogue',
  ].join('');

  const partsOf = async (text: string, size: number) => {
    const chunks = function* () {
      for (let at = 0; at < text.length; at += size) yield Buffer.from(text.slice(at, at + size));
    };
    const parts: { name: string; filename: string | null; text: string }[] = [];
    const read = readForm(
      'multipart/form-data; boundary="b"',
      (async function* () {
        yield* chunks();
      })(),
    );
    for await (const piece of read) {
      if (!Buffer.isBuffer(piece)) parts.push({ ...piece, text: '' });
      else (parts.at(-1) ?? { text: '' }).text += piece.toString();
    }
    return parts;
  };

  it.each([1, 2, 3, 7, 1000])('is read in pieces of %i bytes', async (size) => {
    expect(await partsOf(FORM, size)).toEqual([
      { name: 'purpose', filename: null, text: 'batch' },
      { name: 'file', filename: 'a.jsonl', text: 'x\r\n--c\r\n\r\n-' },
    ]);
  });

  it.each([10, 60, 150, FORM.length - 12])('is refused when it ends after %i bytes', async (length) => {
    await expect(partsOf(FORM.slice(0, length), 16)).rejects.toThrow('refused with status 400');
  });
});

describe('a batch', () => {
  /** Creates one of ten requests, and looks at it after its time. */
  async function ended(batches: Partial<BatchSettings>, options: EmulatorOptions = {}) {
    const { emulator, pass } = await started(batches, options);
    const hosted = new Hosted(emulator);
    const created = await hosted.create(ten(hosted));
    pass(100);
    const batch = await hosted.look(created);
    return {
      ...{ emulator, hosted, pass, batch },
      output: await hosted.read(batch.output_file_id),
      errors: await hosted.read(batch.error_file_id),
    };
  }

  it('expires with the share that is answered', async () => {
    const { batch, output, errors, emulator } = await ended({ faults: { expire: 0.4 } });
    expect(batch).toMatchObject({
      status: 'expired',
      expired_at: batch.created_at + 100,
      request_counts: { total: 10, completed: 4, failed: 0 },
    });
    expect(statusesOf(output)).toEqual([200, 200, 200, 200]);
    expect(errors).toHaveLength(6);
    for (const { response, error } of errors) {
      expect([response, error.code]).toEqual([null, 'batch_expired']);
    }
    expect(emulator.stats().by_tier['batch']).toMatchObject({ answered: 4, completion_tokens: 4 });
  });

  it('hangs until it is cancelled, with half of its requests answered', async () => {
    const { batch, hosted, pass } = await ended({ faults: { hang: 1 } });
    expect(batch).toMatchObject({ status: 'in_progress', request_counts: { completed: 5 } });
    pass(100_000);
    expect(await hosted.look(batch)).toMatchObject({ status: 'in_progress' });
    expect(await hosted.json(`/batches/${batch.id}/cancel`, 'POST')).toMatchObject({ status: 'cancelling' });
    pass(10);
    const { status, output_file_id, error_file_id } = await hosted.look(batch);
    expect(status).toBe('cancelled');
    expect(await hosted.read(output_file_id)).toHaveLength(5);
    expect((await hosted.read(error_file_id)).map(({ error }) => error.code)).toEqual(
      Array(5).fill('batch_cancelled'),
    );
  });

  it('is cancelled before it began, without an output file', async () => {
    const { emulator, pass } = await started();
    const hosted = new Hosted(emulator);
    const batch = await hosted.create(ten(hosted));
    await hosted.json(`/batches/${batch.id}/cancel`, 'POST');
    pass(10);
    const { status, output_file_id, error_file_id, in_progress_at } = await hosted.look(batch);
    expect([status, output_file_id, in_progress_at]).toEqual(['cancelled', null, null]);
    expect(await hosted.read(error_file_id)).toHaveLength(10);
    expect((await hosted.get(`/batches/${batch.id}/cancel`, 'POST')).status).toBe(409);
  });

  it('has holes that its counts do not tell, the same with the same seed', async () => {
    const runs = [await ended({ faults: { holes: 0.5 } }), await ended({ faults: { holes: 0.5 } })];
    const lines = runs.map(({ output, errors }) => [...output, ...errors].map(({ custom_id }) => custom_id));
    expect(lines[0]).toEqual(lines[1]);
    const { batch, output, errors } = runs[0] as (typeof runs)[0];
    expect(batch.request_counts).toEqual({ total: 10, completed: 10, failed: 0 });
    expect(output.length + errors.length).toBeLessThan(10);
    expect(errors.length).toBeGreaterThan(0);
    for (const { response, error } of errors) expect([response.status_code, error]).toEqual([0, null]);
  });

  it('has lines with a 5xx', async () => {
    const { batch, output, errors, emulator } = await ended({ faults: { fail: 0.5 } });
    expect(errors.length).toBeGreaterThan(0);
    expect(output.length + errors.length).toBe(10);
    for (const status of statusesOf(errors)) expect([500, 503]).toContain(status);
    expect(batch.request_counts).toEqual({ total: 10, completed: output.length, failed: errors.length });
    expect(emulator.stats().by_tier['batch']?.answered).toBe(output.length);
  });

  it('is completed without an output file when all requests failed', async () => {
    const { batch } = await ended({ faults: { fail: 1 } });
    expect(batch).toMatchObject({
      status: 'completed',
      output_file_id: null,
      request_counts: { failed: 10 },
    });
  });

  it('is created although the answer is lost', async () => {
    const { emulator } = await started({ faults: { 'lost-create': 1 } });
    const hosted = new Hosted(emulator);
    const file = await hosted.upload(ten(hosted));
    await expect(hosted.get('/batches', 'POST', hosted.order(file.id))).rejects.toThrow();
    const { data } = await hosted.json('/batches');
    expect(data).toMatchObject([{ input_file_id: file.id }]);
  });

  it('is validated for a long time', async () => {
    const { batch, hosted, pass } = await ended({ faults: { 'validate-slow': 1 } });
    expect(batch).toMatchObject({ status: 'validating' });
    pass(900);
    expect(await hosted.look(batch)).toMatchObject({ status: 'in_progress' });
    pass(90);
    expect(await hosted.look(batch)).toMatchObject({ status: 'completed' });
  });

  it('fails at the token limit', async () => {
    const { batch } = await ended({ faults: { 'token-limit': 1 } });
    expect(batch).toMatchObject({ status: 'failed', errors: { data: [{ code: 'token_limit_exceeded' }] } });
  });

  it('comes in odd spellings', async () => {
    const { batch, hosted, errors } = await ended({ faults: { odd: 1 } });
    expect(batch).toMatchObject({ status: 'Completed', request_counts: null, metadata: null });
    expect(Date.parse(batch.created_at)).toBeGreaterThan(0);
    expect(errors).toEqual([]);
    expect(await hosted.json(`/files/${batch.error_file_id}`)).toMatchObject({ bytes: 0 });
    const { id } = await hosted.create(ten(hosted));
    expect(await hosted.json(`/batches/${id}/cancel`, 'POST')).toMatchObject({ status: 'Cancelling' });
  });

  it('loses its output file', async () => {
    const { emulator, pass } = await started({ faults: { 'no-file': 1 } });
    const hosted = new Hosted(emulator);
    const created = await hosted.create(ten(hosted));
    pass(100);
    const { output_file_id } = await hosted.look(created);
    expect((await hosted.get(`/files/${output_file_id}/content`)).status).toBe(404);
  });

  it('is downloaded half', async () => {
    const { emulator, pass } = await started({ faults: { cut: 1 } });
    const hosted = new Hosted(emulator);
    const created = await hosted.create(ten(hosted));
    pass(100);
    const { output_file_id } = await hosted.look(created);
    const response = await hosted.get(`/files/${output_file_id}/content`);
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
  });

  it('cannot be reached at times', async () => {
    const { emulator } = await started({ faults: { unavailable: 0.5 } });
    const hosted = new Hosted(emulator);
    const statuses: number[] = [];
    for (let index = 0; index < 20; index++) statuses.push((await hosted.get('/batches')).status);
    expect([...new Set(statuses)].sort()).toEqual([200, 503]);
  });

  it('ends after its input was deleted', async () => {
    const { emulator, pass } = await started();
    const hosted = new Hosted(emulator);
    const batch = await hosted.create(ten(hosted));
    expect(await hosted.json(`/files/${batch.input_file_id}`, 'DELETE')).toMatchObject({ deleted: true });
    pass(100);
    expect(await hosted.look(batch)).toMatchObject({ status: 'completed' });
    expect((await hosted.get(`/files/${batch.input_file_id}`)).status).toBe(404);
  });

  it('reads bytes that are no UTF-8 as calls do', async () => {
    const { emulator } = await started({ seconds: 0 });
    const hosted = new Hosted(emulator);
    const lines = ['a', 'b'].map((id) => hosted.line(id, { ...ASK, prompt: 'Hi \xFF' })).join('\r\n');
    const batch = await hosted.create(Buffer.from(lines, 'latin1'));
    expect(await hosted.look(batch)).toMatchObject({ status: 'completed', request_counts: { completed: 2 } });
  });

  it('may take no time', async () => {
    const { emulator } = await started({ seconds: 0 });
    const hosted = new Hosted(emulator);
    const batch = await hosted.create(ten(hosted));
    expect(batch.status).toBe('validating');
    expect(await hosted.look(batch)).toMatchObject({
      status: 'completed',
      request_counts: { completed: 10 },
    });
  });

  it('is answered by the model that answers calls, faults of its answers included', async () => {
    const { output, emulator } = await ended({}, { faults: [{ fault: named('fenced'), rate: 1 }] });
    for (const { response } of output) expect(response.body.choices[0].text).toContain('```');
    expect(emulator.stats().by_fault).toEqual({ fenced: 10 });
  });

  it('counts what is billed, beside the calls and outside of their quota', async () => {
    const quota = { requestsPerMinute: 1, requestWindowSeconds: 60 };
    const { emulator, output } = await ended({}, { quota });
    expect((await call(emulator, ASK)).status).toBe(200);
    const usage = output[0].response.body.usage;
    expect(emulator.stats()).toMatchObject({
      requests: 1,
      by_status: { 200: 1 },
      answered: 11,
      prompts: 11,
      distinct_prompts: 1,
      usage: { total_tokens: 11 * usage.total_tokens },
      by_tier: {
        batch: { answered: 10, prompt_tokens: 10 * usage.prompt_tokens, completion_tokens: 10 },
      },
      batches: { created: 1, requests: 10 },
    });
  });
});
