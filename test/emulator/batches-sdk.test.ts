import OpenAI, { AzureOpenAI, toFile } from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import type { BatchSettings } from '../../src/emulator/batches/settings.js';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { SENTIMENT } from './call.js';

/** The SDK in both forms of the API, each with the url of its lines. */
const CLIENTS = [
  [
    'the Azure client',
    ({ url, keys }: Emulator): OpenAI =>
      new AzureOpenAI({
        endpoint: url,
        baseURL: null,
        apiKey: keys[0],
        apiVersion: '2023-09-15-preview',
        maxRetries: 0,
      }),
    '',
  ],
  [
    'the plain client',
    ({ url, keys }: Emulator): OpenAI => new OpenAI({ baseURL: `${url}/v1`, apiKey: keys[0], maxRetries: 0 }),
    '/v1',
  ],
] as const;

let emulator: Emulator | null = null;
afterEach(async () => {
  await emulator?.close();
  emulator = null;
});

/** An emulator whose clock the test turns. */
async function started(batches: Partial<BatchSettings> = {}) {
  let now = 0;
  emulator = await startEmulator({ batches: { seconds: 100, ...batches }, clock: () => now });
  const pass = (seconds: number) => {
    now += seconds * 1000;
  };
  return { emulator, pass };
}

describe.each(CLIENTS)('batches of %s', (_, clientOf, prefix) => {
  const line = (id: string, body: object) =>
    JSON.stringify({ custom_id: id, method: 'POST', url: `${prefix}/completions`, body });
  // The types of the SDK know only the plain form.
  const endpoint = `${prefix}/completions` as '/v1/completions';
  const ask = { model: 'lm-35-turbo-instruct', prompt: SENTIMENT, max_tokens: 5 };

  it('go from the upload to the results', async () => {
    const { emulator, pass } = await started();
    const client = clientOf(emulator);
    const lines = [line('a', ask), line('b', { ...ask, temperature: 3 }), line('c', ask)].join('\n');
    const file = await client.files.create({
      purpose: 'batch',
      file: await toFile(Buffer.from(lines), 'in.jsonl'),
    });
    expect(file).toMatchObject({
      object: 'file',
      bytes: lines.length,
      filename: 'in.jsonl',
      purpose: 'batch',
    });
    pass(10);
    expect(await client.files.retrieve(file.id)).toMatchObject({ status: 'processed' });

    const metadata = { run: 'r1' };
    const batch = await client.batches.create({
      input_file_id: file.id,
      endpoint,
      completion_window: '24h',
      metadata,
    });
    expect(batch).toMatchObject({ status: 'validating', metadata, output_file_id: null });
    pass(10);
    expect(await client.batches.retrieve(batch.id)).toMatchObject({
      status: 'in_progress',
      request_counts: { total: 3, completed: 0, failed: 0 },
    });
    pass(80);
    expect(await client.batches.retrieve(batch.id)).toMatchObject({ status: 'finalizing' });
    pass(10);
    const ended = await client.batches.retrieve(batch.id);
    expect(ended).toMatchObject({
      status: 'completed',
      request_counts: { total: 3, completed: 2, failed: 1 },
    });

    const read = async (id: string | null | undefined) =>
      (await (await client.files.content(id ?? '')).text())
        .trim()
        .split('\n')
        .map((text) => JSON.parse(text));
    const online = await client.completions.create(ask);
    const answers = await read(ended.output_file_id);
    expect(answers.map(({ custom_id }) => custom_id).sort()).toEqual(['a', 'c']);
    for (const { response, error } of answers) {
      expect(error).toBeNull();
      expect(response).toMatchObject({ status_code: 200 });
      const { id, created, ...body } = response.body;
      expect(online).toMatchObject(body);
    }
    expect(await read(ended.error_file_id)).toMatchObject([
      { custom_id: 'b', response: { status_code: 400, body: { error: { type: 'invalid_request_error' } } } },
    ]);

    expect(await client.files.delete(file.id)).toMatchObject({ deleted: true });
    await expect(client.files.retrieve(file.id)).rejects.toThrow(OpenAI.NotFoundError);
    const files: string[] = [];
    for await (const { id } of client.files.list()) files.push(id);
    expect(files.sort()).toEqual([ended.output_file_id, ended.error_file_id].sort());
  });

  it('are listed newest first, in pages', async () => {
    const { emulator, pass } = await started();
    const client = clientOf(emulator);
    const file = await client.files.create({
      purpose: 'batch',
      file: await toFile(Buffer.from(line('a', ask)), 'in.jsonl'),
    });
    pass(10);
    const order = { input_file_id: file.id, endpoint, completion_window: '24h' } as const;
    const ids: string[] = [];
    for (let index = 0; index < 5; index++) ids.unshift((await client.batches.create(order)).id);
    const listed: string[] = [];
    for await (const { id } of client.batches.list({ limit: 2 })) listed.push(id);
    expect(listed).toEqual(ids);
  });

  it('are cancelled', async () => {
    const { emulator, pass } = await started();
    const client = clientOf(emulator);
    const lines = Array.from({ length: 10 }, (_, index) => line(`${index}`, ask)).join('\n');
    const file = await client.files.create({
      purpose: 'batch',
      file: await toFile(Buffer.from(lines), 'in.jsonl'),
    });
    pass(10);
    const { id } = await client.batches.create({
      input_file_id: file.id,
      endpoint,
      completion_window: '24h',
    });
    pass(50);
    expect(await client.batches.cancel(id)).toMatchObject({
      status: 'cancelling',
      request_counts: { completed: 5 },
    });
    pass(10);
    const ended = await client.batches.retrieve(id);
    expect(ended).toMatchObject({ status: 'cancelled', request_counts: { total: 10, completed: 5 } });
    const errors = await (await client.files.content(ended.error_file_id ?? '')).text();
    expect(errors.match(/"batch_cancelled"/g)).toHaveLength(5);
    await expect(client.batches.cancel(id)).rejects.toThrow(OpenAI.ConflictError);
  });
});
