import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openStore } from '../../src/store/open.js';
import type { Store } from '../../src/store/store.js';
import { startLossyProxy } from '../support/lossy-proxy.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { entry, isWanted, NO_CALLS, outcome, record, reserve, tokens } from './samples.js';

/** Without its deadline a store never closes; on a busy machine a server takes its time before and after that. */
const CLOSED_MS = 60_000;

const open = (server: { readonly url: string }): Promise<Store> =>
  openStore(server.url, { stateDir: '/dev/null/never', onWarning: () => {} });

if (haveRedis()) {
  describe('when Redis is away', () => {
    let server: Server;
    let store: Store;
    beforeEach(async () => {
      server = await startRedis();
      store = await open(server);
    });
    afterEach(async () => {
      await store.close();
      await server.stop();
    });

    test('fault 30: what was asked of the ledger meanwhile is done when it is back', async () => {
      const { ledger } = store;
      await ledger.open('run', 1, 0, NO_CALLS);
      await record(ledger, [entry('run', 1, 1)], new Map([['run', { sent: 1 }]]));
      await server.kill('SIGKILL');
      const recorded = record(ledger, [entry('run', 1, 2)], new Map([['run', { sent: 1 }]]));
      const wanted = isWanted(ledger, 'run', 1, 1);
      await server.restart();
      await recorded;
      expect(await wanted).toBe(true);
      expect(await ledger.progress('run', [1])).toMatchObject({
        counts: [2],
        calls: { sent: 2, repeated: 0 },
      });
    });

    test('fault 31: a frozen server answers when it wakes, and nothing is done twice', async () => {
      await server.kill('SIGSTOP');
      const recorded = record(store.ledger, [entry('run', 1, 1)], new Map([['run', { sent: 1 }]]));
      await server.kill('SIGCONT');
      await recorded;
      expect(await store.ledger.progress('run', [1])).toMatchObject({
        counts: [1],
        calls: { sent: 1, repeated: 0 },
      });
    });

    test('fault 36: a write whose reply was lost is sent again, and counts once', async () => {
      const proxy = await startLossyProxy(server.url);
      const store = await open(proxy);
      const { ledger } = store;
      await ledger.open('lost', 1, 0, NO_CALLS);
      await record(ledger, [entry('lost', 1, 1)], new Map([['lost', { sent: 1 }]]));
      proxy.loseNextReply();
      await record(
        ledger,
        [entry('lost', 1, 1, 'again'), entry('lost', 1, 2)],
        new Map([['lost', { sent: 2 }]]),
      );
      expect(await ledger.progress('lost', [1])).toMatchObject({
        counts: [2],
        calls: { sent: 3, repeated: 1 },
      });
      expect((await ledger.outcomes({ run: 'lost', first: 1 }, 2)).get(1)).toEqual(outcome('text of 1'));
      proxy.loseNextReply();
      const [answer] = await reserve(ledger, {
        ...{ run: 'lost', first: 3, execution: 1, call: 'a', hold: true, bounds: null, looks: false },
        rows: [3, 4].map((row) => ({ row, most: tokens(5, 2) })),
      });
      expect(answer?.rows).toEqual(['granted', 'granted']);
      const { calls } = await ledger.progress('lost', []);
      expect(calls).toMatchObject({ sent: 4, in_flight: 2, prompt_tokens: 10, completion_tokens: 4 });
      await store.close();
      await proxy.close();
    });

    test('fault 34: a full server still takes what was paid for and lets go of what is on disk', async () => {
      const { ledger } = store;
      await ledger.open('run', 1, 0, NO_CALLS);
      const admin = new Redis(server.url);
      await admin.config('SET', 'maxmemory', '1');
      await expect(admin.set('anything', 'x')).rejects.toThrow(/OOM/);
      await record(ledger, [entry('run', 1, 1)]);
      await ledger.open('run', 1, 0, NO_CALLS);
      expect((await ledger.progress('run', [1])).counts).toEqual([1]);
      await ledger.stop('run', 1, { code: 'unauthorized', message: 'no key' });
      await ledger.forget('run', 1, [1]);
      expect(await ledger.progress('run', [1])).toMatchObject({
        counts: [0],
        stop: { code: 'unauthorized' },
      });
      expect(await isWanted(ledger, 'run', 1, 1)).toBe(false);
      await ledger.close('run');
      expect(await admin.keys('*')).toEqual([]);
      await admin.quit();
    });

    test(
      'fault 46: the store closes within its deadline',
      async () => {
        const queue = new Queue('q', { connection: store.connection }, store.backendFactory);
        queue.on('error', () => {});
        await queue.waitUntilReady();
        await queue.close();
        await server.kill('SIGKILL');
        store.ledger.progress('run', []).catch(() => {});
        await store.close();
      },
      CLOSED_MS,
    );

    test(
      'fault 46: the store closes within its deadline while the server is frozen',
      async () => {
        await server.kill('SIGSTOP');
        await store.close();
      },
      CLOSED_MS,
    );
  });
} else describeMissing('when Redis is away', 'redis-server or valkey-server');
