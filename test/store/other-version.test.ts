import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { openStore } from '../../src/store/open.js';
import type { Store } from '../../src/store/store.js';
import { haveRedis, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { NO_CALLS } from './samples.js';

const open = (target: string): Promise<Store> =>
  openStore(target, { stateDir: '/dev/null/never', onWarning: () => {} });

const refused = (message: string) =>
  expect.objectContaining({
    ...{ exit: 2, code: 'queue_version', message: expect.stringContaining(message) },
    hint: expect.stringContaining('with th'),
  });

if (!haveRedis()) describeMissing('a run of another version', 'redis-server or valkey-server');

test.runIf(haveRedis())('a run of another version in Redis is refused, and stays as it is', async () => {
  const server = await startRedis();
  const client = new Redis(server.url);
  const store = await open(server.url);
  try {
    await store.ledger.open('run', 1, 0, NO_CALLS);
    await client.hset('promptmill:{run}:head', 'v', '0');
    await expect(store.ledger.open('run', 2, 5, NO_CALLS)).rejects.toEqual(refused('the run run'));
    expect(await client.hget('promptmill:{run}:head', 'committed')).toBe('0');
  } finally {
    client.disconnect();
    await store.close();
    await server.stop();
  }
});
