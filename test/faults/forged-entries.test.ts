import { Queue } from 'bullmq';
import { afterAll, beforeAll, expect, it } from 'vitest';
import './figures.js';
import { type Chunk, type ChunkData, encodeChunk } from '../../src/queue/chunk.js';
import { queueName, queueOfSet } from '../../src/queue/names.js';
import type { Store } from '../../src/store/store.js';
import { runBeat } from '../ops/samples.js';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';

const ROWS = 40;
const DEPLOYMENT = 'lm-35-turbo-instruct';

// The embedded queue is in the memory of its process: nobody else can put anything in.
describeOn('redis', 'a queue with forged entries', (store) => {
  const work = new Workplace();
  let service: ScriptedService;
  let elsewhere: ScriptedService;
  beforeAll(async () => {
    [service, elsewhere] = await Promise.all([startScriptedService(), startScriptedService()]);
  });
  afterAll(async () => {
    await Promise.all([service.close(), elsewhere.close()]);
    work.remove();
  });

  /** As sound as a worker could wish, but of a run that nobody began. */
  const sound = (): Chunk => ({
    run: '20200101-000000-abcdef',
    execution: 1,
    first: 1,
    endpoints: [
      {
        name: DEPLOYMENT,
        operation: 'completions',
        deployment: DEPLOYMENT,
        apiVersion: '2023-09-15-preview',
        style: 'deployments',
        timeoutMs: 5_000,
      },
    ],
    promptsPerRequest: 1,
    parameters: { completions: {} },
    budget: null,
    hold: false,
    asks: null,
    rows: [{ row: 1, prompt: 'forged', parameters: null }],
  });

  function forgeries(): Record<string, unknown> {
    const whole = encodeChunk(sound());
    const common = (change: object): ChunkData => ({
      ...whole,
      common: JSON.stringify({ ...JSON.parse(whole.common), ...change }),
    });
    const endpoint = (change: object): ChunkData =>
      common({ endpoints: [{ ...sound().endpoints[0], ...change }] });
    return {
      'no-run-of-ours': whole,
      'another-deployment': endpoint({ deployment: 'forged-deployment' }),
      'a-second-endpoint': common({
        endpoints: [...sound().endpoints, { ...sound().endpoints[0], name: 'forged' }],
      }),
      'another-name': endpoint({ name: 'forged' }),
      'a-path-as-deployment': endpoint({ deployment: `../../../${new URL(elsewhere.url).host}/x` }),
      'an-address-in-the-endpoint': endpoint({ url: elsewhere.url, baseUrl: elsewhere.url }),
      'an-address-beside-the-endpoint': common({ url: elsewhere.url, baseUrl: elsewhere.url }),
      'an-address-beside-the-rows': { ...whole, baseUrl: elsewhere.url },
      'a-path-as-api-version': endpoint({ apiVersion: `x/../../${elsewhere.url}` }),
      'no-rows': { ...whole, rows: '[]' },
      'rows-of-another-shape': { ...whole, rows: '[{"prompt":"forged"}]' },
      'parameters-of-another-kind': common({
        parameters: { completions: { stream: true, url: elsewhere.url } },
      }),
      'names-of-a-prototype': { ...whole, common: `{"__proto__":{"deployment":"${DEPLOYMENT}"}}` },
      'no-json': { ...whole, rows: 'forged {' },
      'another-version': { ...whole, v: 2 },
      'a-string': 'forged',
      null: null,
      'an-array': ['forged'],
      nothing: {},
    };
  }

  /** Puts the forgeries into the queue of the job, each under a name that begins with a prefix. */
  async function forge(prefix: string): Promise<void> {
    const opened = await store().open();
    const queue = new Queue(
      queueName(DEPLOYMENT, `${service.url}/openai`),
      { connection: opened.connection },
      opened.backendFactory,
    );
    for (const [name, data] of Object.entries(forgeries())) {
      await queue.add('chunk', data, { jobId: `${prefix}-${name}`, attempts: 3 });
    }
    await queue.close();
    await putPosts(opened);
    await opened.close();
  }

  async function putPosts({ keyValue }: Store): Promise<void> {
    for (const [id, beat] of Object.entries(forgedPosts())) await keyValue.put('run', id, beat, 600_000);
  }

  /** Runs on the board that nobody began. */
  function forgedPosts(): Record<string, string> {
    const beat = runBeat({ run: 'elsewhere', queue: queueName(DEPLOYMENT, `${elsewhere.url}/openai`) });
    const named = { ...beat, run: 'named', baseUrl: elsewhere.url };
    const path = { ...beat, run: 'path', summary: { ...beat.summary, deployment: `../${elsewhere.url}` } };
    return {
      elsewhere: JSON.stringify(beat),
      named: JSON.stringify(named),
      path: JSON.stringify(path),
      garbage: 'forged {',
    };
  }

  const job = (): string =>
    work.job({
      input: { path: work.rows(ROWS) },
      output: { path: 'out.csv' },
      // One chunk at a time and last in the queue: all forged entries, which have no priority, come before.
      limits: { concurrency: 1 },
    });
  const env = (): Record<string, string> => ({ PROMPTMILL_BASE_URL: service.url, ...store().env });

  function expectAnswered(calls: number, stderr: string, prefix: string): void {
    expect(work.records('out.csv').map(({ id }) => Number(id))).toEqual(
      Array.from({ length: ROWS }, (_, i) => i + 1),
    );
    expect(elsewhere.connections()).toBe(0);
    expect(service.requests.filter(({ text }) => text.includes('forged'))).toEqual([]);
    expect(new Set(service.requests.map(({ url }) => url)).size).toBe(1);
    expect(calls).toBe(ROWS);
    // Those of sound shape are of a run that nobody began, and one without data is lost: they are dropped, not warned of.
    const dropped = ['no-run-of-ours', 'a-path-as-api-version', 'nothing', 'null'];
    const refusals = Object.keys(forgeries()).filter((name) => !dropped.includes(name));
    for (const name of refusals) expect(stderr, name).toContain(`${prefix}-${name}`);
  }

  it('fault 58: refuses each, follows none, and answers the rows of the run beside them', async ({
    task,
  }) => {
    await forge('forged');
    const { code, stderr } = await work.run(['run', job(), '--log-level', 'warn'], env());
    expect(code, stderr).toBe(0);
    expectAnswered(service.requests.length, stderr, 'forged');
    task.meta.fault = { rows: ROWS, calls: service.requests.length };
  });

  it('fault 58: is no danger to a `promptmill work` that others leave their calls to', async ({ task }) => {
    const before = service.requests.length;
    await forge('forged-for-work');
    const opened = await store().open();
    // Those that are not renewed are taken for lost, perhaps before the worker has begun to look.
    let renewed = Promise.resolve();
    const renewing = setInterval(() => {
      renewed = putPosts(opened);
    }, 1_000);
    const worker = work.start(['work', '--concurrency', '1', '--log-level', 'warn'], env());
    const { code, stderr } = await work.run(['run', job(), '--no-work', '--overwrite'], env());
    clearInterval(renewing);
    await renewed;
    worker.process.kill('SIGTERM');
    const left = await worker.ended;
    expect(code, stderr).toBe(0);
    expect(left.code, left.stderr).toBe(0);
    const calls = service.requests.length - before;
    expectAnswered(calls, left.stderr, 'forged-for-work');
    // Two beats name a queue of another address; the worker tells of them, and takes nothing there.
    expect(left.stderr).toContain('wait for workers of another address');
    task.meta.fault = { rows: ROWS, calls };
  });

  it('fault 58: gets no call at an endpoint that the job file of the worker does not have so', async ({
    task,
  }) => {
    const place = (name: string, baseUrl: string) => ({
      ...{ name, deployment: `d-${name}`, address: { baseUrl, segment: 'openai' } },
    });
    const file = work.job(
      {
        service: {
          endpoints: [
            { name: 'west', base_url: elsewhere.url, deployment: 'd-west', key: 'WEST_KEY' },
            { name: 'east', base_url: service.url, deployment: 'd-east', key: 'EAST_KEY' },
          ],
        },
        input: { path: work.rows(ROWS) },
        output: { path: 'set.csv' },
      },
      'set.yaml',
    );
    const [spec] = sound().endpoints;
    const west = { ...spec, name: 'west', deployment: 'd-west' };
    const east = { ...spec, name: 'east', deployment: 'd-east' };
    const forged: Record<string, Chunk['endpoints']> = {
      'lacks-one': [east],
      'has-one-twice': [east, east],
      'another-name': [{ ...west, name: 'forged' }, east],
      'another-deployment': [west, { ...east, deployment: 'forged' }],
      'one-too-many': [west, east, { ...east, name: 'forged' }],
    };
    const opened = await store().open();
    const queue = new Queue(
      queueOfSet([place('west', elsewhere.url), place('east', service.url)], false),
      { connection: opened.connection },
      opened.backendFactory,
    );
    for (const [name, endpoints] of Object.entries(forged))
      await queue.add('chunk', encodeChunk({ ...sound(), endpoints }), { jobId: `set-${name}` });
    const asks = { answer: { kind: 'text' as const }, again: 0, prompt: null, deployment: 'forged' };
    const last = encodeChunk({ ...sound(), endpoints: [west, east], asks });
    await queue.add('chunk', last, { jobId: 'set-asks-another-last' });
    await queue.close();
    await opened.close();
    const before = service.requests.length;
    const { PROMPTMILL_BASE_URL: _, ...ofStore } = env();
    const worker = work.start(['work', '--job', file, '--log-level', 'warn'], {
      ...ofStore,
      EAST_KEY: 'a-key-for-tests-only',
    });
    const { code, stderr } = await work.run(['run', file, '--no-work'], ofStore);
    worker.process.kill('SIGTERM');
    const left = await worker.ended;
    expect(code, stderr).toBe(0);
    const calls = service.requests.length - before;
    expect(calls).toBe(ROWS);
    expect(elsewhere.connections()).toBe(0);
    for (const name of [...Object.keys(forged), 'asks-another-last'])
      expect(left.stderr, name).toContain(`set-${name}`);
    task.meta.fault = { rows: ROWS, calls };
  });
});
