import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunHeartbeat } from '../../src/ops/heartbeat.js';
import { readWorkers } from '../../src/ops/heartbeat.js';
import { serviceQueue } from '../../src/queue/names.js';
import { KeyRing } from '../../src/service/keys.js';
import { openStore } from '../../src/store/open.js';
import type { Store } from '../../src/store/store.js';
import { FleetWorker, serviceAt } from '../../src/worker/fleet-worker.js';
import { runBeat } from '../ops/samples.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

if (!haveRedis()) describeMissing('a worker of a fleet', 'redis-server or valkey-server');

// Nothing is called here: there are runs on the board, and no rows in their queues.
describe.runIf(haveRedis())('a worker of a fleet', () => {
  const address = { baseUrl: 'http://127.0.0.1:9', segment: 'openai' };
  let server: Server;
  let store: Store;
  beforeAll(async () => {
    server = await startRedis();
    store = await openStore(server.url, { stateDir: '/dev/null/never', onWarning: () => {} });
  });
  afterAll(async () => {
    clearInterval(renewing);
    await renewed;
    await store.close();
    await server.stop();
  });

  /** Runs replace their beats all the time; one that does not is taken for lost. */
  const runs = new Map<string, RunHeartbeat>();
  const hang = async (): Promise<void> => {
    for (const beat of runs.values())
      await store.keyValue.put('run', beat.run, JSON.stringify(beat), 3_600_000);
  };
  let renewing: NodeJS.Timeout | undefined;
  let renewed: Promise<void> | undefined;
  const put = async (beat: RunHeartbeat): Promise<void> => {
    runs.set(beat.run, beat);
    await hang();
    renewing ??= setInterval(() => {
      renewed = hang();
    }, 1_000);
  };
  /** What the board says that the worker may do at once, by deployment. */
  const onBoard = async (): Promise<string[]> =>
    readWorkers(await store.keyValue.list('worker')).flatMap(({ beat }) => [
      `most ${beat.concurrency}`,
      ...beat.queues.map(({ deployment, concurrency }) => `${deployment} ${concurrency}`),
    ]);
  const shown = (expected: readonly string[]) =>
    expect.poll(onBoard, { timeout: 60_000, interval: 50 }).toEqual(expected);

  it('follows the board: takes up a queue, follows its newest run, tells of others, and leaves', async () => {
    const said: string[] = [];
    const logged: string[] = [];
    const worker = new FleetWorker({
      store,
      service: serviceAt({ address, keys: new KeyRing(['a-key-for-tests-only']) }),
      ...{ concurrency: 8, untilAnswered: 8 },
      log: pino({ level: 'info' }, { write: (line) => logged.push(line) }),
      say: (line) => said.push(line),
      onStop: ({ message }) => said.push(`stopped: ${message}`),
      idleMs: 1,
    });
    try {
      worker.begin();
      await shown(['most 8']);

      const queue = serviceQueue('lm-35', address);
      const unpaced = { ...runBeat().limits, requests_per_minute: null };
      const first = runBeat({ run: 'first', queue, limits: unpaced });
      await put(first);
      await shown(['most 8', 'lm-35 5']);

      await put(runBeat({ run: 'second', queue }, 'reviews', '2026-11-21T03:00:00Z'));
      await expect
        .poll(() => logged.join(''), { timeout: 60_000 })
        .toContain('using the limits of a later run');
      await shown(['most 8', 'lm-35 5']);

      await put(runBeat({ run: 'there', queue: serviceQueue('lm-35', { ...address, segment: 'other' }) }));
      await expect
        .poll(() => said, { timeout: 60_000 })
        .toContain('1 run waits for workers of another address');

      await put({ ...first, state: 'finished' });
      await put(runBeat({ run: 'second', queue, state: 'stopped' }));
      await shown(['most 8']);
      const changes = logged.filter((line) => line.includes('using the limits of a later run'));
      expect(changes, 'once, and not with each look').toHaveLength(1);
      expect(changes[0]).toContain('"requests_per_minute":600');
      expect(said).toEqual([
        'taking rows of lm-35',
        '1 run waits for workers of another address',
        'no run needs lm-35 any more',
      ]);
    } finally {
      await worker.close();
    }
    expect(await onBoard()).toEqual([]);
  });
});
