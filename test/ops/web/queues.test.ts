import { Queue, UnrecoverableError, Worker } from 'bullmq';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { QueueWatch, queueSections } from '../../../src/ops/web/queues.js';
import type { Chunk } from '../../../src/queue/chunk.js';
import { ChunkQueue } from '../../../src/queue/chunk-queue.js';
import { QueueViews } from '../../../src/queue/queue-views.js';
import type { Section } from '../../../src/render/document.js';
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
describeOn('redis', 'queues on the dashboard', queues);

function queues(under: () => StoreUnderTest): void {
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

  /** What the page shows: the rows of each table. */
  const shown = async (): Promise<Record<string, string[][]>> => {
    const sections: Section[] = JSON.parse((await dashboard.get('/api/state')).body).queues;
    return Object.fromEntries(
      sections.map(({ id, blocks }) => [
        id,
        blocks.flatMap((block) => (block.kind === 'table' ? block.rows.map(({ cells }) => [...cells]) : [])),
      ]),
    );
  };

  it('are those of the runs on the board, with their entries, and no others', async () => {
    await expect.poll(shown).toEqual({ queues: [[QUEUE, '1', '0', '0', '0']] });
  });

  it('have their counts among the metrics', async () => {
    const metrics = async (): Promise<string> => (await dashboard.get('/metrics')).body;
    // A store that takes longer than two seconds is left out of them.
    await expect.poll(metrics).toContain(`promptmill_queue_depth{queue="${QUEUE}",state="prioritized"} 1`);
    const body = await metrics();
    expect(body).toContain(`promptmill_queue_depth{queue="${QUEUE}",state="active"} 0`);
    expect(body).not.toContain('promptmill_queue_depth{queue="somebody-elses"');
  });

  it('have their delayed and failed entries, with a known reason, and nothing of a row', async () => {
    const { connection } = store;
    const queue = new Queue(QUEUE, { connection }, store.backendFactory);
    await queue.add('chunk', { prompt: SECRET }, { jobId: 'no-chunk' });
    await queue.add('chunk', { prompt: SECRET }, { jobId: 'later', delay: 3_600_000 });
    const worker = new Worker(
      QUEUE,
      async ({ id }) => {
        throw new UnrecoverableError(
          id === 'no-chunk' ? `${SECRET} is no JSON` : 'refused: \u202eof another',
        );
      },
      { connection, autorun: false },
      store.backendFactory,
    );
    const failed = new Promise<void>((resolve) => {
      let count = 0;
      worker.on('failed', () => {
        count++;
        if (count === 2) resolve();
      });
    });
    void worker.run();
    await failed;
    await worker.close();
    await expect.poll(shown).toHaveProperty('queues', [[QUEUE, '0', '0', '1', '2']]);
    const { body } = await dashboard.get('/api/state');
    expect(body).not.toContain(SECRET);
    const date = expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
    const { failed: entries = [] } = await shown();
    expect(entries.toSorted()).toEqual([
      [QUEUE, `${CHUNK.run}-x1-21`, '21–22', date, 'refused: \\u{202e}of another'],
      [QUEUE, 'no-chunk', '–', date, 'An error whose text may quote a row, so it is not shown'],
    ]);
    await queue.close();
  });
}

it('without queues to look at, the page says why', async () => {
  const { get, close } = await startDashboard();
  const { body } = await get('/api/state');
  await close();
  expect(JSON.parse(body).queues).toMatchObject([
    { title: 'Queues', blocks: [{ text: expect.stringContaining('inside its own process') }] },
  ]);
});

it('a store that does not answer keeps nobody from the rest of the page', async () => {
  let asked = 0;
  const watch = new QueueWatch(() => {
    asked++;
    return new Promise(() => {});
  });
  expect(await watch.latest()).toBeNull();
  expect(queueSections(await watch.latest())).toEqual([]);
  expect(asked).toBe(1);
});

it('failed entries that cannot be read are counted, and the page says so', async () => {
  const depth = async () => ({ active: 0, prioritized: 0, waiting: 0, delayed: 0, failed: 3 });
  const view = { name: QUEUE, depth, failed: () => Promise.reject(new Error('no hash')) };
  const watch = new QueueWatch(async () => [view]);
  const [queues, failed] = queueSections(await watch.latest());
  expect(queues).toMatchObject({ blocks: [{ rows: [{ cells: [QUEUE, '0', '0', '0', '3'] }] }] });
  expect(failed).toMatchObject({ blocks: [{ text: expect.stringContaining(`${QUEUE} cannot be read`) }] });
});

it('a look that fails ends nothing, and the next one tries again', async () => {
  let asked = 0;
  const watch = new QueueWatch(async () => {
    asked++;
    if (asked === 1) throw new Error('the store is being closed');
    return [];
  });
  expect(await watch.latest()).toBeNull();
  expect(await watch.latest()).toEqual([]);
});
