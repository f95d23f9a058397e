import { Redis } from 'ioredis';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStore } from '../../src/store/open.js';
import type { Store } from '../../src/store/store.js';
import { havePostgres, haveRedis, type Server, startPostgres, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { entry, look, NO_CALLS, record } from './samples.js';

const open = (target: string): Promise<Store> =>
  openStore(target, { stateDir: '/dev/null/never', onWarning: () => {} });

const refused = (message: string) =>
  expect.objectContaining({
    ...{ exit: 2, code: 'queue_version', message: expect.stringContaining(message) },
    hint: expect.stringContaining('with th'),
  });

if (!havePostgres()) describeMissing('tables of another version', 'postgres and initdb');

describe.runIf(havePostgres())('tables in PostgreSQL', () => {
  let server: Server;
  const asAdmin = async (statement: string): Promise<unknown[]> => {
    const admin = new pg.Client(server.url);
    await admin.connect();
    try {
      return (await admin.query(statement)).rows;
    } finally {
      await admin.end();
    }
  };
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  test('are made once by processes that start together, and left alone by those that start later', async () => {
    for (const store of await Promise.all([1, 2, 3, 4].map(() => open(server.url)))) await store.close();
    // With the number of the transaction that made it.
    const made = () =>
      asAdmin("SELECT xmin, proname FROM pg_proc WHERE pronamespace = 'promptmill'::regnamespace");
    const first = await made();
    expect(first).toHaveLength(1);
    await (await open(server.url)).close();
    expect(await made()).toEqual(first);
  });

  test('that are missing in part are made again, beside what is left', async () => {
    const before = await open(server.url);
    await before.ledger.open('run', 1, 0, NO_CALLS);
    await record(before.ledger, [entry('run', 1, 1)]);
    await before.close();
    await asAdmin('DROP TABLE promptmill.flight');
    const store = await open(server.url);
    expect(await look(store.ledger, 'run', 1, 1, [1, 2])).toEqual(['known', 'granted']);
    await store.close();
  });

  test('of another version are refused with the address, and what to do', async () => {
    await (await open(server.url)).close();
    await asAdmin("COMMENT ON SCHEMA promptmill IS '0'");
    await expect(open(server.url)).rejects.toEqual(refused(`of ${server.url.replace(/:[^:@/]*@/, ':***@')}`));
    expect(await asAdmin('SELECT count(*)::integer AS tables FROM promptmill.run')).toHaveLength(1);
  });
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
