import { describe, expect, it, type TestContext } from 'vitest';
import { queueName } from '../../src/queue/names.js';
import { RedisAdmin } from '../support/redis-admin.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { type Trial, trialOn } from '../support/trial.js';

/** What somebody does to a store, how it is mended, and the words that a user reads meanwhile. */
interface Mishap {
  readonly happens: (trial: Trial) => Promise<void>;
  readonly mended: (trial: Trial) => Promise<void>;
  readonly words: RegExp;
}

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
