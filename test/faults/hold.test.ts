import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import './figures.js';
import type { Child } from '../support/children.js';
import { describeFleet } from '../support/fleet.js';
import { momentsOf } from '../support/kills.js';
import { SERVICES, serviceOn } from '../support/operations.js';
import { Workplace } from '../support/promptmill.js';
import { RedisAdmin } from '../support/redis-admin.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { haveRedis, startRedis } from '../support/servers.js';
import { describeEachStore, describeMissing } from '../support/stores.js';
import { Trial } from '../support/trial.js';
import { unknownAfter } from '../support/unknown.js';

const ROWS = 600;
const CONCURRENCY = 8;
const KILLS = 2;
const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
const HOLD = { unknown_outcome: 'hold' };
const TIMEOUT = 600_000;

const mostCallsOfOne = (service: ScriptedService): number =>
  Math.max(...service.requests.map(({ prompt }) => service.calls(prompt)));

describeEachStore('a run with limits.unknown_outcome: hold', (store) => {
  let work: Workplace;
  let service: ScriptedService;
  let onCall: () => void = () => {};

  beforeEach(async () => {
    work = new Workplace();
    service = await startScriptedService(async ({ prompt }) => {
      onCall();
      await new Promise((resolve) => setTimeout(resolve, 20));
      return { answer: { text: ` answer to ${prompt}` } };
    });
  });
  afterEach(async () => {
    onCall = () => {};
    await service.close();
    work.remove();
  });

  it(
    'fault 89: killed with SIGKILL twice, has called no row twice; rows in flight end failed, all others are answered',
    async ({ task }) => {
      console.log(`killed at random times, SEED=${SEED}`);
      const env = { PROMPTMILL_BASE_URL: service.url, ...store().env };
      const limits = { concurrency: CONCURRENCY, chunk_size: 10, ...HOLD };
      const path = work.job({
        service: serviceOn(store()),
        input: { path: work.rows(ROWS) },
        output: { path: 'out.csv' },
        limits,
      });
      for (const [calls, ms] of momentsOf(KILLS, ROWS - 120, SEED + store().kind.length)) {
        const running = work.start(['run', path], env);
        onCall = () => {
          if (service.requests.length < calls) return;
          onCall = () => {};
          setTimeout(() => running.process.kill('SIGKILL'), ms);
        };
        const { code, stderr } = await running.ended;
        expect(code, stderr).toBe(null);
      }
      onCall = () => {};
      const finished = await work.call(['run', path], env);

      expect(finished.code, finished.stderr).toBe(1);
      expect(mostCallsOfOne(service)).toBe(1);
      const records = work.records('out.csv');
      expect(records.map(({ id }) => Number(id))).toEqual(Array.from({ length: ROWS }, (_, i) => i + 1));
      const failed = records.filter(({ status }) => status === 'failed');
      expect(new Set(failed.map((row) => row['error_code']))).toEqual(new Set(['outcome_unknown']));
      expect(failed.length).toBeLessThanOrEqual(KILLS * unknownAfter(CONCURRENCY));
      for (const { id, status, text } of records)
        if (status !== 'failed') expect(`${status} ${text}`).toBe(`completed answer to row ${id}`);
      const summary = work.json('out.summary.json');
      expect(summary).toMatchObject({
        rows: { total: ROWS, completed: ROWS - failed.length, failed: failed.length },
        errors: { outcome_unknown: failed.length },
        calls: { repeated: 0 },
      });
      expect(finished.stderr).toContain('outcome_unknown');
      task.meta.fault = { rows: ROWS, calls: service.requests.length, repeated: 0 };
    },
    TIMEOUT,
  );
});

describe.each(SERVICES)('a run of $operation with limits.unknown_outcome: hold on embedded', (called) => {
  it(
    'faults 25 and 89: calls no row again whose answer was lost on the way, and those again that were refused for certain',
    async ({ task }) => {
      const work = new Workplace();
      const service = await startScriptedService(({ prompt, count }) => {
        if (prompt === 'row 2') return 'reset';
        if (prompt === 'row 4') return { truncate: 20 };
        if (prompt === 'row 6') return 'hang';
        if (prompt === 'row 8') return { text: '<html>' };
        if (prompt === 'row 10' && count === 1) return { status: 503, json: {} };
        if (prompt === 'row 12' && count === 1)
          return { status: 429, headers: { 'retry-after': '1' }, json: {} };
        return { answer: { text: ` re ${prompt}` } };
      });
      try {
        const limits = { concurrency: 4, chunk_size: 4, timeout_seconds: 2, ...HOLD };
        const path = work.job({
          service: called,
          input: { path: work.rows(14) },
          output: { path: 'out.csv' },
          limits,
        });
        const { code, stderr } = await work.call(['run', path], { PROMPTMILL_BASE_URL: service.url });
        expect(code, stderr).toBe(1);
        const lost = [2, 4, 6, 8];
        const records = work.records('out.csv');
        expect(records.map(({ status, error_code }) => `${status} ${error_code}`)).toEqual(
          records.map(({ id }) => (lost.includes(Number(id)) ? 'failed outcome_unknown' : 'completed ')),
        );
        for (const row of lost) expect(service.calls(`row ${row}`), `row ${row}`).toBe(1);
        expect(records[1]?.['error_message']).toMatch(/^connection_reset: .*billed.*unknown_outcome: hold/);
        expect(service.calls('row 10')).toBe(2);
        expect(service.calls('row 12')).toBeGreaterThanOrEqual(2);
        task.meta.fault = { rows: 14, calls: service.requests.length, repeated: 0 };
      } finally {
        await service.close();
        work.remove();
      }
    },
    TIMEOUT,
  );
});

