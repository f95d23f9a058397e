import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AnswerCounts } from '../../src/account/require.js';
import { Halt } from '../../src/core/halt.js';
import { reachedLimit } from '../../src/run/limits.js';
import { MemoryPlace } from '../support/memory-place.js';
import { startScriptedService } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { withResolvers } from '../support/with-resolvers.js';

const rows = (total: number, failed: number, invalid = 0): AnswerCounts => ({
  rows: { total, failed, completed: total - failed, filtered: 0, skipped: 0 },
  ...(invalid > 0 && { invalid: { answer_not_a_label: invalid } }),
});

describe('a limit', () => {
  const none = { stopAfterFailures: {}, deadlineMs: null };

  it('is not reached where there is none', () => {
    expect(reachedLimit(none, rows(1000, 1000), 1e12)).toBeNull();
  });

  it('of failures is a count from 1 on', () => {
    const limits = { ...none, stopAfterFailures: { failures: 3 } };
    expect(reachedLimit(limits, rows(1000, 2), 0)).toBeNull();
    expect(reachedLimit(limits, rows(1000, 3), 0)).toEqual({
      code: 'too_many_failures',
      message:
        '3 of 1,000 rows failed, where limits.stop_after_failures is 3. Mend what makes them fail, or raise the limit.',
    });
  });

  it('of failures is a fraction below 1, of twenty rows at least', () => {
    const limits = { ...none, stopAfterFailures: { failures: 0.2 } };
    expect(reachedLimit(limits, rows(19, 19), 0)).toBeNull();
    expect(reachedLimit(limits, rows(20, 4), 0)).toBeNull();
    expect(reachedLimit(limits, rows(20, 5), 0)?.code).toBe('too_many_failures');
  });

  it('of rows that abstain is one of its own, and they are no failures', () => {
    const written: AnswerCounts = { ...rows(100, 2, 3), abstained: 40 };
    const reached = (failures?: number, abstained?: number) =>
      reachedLimit({ ...none, stopAfterFailures: { failures, abstained } }, written, 0);
    expect(reached(6)).toBeNull();
    expect(reached(5, 0.1)?.code).toBe('too_many_failures');
    expect(reached(6, 0.4)).toBeNull();
    expect(reached(undefined, 41)).toBeNull();
    expect(reached(6, 0.3)).toEqual({
      code: 'too_many_abstained',
      message:
        '40 of 100 rows abstained, where limits.stop_after_failures.abstained is 0.3. ' +
        'Raise the limit, or correct the prompt and start over with --restart.',
    });
  });

  it('of time is over when it is over', () => {
    const limits = { ...none, deadlineMs: 8 * 3_600_000 };
    expect(reachedLimit(limits, rows(10, 0), 8 * 3_600_000 - 1)).toBeNull();
    expect(reachedLimit(limits, rows(10, 0), 8 * 3_600_000)).toEqual({
      code: 'deadline',
      message: 'the run reached limits.deadline, 8 h 0 min',
    });
  });
});

describe('a run that reaches a limit', () => {
  const store = oneStore();
  let place: MemoryPlace;
  beforeEach(() => {
    place = new MemoryPlace();
  });
  afterEach(() => place.work.remove());

  const job = (count: number, limits: object): string =>
    place.work.job({
      input: { path: place.work.rows(count) },
      output: { path: 'out.csv' },
      limits: { concurrency: 5, ...limits },
    });
  const REFUSED = { status: 400, json: { error: { code: 'invalid', message: 'bad prompt' } } };

  it('of failures stops with 3, and goes on where it stopped when the limit is raised', async () => {
    const reply = ({ total }: { total: number }) => (total % 2 === 0 ? REFUSED : {});
    const stopping = withResolvers();
    // From the 61st call on, nothing is answered until the run is about to stop.
    place.script = async (request) => {
      if (request.total > 60) await stopping.promise;
      return reply(request);
    };
    const service = await startScriptedService((request) => place.script(request));
    const env = { PROMPTMILL_BASE_URL: service.url, ...store() };
    const run = (limits: object) =>
      place.work.call(['run', job(100, limits)], env, (text) => {
        if (text.includes('stopping')) stopping.resolve();
      });
    const { code, stderr } = await run({ stop_after_failures: 10 });
    place.script = reply;
    expect(code, stderr).toBe(3);
    expect(stderr).toContain('too_many_failures');
    expect(service.calls()).toBeLessThan(100);
    const finished = await run({ stop_after_failures: 99 });
    await service.close();
    expect(finished.code, finished.stderr).toBe(1);
    expect(service.calls()).toBe(100);
    expect(place.work.json('out.summary.json')).toMatchObject({ rows: { total: 100, failed: 50 } });
  });

  it('of time stops with 3, and the same command goes on', async () => {
    const halt = new Halt();
    const stopping = new Promise<void>((resolve) => halt.signal.addEventListener('abort', () => resolve()));
    // From the 20th call on, nothing is answered until the run is about to stop.
    place.script = async ({ total }) => {
      if (total >= 20) await stopping;
      return {};
    };
    const { code, said, summary } = await place.run(job(100, { deadline: '1s' }), {}, halt);
    expect(code, said).toBe(3);
    expect(summary?.stopped).toContain('deadline');
    place.script = () => ({});
    const finished = await place.run(job(100, { deadline: '1h' }));
    expect(finished.code, finished.said).toBe(0);
    expect(place.machine.calls()).toBe(100);
  });

  it('of its first rows sends no others when all of them fail, again and again', async () => {
    place.script = () => REFUSED;
    for (const called of [20, 40]) {
      const { code, said, summary } = await place.run(job(100, { canary: 20 }));
      expect(code, said).toBe(3);
      expect(summary?.stopped).toContain('canary_failed');
      expect(place.machine.calls()).toBe(called);
    }
  });

  it('of its first rows sends the others when one of them is answered', async () => {
    place.script = ({ prompt }) =>
      prompt === 'row 20' ? {} : prompt.length <= 'row 19'.length ? REFUSED : {};
    const { code, said } = await place.run(job(100, { canary: 20 }));
    expect(code, said).toBe(1);
    expect(place.machine.calls()).toBe(100);
  });
});
