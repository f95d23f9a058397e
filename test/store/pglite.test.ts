import { PGlite } from '@electric-sql/pglite';
import type { PgNotification, PgPoolClient } from 'bullmq';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { PglitePool } from '../../src/store/embedded/pool.js';

let database: PGlite;
let pool: PglitePool;

beforeAll(async () => {
  database = new PGlite();
  await database.waitReady;
  pool = await PglitePool.open(database, { maintenance: [], maintainEvery: Number.POSITIVE_INFINITY });
  await pool.query('CREATE TABLE thing (n int)');
});
beforeEach(() => pool.query('TRUNCATE thing'));
afterAll(async () => {
  await pool.end();
  await database.close();
});

const things = async (): Promise<unknown[]> =>
  (await pool.query<{ n: number }>('SELECT n FROM thing ORDER BY n')).rows.map(({ n }) => n);

test('values come back as pg returns them', async () => {
  const { rows, rowCount } = await pool.query(
    `SELECT 9007199254740993::int8 AS big, 1.50::numeric AS exact, '{"a":[1]}'::jsonb AS json, $1::text[] AS list,
       to_timestamp(0) AS time, NULL AS nothing, $2::jsonb AS given`,
    [['a', 'b"\\,', null], JSON.stringify({ x: 1 })],
  );
  expect(rows).toEqual([
    {
      big: '9007199254740993',
      exact: '1.50',
      json: { a: [1] },
      list: ['a', 'b"\\,', null],
      time: new Date(0),
      nothing: null,
      given: { x: 1 },
    },
  ]);
  expect(rowCount).toBe(1);
  expect((await pool.query('INSERT INTO thing SELECT generate_series(1, 3)')).rowCount).toBe(3);
});

test('errors carry the code and the detail, and the next statement works', async () => {
  await expect(pool.query('SELECT 1 / 0')).rejects.toMatchObject({ code: '22012' });
  await expect(
    pool.query(`DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'BM001', DETAIL = '-3'; END $$`),
  ).rejects.toMatchObject({ code: 'BM001', detail: '-3' });
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }]);
});

test('a transaction of one session does not mix with the statements of others', async () => {
  const session = await pool.connect();
  await session.query('BEGIN');
  await session.query('INSERT INTO thing VALUES (1)');
  const outside = pool.query('INSERT INTO thing VALUES (2)');
  const other = await pool.connect();
  const inOther = other.query('INSERT INTO thing VALUES (3)');
  await session.query('INSERT INTO thing VALUES (4)');
  await session.query('ROLLBACK');
  await Promise.all([outside, inOther]);
  expect(await things()).toEqual([2, 3]);
  session.release();
  other.release();
});

test('a failed transaction holds its turn until it is rolled back', async () => {
  const session = await pool.connect();
  await session.query('BEGIN');
  await session.query('INSERT INTO thing VALUES (1)');
  await expect(session.query('SELECT nonsense')).rejects.toMatchObject({ code: '42703' });
  const outside = pool.query('INSERT INTO thing VALUES (2)');
  await session.query('ROLLBACK');
  await outside;
  expect(await things()).toEqual([2]);
  session.release();
});

test('a session that leaves in the middle of a transaction has not committed it, and blocks nobody', async () => {
  const session = await pool.connect();
  await session.query('BEGIN');
  await session.query('INSERT INTO thing VALUES (1)');
  session.release();
  expect(await things()).toEqual([]);
});

test('statements of one session run in the order asked, without waiting in between', async () => {
  const session = await pool.connect();
  const results = ['BEGIN', 'INSERT INTO thing VALUES (7)', 'COMMIT'].map((statement) =>
    session.query(statement),
  );
  await Promise.all(results);
  expect(await things()).toEqual([7]);
  session.release();
});

test('a notice reaches the sessions that listen, and no session that has left', async () => {
  const session = await pool.connect();
  const left = await pool.connect();
  const heardByLeft: PgNotification[] = [];
  left.on('notification', (notification) => heardByLeft.push(notification));
  await session.query('LISTEN jobs');
  left.release();
  const heard = nextNotice(session);
  await pool.query(`SELECT pg_notify('jobs', 'a queue')`);
  expect(await heard).toMatchObject({ channel: 'jobs', payload: 'a queue' });
  expect(heardByLeft).toEqual([]);
  session.release();
});

test('a notice of a transaction arrives with its commit', async () => {
  const session = await pool.connect();
  await session.query('LISTEN jobs');
  const heard: unknown[] = [];
  session.on('notification', ({ payload }) => heard.push(payload));
  const writer = await pool.connect();
  await writer.query('BEGIN');
  await writer.query(`SELECT pg_notify('jobs', 'one')`);
  expect(heard).toEqual([]);
  await writer.query('COMMIT');
  expect(heard).toEqual(['one']);
  session.release();
  writer.release();
});

test('maintenance runs between transactions and never inside one', async () => {
  // VACUUM refuses to run inside of a transaction, so that it was run at all proves where.
  const maintenance = ['VACUUM thing', 'INSERT INTO thing VALUES (100)'];
  const busy = await PglitePool.open(database, { maintenance, maintainEvery: 4 });
  const session = await busy.connect();
  await session.query('BEGIN');
  for (let n = 0; n < 6; n++) await session.query('SELECT 1');
  expect((await session.query('SELECT n FROM thing')).rows).toEqual([]);
  await session.query('COMMIT');
  expect((await busy.query('SELECT n FROM thing')).rows).toEqual([{ n: 100 }]);
  session.release();
  await busy.end();
});

function nextNotice(session: PgPoolClient): Promise<PgNotification> {
  return new Promise((resolve) => session.on('notification', resolve));
}