/** Of each worker. */
const OF_EACH = 4;
const LOCK_MS = 3_000;

describeFleet('a fleet with limits.unknown_outcome: hold', (fleet) => {
  /** A run whose calls two workers make; both have as many in flight as they may. */
  async function begin(timeoutSeconds: number) {
    const limits = { ...HOLD, timeout_seconds: timeoutSeconds };
    const trial = await fleet().begin({ rows: 80, concurrency: 2 * OF_EACH, chunkSize: 3, limits });
    const workers: Child[] = [];
    for (let i = 0; i < 2; i++) {
      workers.push(await fleet().worker({ concurrency: OF_EACH, chunkSize: 3, lockMs: LOCK_MS }));
    }
    const running = trial.run('--no-work');
    await running.until(trial.called(20));
    await trial.fill(running);
    return { trial, running, workers };
  }

  it(
    'fault 89: with one of its workers killed, calls none of its rows again, and fails those in flight',
    async ({ task }) => {
      const { trial, running, workers } = await begin(10);
      await workers[0]?.kill('SIGKILL');
      trial.release();
      trial.endFault();
      const { code, stderr } = await running.ended;
      expect(code, stderr).toBe(1);
      expect(trial.callsOfRows()).toEqual(Array.from({ length: 80 }, () => 1));
      const failed = trial.work.records('out.csv').filter(({ status }) => status === 'failed');
      expect(failed.length).toBeGreaterThanOrEqual(OF_EACH);
      expect(failed.length).toBeLessThanOrEqual(unknownAfter(OF_EACH));
      expect(new Set(failed.map((row) => row['error_code']))).toEqual(new Set(['outcome_unknown']));
      task.meta.fault = { rows: 80, calls: trial.service.calls(), repeated: 0 };
    },
    TIMEOUT,
  );

  it(
    'fault 89: with one asleep for longer than its locks, takes the answers that it brings when it wakes',
    async (context) => {
      const { trial, running, workers } = await begin(120);
      const sleeper = workers[0]?.pid ?? 0;
      process.kill(sleeper, 'SIGSTOP');
      trial.release();
      // The other has taken every row that the sleeper had not reserved.
      await running.until(trial.called(80));
      process.kill(sleeper, 'SIGCONT');
      await trial.whole(running, { repeats: 0 }, context);
    },
    TIMEOUT,
  );
});

if (!haveRedis()) {
  describeMissing('a store that comes back empty under hold', 'redis-server or valkey-server');
} else {
  describe('a run with limits.unknown_outcome: hold whose redis comes back empty', () => {
    it(
      'fault 89: stops, and is continued only when rows may be called again',
      async ({ task }) => {
        const redis = await startRedis();
        const admin = new RedisAdmin(redis.url);
        const trial = await Trial.begin({ queue: redis.url, rows: 200, limits: HOLD });
        try {
          const running = trial.run();
          await running.until(trial.called(100));
          await admin.client.flushall();
          const { code, stderr } = await running.ended;
          expect(code, stderr).toBe(3);
          expect(stderr).toContain('ledger_lost');
          await admin.client.flushall();
          const again = await trial.call().ended;
          expect(again.code, again.stderr).toBe(2);
          expect(again.stderr).toContain('limits.unknown_outcome: retry');
          expect(Math.max(...trial.callsOfRows())).toBe(1);
          const job = trial.work.read('job.yaml');
          trial.work.write('job.yaml', job.replace('hold', 'retry'));
          trial.endFault();
          const third = await trial.call().ended;
          expect(third.code, third.stderr).toBe(0);
          task.meta.fault = { rows: 200, calls: trial.service.calls() };
        } finally {
          admin.leave();
          await trial.end();
          await redis.stop();
        }
      },
      TIMEOUT,
    );
  });
}
