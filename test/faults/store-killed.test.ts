import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterEach, beforeEach, describe, it, type TestContext } from 'vitest';
import { havePostgres, haveRedis, type Server, startPostgres, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { Trial } from '../support/trial.js';

/** The fault itself: the store is killed so often, with so many milliseconds between. */
const KILLS = 15;
const BETWEEN_MS = 2_000;

/** Kills the store again and again under a run whose calls last longer than all the kills. */
async function killAgainAndAgain(server: Server, context: TestContext): Promise<void> {
  const trial = await Trial.begin({ queue: server.url, rows: 1_500, latencyMs: 100 });
  try {
    const running = trial.run();
    await running.until(trial.called(50));
    let inFlight = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      inFlight += trial.inFlight;
      await server.restart();
      await running.until(sleep(BETWEEN_MS));
    }
    await trial.whole(running, { repeats: inFlight }, context);
  } finally {
    await trial.end();
  }
}

/** Kills the store while calls are in flight, and answers them when it is back, or while it is away. */
async function killUnderCalls(
  server: Server,
  answer: 'before' | 'after',
  context: TestContext,
): Promise<void> {
  const trial = await Trial.begin({ queue: server.url, rows: 200 });
  try {
    const running = trial.run();
    await running.until(trial.called(50));
    await trial.fill(running);
    if (answer === 'before') {
      await server.kill('SIGQUIT');
      trial.release();
      while (trial.inFlight > 0) await sleep(10);
    }
    await server.restart();
    trial.release();
    await trial.whole(running, { repeats: 0 }, context);
  } finally {
    await trial.end();
  }
}

if (!haveRedis()) {
  describeMissing('a store that is killed', 'redis-server or valkey-server');
} else {
  describe('a store that is killed on redis', () => {
    let redis: Server;
    beforeEach(async () => {
      redis = await startRedis();
    });
    afterEach(() => redis.stop());

    it('fault 30: in the middle of calls and back at once, costs no call', (context) =>
      killUnderCalls(redis, 'after', context));

    it('fault 30: what is answered while it is away is kept, and costs no call', (context) =>
      killUnderCalls(redis, 'before', context));

    it('fault 30: every two seconds for half a minute, costs no more than the calls in flight', (context) =>
      killAgainAndAgain(redis, context));
  });
}

if (!havePostgres()) {
  describeMissing('a store that is killed', 'postgres and initdb');
} else {
  describe('a store that is killed on postgres', () => {
    let postgres: Server;
    beforeEach(async () => {
      postgres = await startPostgres();
    });
    afterEach(() => postgres.stop());

    it('fault 38: in the middle of calls and back at once, costs no call', (context) =>
      killUnderCalls(postgres, 'after', context));

    it('fault 38: what is answered while it is away is kept, and costs no call', (context) =>
      killUnderCalls(postgres, 'before', context));

    it('fault 38: every two seconds for half a minute, costs no more than the calls in flight', (context) =>
      killAgainAndAgain(postgres, context));

    it('fault 38: all its connections are terminated again and again, and no call is repeated', async (context) => {
      const trial = await Trial.begin({ queue: postgres.url, rows: 600, latencyMs: 20 });
      const admin = new pg.Client(postgres.url);
      await admin.connect();
      try {
        const running = trial.run();
        for (let calls = 50; calls <= 500; calls += 50) {
          await running.until(trial.called(calls));
          await admin.query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE pid <> pg_backend_pid() AND datname = current_database()`,
          );
        }
        await trial.whole(running, { repeats: 0 }, context);
      } finally {
        await admin.end();
        await trial.end();
      }
    });
  });
}
