import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStore } from '../../src/store/open.js';
import { WRITE_SIGNATURE } from '../../src/store/postgres/statements.js';
import type { Store } from '../../src/store/store.js';
import { havePostgres, type Server, startPostgres } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { entry, look, NO_CALLS, record } from './samples.js';

if (!havePostgres()) describeMissing('tables of an earlier version', 'postgres and initdb');

describe.runIf(havePostgres())('tables of an earlier version', () => {
  let server: Server;
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(() => server.stop());
  const open = (): Promise<Store> =>
    openStore(server.url, { stateDir: '/dev/null/never', onWarning: () => {} });

  test('are brought up to date once, and an unfinished run goes on in them', async () => {
    const before = await open();
    await before.ledger.open('run', 1, 0, NO_CALLS);
    await record(before.ledger, [entry('run', 1, 1)], new Map([['run', { sent: 2 }]]));
    await before.close();
    // As layout 4 was left by a process that was killed.
    const admin = new pg.Client(server.url);
    await admin.connect();
    await admin.query(`DROP FUNCTION ${WRITE_SIGNATURE}`);
    await admin.query("COMMENT ON SCHEMA promptmill IS '4'");
    await admin.query(
      "INSERT INTO promptmill.flight (run, row, calls, hold) VALUES ('run', 2, '{own:1:a}', false), ('run', 3, '{any:1:b}', true)",
    );
    await admin.end();

    const { ledger, ...store } = await open();
    expect(await ledger.open('run', 2, 0, null)).toBe(true);
    expect(await look(ledger, 'run', 1, 2, [1, 2, 3])).toMatchObject([
      'known',
      'granted',
      { call: 'any:1:b' },
    ]);
    const { calls } = await ledger.progress('run', []);
    expect(calls).toEqual({ ...NO_CALLS, sent: 2, repeated: 1, in_flight: 1 });
    await store.close();
  });

  test('of the layout before get interim outcomes, while its workers go on with their function', async () => {
    const admin = new pg.Client(server.url);
    await admin.connect();
    /** Each with the number of the transaction that made it. */
    const functions = async (): Promise<unknown[]> => {
      const { rows } = await admin.query(
        "SELECT xmin, pronargs FROM pg_proc WHERE proname LIKE 'write%' AND pronamespace = 'promptmill'::regnamespace",
      );
      return rows;
    };
    await (await open()).close();
    // As layout 7 was left: without interim outcomes, and with a function of another name.
    await admin.query(`DROP FUNCTION ${WRITE_SIGNATURE}`);
    await admin.query('ALTER TABLE promptmill.outcome DROP COLUMN asks');
    await admin.query("CREATE FUNCTION promptmill.write(text) RETURNS text LANGUAGE sql AS 'SELECT $1'");
    await admin.query("COMMENT ON SCHEMA promptmill IS '7'");
    await admin.query(
      "INSERT INTO promptmill.outcome (run, first, row, outcome) VALUES ('seven', 1, 1, '{}')",
    );

    const { ledger, ...store } = await open();
    await ledger.open('seven', 2, 0, NO_CALLS);
    await record(ledger, [
      { ...entry('seven', 1, 1), interim: 1 },
      { ...entry('seven', 1, 2), interim: 1 },
    ]);
    expect(await look(ledger, 'seven', 1, 2, [1, 2])).toEqual(['known', 'granted']);
    expect([...(await ledger.interim('seven', [1, 2])).keys()]).toEqual([2]);
    expect((await ledger.progress('seven', [1])).counts).toEqual([1]);
    const made = await functions();
    expect(made).toHaveLength(2);
    await store.close();

    // There is nothing to make any more.
    await (await open()).close();
    expect(await functions()).toEqual(made);
    await admin.end();
  });
});
