import { Queue, Worker } from 'bullmq';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Chunk } from '../../../src/queue/chunk.js';
import { ChunkQueue, ENTRY_LIMIT } from '../../../src/queue/chunk-queue.js';
import { QueueViews } from '../../../src/queue/queue-views.js';
import type { Store } from '../../../src/store/store.js';
import { describeOn, type StoreUnderTest } from '../../support/stores.js';
import { MemoryBeats, runBeat } from './beats.js';
import { type Dashboard, startDashboard } from './dashboard.js';

const log = pino({ level: 'silent' });
const QUEUE = 'promptmill-lm-35-turbo-instruct-1234abcd';
const SECRET = 'the patient said';

const CHUNK: Chunk = {
  run: '20261121-020000-aaaaaa',
  execution: 1,
  first: 21,
  endpoints: [
    {
      name: 'lm-35-turbo-instruct',
      operation: 'completions',
      deployment: 'lm-35-turbo-instruct',
      apiVersion: '2023-09-15-preview',
      style: 'deployments',
      timeoutMs: 1000,
    },
  ],
  promptsPerRequest: 1,
  budget: null,
  hold: false,
  asks: null,
  parameters: { completions: { max_tokens: 5 } },
  rows: [
    { row: 21, prompt: `${SECRET} one`, parameters: null },
    { row: 22, prompt: `${SECRET} two`, parameters: { suffix: SECRET } },
  ],
};

/** With the embedded store there is nothing to look at: each run has its queue inside its process. */

describeOn('redis', 'Bull Board', bullBoard);

function bullBoard(under: () => StoreUnderTest): void {
  let store: Store;
  let chunks: ChunkQueue;
  let views: QueueViews;
  let dashboard: Dashboard;

  beforeAll(async () => {
    store = await under().open();
    chunks = new ChunkQueue(store, QUEUE, 3, log);
    await chunks.add([CHUNK]);
    views = new QueueViews(store, log);
    const beats = new MemoryBeats();
    await beats.run(runBeat({ queue: QUEUE }));
    await beats.run(runBeat({ queue: 'somebody-elses' }, {}, 'forged-1'));
    await beats.run(runBeat({ queue: 'promptmill-a:b' }, {}, 'forged-2'));
    dashboard = await startDashboard({ beats, queues: views });
  });
  afterAll(async () => {
    await dashboard.close();
    await views.close();
    await chunks.close();
  });

  it('shows the queues of the runs on the board, and no others', async () => {
    const { status, body } = await dashboard.get('/queues/api/queues');
    expect(status).toBe(200);
    expect(JSON.parse(body)).toMatchObject({
      queues: [{ name: QUEUE, readOnlyMode: true, counts: { prioritized: 1, failed: 0 } }],
    });
    expect(JSON.parse(body).queues).toHaveLength(1);
  });

  it('shows where an entry belongs, and none of its prompts', async () => {
    const pages = [
      `/queues/api/queues?activeQueue=${QUEUE}&status=prioritized&page=1&jobsPerPage=10`,
      `/queues/api/queues/${QUEUE}/${CHUNK.run}-x1-21`,
    ];
    for (const page of pages) {
      const { body } = await dashboard.get(page);
      expect(body, page).toContain('"first":21');
      expect(body, page).toContain('"prompts":"not shown"');
      expect(body, page).not.toContain(SECRET);
    }
  });

  it('changes nothing: what would is refused, and the entry is there afterwards', async () => {
    const entry = `/queues/api/queues/${QUEUE}/${CHUNK.run}-x1-21`;
    for (const [method, path] of [
      ['PUT', `${entry}/promote`],
      ['PUT', `${entry}/clean`],
      ['PUT', `/queues/api/queues/${QUEUE}/pause`],
      ['PUT', `/queues/api/queues/${QUEUE}/obliterate`],
      ['POST', `/queues/api/queues/${QUEUE}/add`],
    ] as const) {
      expect((await dashboard.send(method, path)).status, `${method} ${path}`).toBe(405);
    }
    expect(await chunks.state(`${CHUNK.run}-x1-21`)).toBe('queued');
  });

  it('fault 103: is a page that runs no script of anybody else, and asks no other host for its fonts', async () => {
    const { status, headers, body } = await dashboard.get('/queues/');
    expect(status).toBe(200);
    expect(body).toContain('Promptmill queues');
    expect(headers['content-security-policy']).toContain(
      "script-src 'self';style-src 'self' 'unsafe-inline'",
    );
    expect(body).not.toMatch(/(?:href|src)="https?:/);
    for (const [, script = ''] of body.matchAll(/<script[^>]* src="([^"]+)"/g)) {
      expect((await dashboard.get(`/queues/${script}`)).status, script).toBe(200);
    }
  });

  it('calls a busy queue limited only while its workers have to wait', async () => {
    const name = 'promptmill-busy-1234abcd';
    const queue = new Queue(name, { connection: store.connection }, store.backendFactory);
    const worker = new Worker(
      name,
      async () => {},
      { connection: store.connection, limiter: ENTRY_LIMIT },
      store.backendFactory,
    );
    const beats = new MemoryBeats();
    await beats.run(runBeat({ queue: name }));
    const busy = await startDashboard({ beats, queues: views });
    const limitedFor = async (): Promise<number> =>
      JSON.parse((await busy.get('/queues/api/queues')).body).queues[0].activeRateLimitTtl;
    // What BullMQ counts of an entry lasts for a second; a pause of a minute is longer.
    do {
      const done = new Promise((resolve) => worker.once('completed', resolve));
      await queue.add('chunk', {});
      await done;
      expect(await limitedFor()).toBe(0);
      // Otherwise the second was over when the page was asked for.
    } while ((await queue.getRateLimitTtl()) <= 0);
    await worker.close();
    await queue.rateLimit(60_000);
    expect(await limitedFor()).toBeGreaterThan(1_000);
    await Promise.all([queue.close(), busy.close()]);
  });

  it('has a server behind it that says how it is, where it is one', async () => {
    expect((await dashboard.get('/queues/api/redis/stats')).status).toBe(200);
  });

  it('has its counts among the metrics', async () => {
    const metrics = async (): Promise<string> => (await dashboard.get('/metrics')).body;
    // A store that takes longer than two seconds is left out of them.
    await expect.poll(metrics).toContain(`promptmill_queue_depth{queue="${QUEUE}",state="prioritized"} 1`);
    const body = await metrics();
    expect(body).toContain(`promptmill_queue_depth{queue="${QUEUE}",state="active"} 0`);
    expect(body).not.toContain('promptmill_queue_depth{queue="somebody-elses"');
  });
}

it('without queues to look at, a page says why', async () => {
  const { get, close } = await startDashboard();
  const { status, body } = await get('/queues');
  await close();
  expect(status).toBe(200);
  expect(body).toContain('With the embedded store there is no queue to look at from here.');
});
