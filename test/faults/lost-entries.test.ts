import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RedisAdmin } from '../support/redis-admin.js';
import { completionBody, type Script } from '../support/scripted-service.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { Trial } from '../support/trial.js';

const ROWS = 200;
/** Each of these rows fails once, so that some entries wait for their next attempt. */
const FAILING_EVERY = 7;

const failingOnce: Script = ({ prompt, count }) =>
  count === 1 && Number(prompt.slice('row '.length)) % FAILING_EVERY === 0
    ? { status: 500, json: { error: { message: 'try again' } } }
    : { json: completionBody({ text: ` re ${prompt}` }) };

/**
 * A run with chunks in the queue, on their way and in a pause loses something of its queue: it ends by itself, and the ledger
 * keeps every row from being called once more than it has to.
 * @param robs each takes something of the queue of the run away, one after the other
 * @returns how much of the queue they found
 */
async function robbed(
  queue: string,
  ...robs: readonly ((run: string) => Promise<number>)[]
): Promise<number> {
  const trial = await Trial.begin({ queue, rows: ROWS, chunkSize: 5, script: failingOnce });
  try {
    const running = trial.run();
    let taken = 0;
    for (const [i, rob] of robs.entries()) {
      await running.until(trial.called(60 + 20 * i));
      await trial.fill(running);
      taken += await rob(String(trial.work.json('out.csv.run.json')['run']));
      trial.release();
    }
    trial.endFault();
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    const numbers = Array.from({ length: ROWS }, (_, i) => i + 1);
    expect(
      trial.work.records('out.csv').map(({ id, status, answer }) => `${id} ${status} ${answer}`),
    ).toEqual(numbers.map((row) => `${row} completed re row ${row}`));
    const failed = Math.floor(ROWS / FAILING_EVERY);
    expect(trial.service.calls()).toBe(ROWS + failed);
    const summary = trial.work.json('out.summary.json');
    expect(summary['calls']).toMatchObject({ sent: ROWS + failed, retried: failed, repeated: 0 });
    // Once for all entries that were found missing together, and not at each look.
    expect(stderr.match(/the queue lost entries/g)?.length ?? 0, stderr).toBeLessThanOrEqual(2);
    return taken;
  } finally {
    await trial.end();
  }
}

if (!haveRedis()) {
  describeMissing('a queue that loses single keys', 'redis-server or valkey-server');
} else {
  describe.concurrent('a queue that loses single keys on redis', () => {
    let redis: Server;
    let admin: RedisAdmin;
    beforeAll(async () => {
      redis = await startRedis();
      admin = new RedisAdmin(redis.url);
    });
    afterAll(async () => {
      admin.leave();
      await redis.stop();
    });

    /** The prefix of the keys of the run's queue: nobody else's entries have the run's name. */
    async function prefixOf(run: string): Promise<string> {
      const [entry = ''] = await admin.client.keys(`bull:*:${run}-x1-*`);
      return entry.slice(0, entry.indexOf(run));
    }

    it.each([
      [['active']],
      [['prioritized']],
      [['delayed']],
      [['meta', 'id', 'pc', 'stalled-check', 'limiter', 'marker', 'events']],
      // Keys that a run in order does not have, or not at each moment.
      [['wait', 'paused', 'stalled', 'completed', 'failed', 'waiting-children']],
    ])('fault 109: the run ends by itself when %j are deleted, one after the other', async (names) => {
      await robbed(
        redis.url,
        ...names.map((name) => async (run: string) => admin.client.del(`${await prefixOf(run)}${name}`)),
      );
    });

    it('fault 109: the run ends by itself when twenty entries that wait are deleted', async () => {
      const taken = await robbed(redis.url, async (run) => {
        const prefix = await prefixOf(run);
        const waiting = await admin.client.zrange(`${prefix}prioritized`, '0', '19');
        return admin.client.del(...waiting.map((id) => prefix + id));
      });
      expect(taken).toBe(20);
    });

    it('fault 109: the run ends by itself when every entry is deleted and the lists are not', async () => {
      const taken = await robbed(redis.url, async (run) => {
        const entries = await admin.client.keys(`${await prefixOf(run)}${run}-x1-*[0-9]`);
        return admin.client.del(...entries);
      });
      expect(taken).toBeGreaterThan(20);
    });

    it('fault 109: the run ends by itself when the locks of its entries are deleted', async () => {
      const taken = await robbed(redis.url, async (run) =>
        admin.client.del(...(await admin.client.keys(`${await prefixOf(run)}*:lock`))),
      );
      expect(taken).toBeGreaterThan(0);
    });
  });
}
