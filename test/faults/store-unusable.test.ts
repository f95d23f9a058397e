import pg from 'pg';
import { describe, expect, it, type TestContext } from 'vitest';
import { queueName } from '../../src/queue/names.js';
import { RedisAdmin } from '../support/redis-admin.js';
import { havePostgres, haveRedis, type Server, startPostgres, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { type Trial, trialOn } from '../support/trial.js';

/** What somebody does to a store, how it is mended, and the words that a user reads meanwhile. */
interface Mishap {
  readonly happens: (trial: Trial) => Promise<void>;
  readonly mended: (trial: Trial) => Promise<void>;
  readonly words: RegExp;
}

/** A server under another address of it. */
const at = (server: Server, url: string): Server => ({
  url,
  pid: server.pid,
  kill: (signal) => server.kill(signal),
  restart: (signal) => server.restart(signal),
  stop: () => server.stop(),
});

/** What a terminal of some width wrapped. */
const oneLine = (text: string): string => text.replace(/\s+/g, ' ');

const DEFECT = /defect|^\s+at /m;

/** The run stops early and says why, and the same command goes on once the store is mended. */
async function stopsAndGoesOn(trial: Trial, { happens, mended, words }: Mishap, context: TestContext) {
  const running = trial.run();
  await running.until(trial.called(50));
  await happens(trial);
  const { code, stderr } = await running.ended;
  expect(code, stderr).toBe(3);
  expect(oneLine(stderr)).toMatch(words);
  expect(stderr).toContain('promptmill run job.yaml');
  expect(stderr).not.toMatch(DEFECT);
  await mended(trial);
  await trial.whole(trial.run(), { repeats: trial.unknown }, context);
}

/** Nothing is sent, and once the store is mended the same command runs. */
async function refusesToStart(trial: Trial, { happens, mended, words }: Mishap, context: TestContext) {
  await happens(trial);
  const { code, stderr } = await trial.run().ended;
  expect(code, stderr).toBe(2);
  expect(oneLine(stderr)).toMatch(words);
  expect(stderr).not.toMatch(DEFECT);
  expect(trial.service.calls()).toBe(0);
  await mended(trial);
  await trial.whole(trial.run(), { repeats: 0 }, context);
}

/** A signal ends the run also while it gives the store time. */
async function endsAtASignal(trial: Trial, { happens, mended, words }: Mishap, context: TestContext) {
  const running = trial.run();
  await running.until(trial.called(50));
  await happens(trial);
  await running.says(words);
  running.process.kill('SIGTERM');
  const { code, stderr } = await running.ended;
  expect(code, stderr).toBe(143);
  await mended(trial);
  await trial.whole(trial.run(), { repeats: trial.unknown }, context);
}

/** With one call at a time everything that is known is on disk, so that losing the ledger loses that one and the next. */
async function losesTheLedger(trial: Trial, { happens, mended, words }: Mishap, context: TestContext) {
  const running = trial.run();
  await running.until(trial.called(20));
  await trial.fill(running);
  // Entries may come in another order: the call that is held has to be for the last of all rows that were called.
  while (trial.service.requests.at(-1)?.prompt !== `row ${trial.service.calls()}`) await trial.next(running);
  while (trial.rowsOnDisk() < trial.service.calls() - 1) await new Promise((done) => setTimeout(done, 20));
  await happens(trial);
  trial.release();
  const { code, stderr } = await running.ended;
  expect(code, stderr).toBe(3);
  expect(oneLine(stderr)).toMatch(words);
  expect(stderr).not.toMatch(DEFECT);
  await mended(trial);
  await trial.whole(trial.run(), { repeats: trial.unknown }, context);
}

if (!haveRedis()) {
  describeMissing('a store that cannot be used on redis', 'redis-server or valkey-server');
} else {
  describe.concurrent('a store that cannot be used on redis', () => {
    const start = (): Promise<Server> => startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
    const rows = { rows: 400 };
    /** Commands of an operator. */
    const does =
      (...commands: readonly string[][]) =>
      async (trial: Trial): Promise<void> => {
        const admin = new RedisAdmin(trial.env['PROMPTMILL_QUEUE'] ?? '');
        for (const [name = '', ...args] of commands) await admin.client.call(name, ...args);
        admin.leave();
      };
    const readOnly: Mishap = {
      happens: does(['REPLICAOF', '127.0.0.1', '1']),
      mended: does(['REPLICAOF', 'NO', 'ONE']),
      words: /redis:\/\/127\.0\.0\.1:\d+ is read-only \(READONLY [^)]*\)/,
    };
    const withoutReplicas: Mishap = {
      happens: does(['CONFIG', 'SET', 'min-replicas-to-write', '1']),
      mended: does(['CONFIG', 'SET', 'min-replicas-to-write', '0']),
      words: /takes no writes while it has too few replicas \(NOREPLICAS/,
    };
    const withoutRight: Mishap = {
      happens: does(['ACL', 'SETUSER', 'default', '-eval', '-evalsha']),
      mended: does(['ACL', 'SETUSER', 'default', '+@all']),
      words: /does not allow this user what the queue needs \(NOPERM/,
    };

    it('fault 81: a replica refuses a run', (context) =>
      trialOn(start, rows, (trial) => refusesToStart(trial, readOnly, context)));
    it('fault 81: a server without replicas refuses a run', (context) =>
      trialOn(start, rows, (trial) => refusesToStart(trial, withoutReplicas, context)));
    it('fault 81: a run whose server becomes a replica and stays one stops, and goes on later', (context) =>
      trialOn(start, rows, (trial) => stopsAndGoesOn(trial, readOnly, context)));
    it('fault 81: a run whose server loses its replicas stops, and goes on later', (context) =>
      trialOn(start, rows, (trial) => stopsAndGoesOn(trial, withoutReplicas, context)));
    it('fault 81: a run whose right is revoked stops, and goes on later', (context) =>
      trialOn(start, rows, (trial) => stopsAndGoesOn(trial, withoutRight, context)));
    it('fault 81: SIGTERM ends a run while its server is a replica', (context) =>
      trialOn(start, rows, (trial) => endsAtASignal(trial, readOnly, context)));

    it('fault 81: promptmill work stops when its server stays a replica', () =>
      trialOn(start, rows, async (trial) => {
        const working = trial.worker();
        await working.says(/working for all deployments/);
        await readOnly.happens(trial);
        const { code, stderr } = await working.ended;
        expect(code, stderr).toBe(3);
        expect(oneLine(stderr)).toMatch(readOnly.words);
      }));

    /** In one step: whatever the run writes in between would have the type that it had. */
    const OTHER_TYPE = "redis.call('DEL', KEYS[1]) redis.call('XADD', KEYS[1], '*', 'a', 'b')";
    const keyOf = {
      'the ledger': (trial: Trial) => `promptmill:{${trial.work.json('out.csv.run.json')['run']}}:head`,
      'the heartbeats': () => 'promptmill:board:{run}:text',
      'the pace': () => 'promptmill:board:{pace}:text',
      'the queue': (trial: Trial) => `bull:${queueOf(trial)}:prioritized`,
    };
    const queueOf = (trial: Trial): string =>
      queueName('lm-35-turbo-instruct', `${trial.env['PROMPTMILL_BASE_URL']}/openai`);
    it.for(Object.entries(keyOf))(
      'fault 81: a run stops when a key of %s becomes something else, and goes on later',
      ([, key], context) =>
        trialOn(start, rows, (trial) =>
          stopsAndGoesOn(
            trial,
            {
              happens: () => does(['EVAL', OTHER_TYPE, '1', key(trial)])(trial),
              mended: () => does(['DEL', key(trial)])(trial),
              words:
                /has something else under a name of the queue \(WRONGTYPE[^)]*\): (the key|one of the keys) (promptmill|bull):/,
            },
            context,
          ),
        ),
    );
  });
}

if (!havePostgres()) {
  describeMissing('a store that cannot be used on postgres', 'postgres and initdb');
} else {
  describe.concurrent('a store that cannot be used on postgres', () => {
    const start = (): Promise<Server> => startPostgres();
    const rows = { rows: 400 };
    /** Statements of an operator, in a database of the server. */
    const does =
      (statements: readonly string[], database = 'postgres') =>
      async (trial: Trial): Promise<void> => {
        const url = new URL(trial.env['PROMPTMILL_QUEUE'] ?? '');
        url.pathname = `/${database}`;
        const admin = new pg.Client({
          connectionString: url.href,
          options: '-c default_transaction_read_only=off',
        });
        await admin.connect();
        for (const statement of statements) await admin.query(statement);
        await admin.end();
      };
    const setting = (value: string): readonly string[] => [
      `ALTER SYSTEM SET default_transaction_read_only = ${value}`,
      'SELECT pg_reload_conf()',
    ];
    const readOnly: Mishap = {
      happens: does(setting('on')),
      mended: does(setting('off')),
      words: /postgres:\/\/postgres:\*\*\*@127\.0\.0\.1:\d+\/postgres is read-only/,
    };
    const dropped = (...tables: readonly string[]): Mishap => ({
      happens: does(tables.map((table) => `DROP TABLE ${table} CASCADE`)),
      mended: async () => {},
      words: /has lost tables of the queue \((relation|function) .* does not exist\)/,
    });

    it('fault 81: a read-only server refuses a run', (context) =>
      trialOn(start, rows, (trial) => refusesToStart(trial, readOnly, context)));
    it('fault 81: a run whose server becomes read-only and stays so stops, and goes on later', (context) =>
      trialOn(start, rows, (trial) => stopsAndGoesOn(trial, readOnly, context)));
    it('fault 81: SIGTERM ends a run while its server is read-only', (context) =>
      trialOn(start, rows, (trial) => endsAtASignal(trial, readOnly, context)));

    const one = { rows: 60, concurrency: 1, chunkSize: 1 };
    it('fault 81: a run whose ledger is dropped stops, and the same command makes it again', (context) =>
      trialOn(start, one, (trial) => losesTheLedger(trial, dropped('promptmill.outcome'), context)));
    it('fault 81: a run whose queue is dropped stops, and goes on when the rest of its schema is dropped too', (context) =>
      trialOn(start, one, async (trial) => {
        const mended = does(['DROP SCHEMA bullmq CASCADE']);
        await losesTheLedger(trial, { ...dropped('bullmq.job'), mended }, context);
      }));
    it('fault 81: a run whose database is dropped stops, and goes on in a new one', (context) =>
      trialOn(
        async () => {
          const server = await start();
          const admin = new pg.Client(server.url);
          await admin.connect();
          await admin.query('CREATE DATABASE mill');
          await admin.end();
          return at(server, server.url.replace(/postgres$/, 'mill'));
        },
        one,
        (trial) =>
          losesTheLedger(
            trial,
            {
              happens: does(['DROP DATABASE mill WITH (FORCE)']),
              mended: does(['CREATE DATABASE mill']),
              words: /has no such database \(database "mill" does not exist\)/,
            },
            context,
          ),
      ));
    it('fault 81: a run whose right is revoked stops, and goes on later', (context) =>
      trialOn(
        async () => {
          const server = await start();
          const admin = new pg.Client(server.url);
          await admin.connect();
          await admin.query("CREATE ROLE mill LOGIN PASSWORD 'loopback-only'");
          await admin.query('CREATE DATABASE mill OWNER mill');
          await admin.end();
          const url = server.url.replace('//postgres:', '//mill:').replace(/postgres$/, 'mill');
          return at(server, url);
        },
        rows,
        (trial) =>
          stopsAndGoesOn(
            trial,
            {
              happens: does(['REVOKE INSERT ON promptmill.calls FROM mill'], 'mill'),
              mended: does(['GRANT INSERT ON promptmill.calls TO mill'], 'mill'),
              words: /does not allow this user what the queue needs \(permission denied for table calls\)/,
            },
            context,
          ),
      ));
  });
}
