import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readRuns } from '../../src/ops/heartbeat.js';
import { openBoard } from '../../src/store/open.js';
import { Workplace } from '../support/promptmill.js';
import { chatBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { haveRedis, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { withResolvers } from '../support/with-resolvers.js';

describe('what a fleet needs to start', () => {
  const work = new Workplace();
  const base = { PROMPTMILL_BASE_URL: 'http://127.0.0.1:9' };
  beforeAll(() => {
    work.job({ input: { path: work.rows(3) }, output: { path: 'out.csv' } });
  });
  afterAll(() => work.remove());

  it.each([
    ['work', base, 'the queue is embedded, which only the process of a run can open', '--queue redis://'],
    ['work --queue redis://127.0.0.1:1', {}, 'PROMPTMILL_BASE_URL is not set', 'Set it'],
    [
      'work --queue redis://127.0.0.1:1',
      { ...base, PROMPTMILL_API_KEY: '' },
      'PROMPTMILL_API_KEY is not set',
      'Set',
    ],
    ['work --queue redis://127.0.0.1:1', base, 'cannot reach redis://127.0.0.1:1', 'Start the server'],
    ['run job.yaml --no-work', base, 'only this one can open the embedded queue', '--queue redis://'],
    [
      'run job.yaml --no-work --emulate --queue redis://127.0.0.1:1',
      {},
      'for this one only',
      'promptmill emulate',
    ],
    ['status --queue redis://127.0.0.1:1', {}, 'cannot reach redis://127.0.0.1:1', 'Start the server'],
  ])('is told, with exit code 2: promptmill %s', async (command, env, problem, remedy) => {
    const { code, stderr, stdout } = await work.call(command.split(' '), env);
    expect(code, stderr).toBe(2);
    expect(stderr).toContain(problem);
    expect(stderr).toContain(remedy);
    expect(stdout).toBe('');
  });

  it('does not include a key for a run that leaves its calls to others', async () => {
    const env = { ...base, PROMPTMILL_API_KEY: '' };
    const { stderr } = await work.call(
      ['run', 'job.yaml', '--no-work', '--queue', 'redis://127.0.0.1:1'],
      env,
    );
    expect(stderr).not.toContain('PROMPTMILL_API_KEY');
    expect(stderr).toContain('cannot reach redis://127.0.0.1:1');
  });
});

if (!haveRedis()) describeMissing('a fleet', 'redis-server or valkey-server');

describe.runIf(haveRedis())('a fleet', () => {
  it('goes online with its run, when the time of that in the flex tier is over', async () => {
    const work = new Workplace();
    const server = await startRedis();
    const service = await startScriptedService(({ body }) =>
      body['service_tier'] === 'flex'
        ? { status: 498, json: { error: { code: 'capacity_exceeded', message: 'no capacity' } } }
        : { json: { ...chatBody(), service_tier: 'default' } },
    );
    const env = { PROMPTMILL_BASE_URL: service.url, PROMPTMILL_QUEUE: server.url };
    const job = work.job({
      service: { operation: 'chat', deployment: 'lm-35-turbo', tier: { flex: '2s' } },
      input: { path: work.rows(20) },
      output: { path: 'out.csv' },
    });
    const worker = work.start(['work'], env);
    try {
      const { code, stderr } = await work.call(['run', job, '--no-work'], env);
      expect(code, stderr).toBe(0);
      expect(work.records('out.csv').every(({ tier }) => tier === 'online')).toBe(true);
      const tiers = service.requests.map(({ body }) => body['service_tier']);
      expect(tiers).toContain('flex');
      expect(tiers.filter((tier) => tier === undefined)).toHaveLength(20);
      expect(work.json('out.summary.json')).toMatchObject({
        ...{ tiers: { online: { rows: 20 } }, saved: null },
        calls: { sent: tiers.length, retried: tiers.length - 20, rate_limited: 0 },
      });
    } finally {
      worker.process.kill('SIGTERM');
      await worker.ended;
      await service.close();
      await server.stop();
      work.remove();
    }
  });

  it('goes on with its other runs when one asks for what the service cannot do', async () => {
    const work = new Workplace();
    const server = await startRedis();
    const { promise: isCalled, resolve: called } = withResolvers();
    const { promise: released, resolve: release } = withResolvers();
    const service = await startScriptedService(async ({ body }) => {
      if ('suffix' in body) return { status: 500, text: 'Unsupported param: suffix' };
      called();
      await released;
      return {};
    });
    const env = { PROMPTMILL_BASE_URL: service.url, PROMPTMILL_QUEUE: server.url };
    // So few that the worker has calls left for the other run.
    const input = { path: work.rows(3) };
    const good = work.job({ input, output: { path: 'good.csv' } }, 'good.yaml');
    const worker = work.start(['work'], env);
    const finishes = work.start(['run', good, '--no-work'], env);
    try {
      const bad = work.job(
        { input, output: { path: 'bad.csv' }, parameters: { suffix: ' end' } },
        'bad.yaml',
      );
      await isCalled;
      const stopped = await work.call(['run', bad, '--no-work'], env);
      expect(stopped.code, stopped.stderr).toBe(3);
      expect(stopped.stderr).toContain('not_supported: Unsupported param: suffix');
      release();
      const { code, stderr } = await finishes.ended;
      expect(code, stderr).toBe(0);
    } finally {
      release();
      finishes.process.kill('SIGKILL');
      await finishes.ended;
      worker.process.kill('SIGTERM');
      await worker.ended;
      await service.close();
      await server.stop();
      work.remove();
    }
  });
});

/** A `promptmill status --watch --json` that runs. */
function watchStatus(work: Workplace, ...args: string[]) {
  const watching = work.start(['status', '--watch', '--json', ...args]);
  let text = '';
  watching.process.stdout?.on('data', (piece: string) => {
    text += piece;
  });
  return {
    /** Resolves with the first look from now on that is as expected. */
    shows: async (expected: object): Promise<void> => {
      const from = text.length;
      const looks = () => text.slice(from).split('\n').slice(1, -1);
      await expect
        .poll(() => JSON.parse(looks().at(-1) ?? '{}'), { timeout: 100_000, interval: 100 })
        .toMatchObject(expected);
    },
    end: async () => {
      watching.process.kill('SIGINT');
      return (await watching.ended).code;
    },
  };
}

describe('promptmill status', () => {
  let work: Workplace;
  let service: ScriptedService;
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  it('shows an embedded run while it goes on, when it was interrupted, and when it has finished', async () => {
    work = new Workplace();
    const { promise: held, resolve: release } = withResolvers();
    service = await startScriptedService(async ({ total }) => {
      if (total > 10) await held;
      return {};
    });
    const job = work.job({
      name: 'reviews',
      input: { path: work.rows(30) },
      output: { path: 'out.csv' },
      limits: { concurrency: 5, chunk_size: 5 },
    });
    const watch = watchStatus(work, job);
    await watch.shows({ runs: [], workers: [] });

    const running = work.start(['run', job], { PROMPTMILL_BASE_URL: service.url });
    const { pid } = running.process;
    const worker = { pid, concurrency: 5, in_flight: 5, draining: false, rows: 10, calls: { 200: 10 } };
    const run = { job: 'reviews', state: 'running', pid, emulated: false };
    await watch.shows({ runs: [{ ...run, rows: { total: 30, known: 10 } }], workers: [worker] });
    const { code: found, stdout: text } = await work.call(['status', 'reviews']);
    expect(found).toBe(0);
    expect(text).toMatch(/^reviews +\d{8}-\d{6}-\w+ +███░+ +33 %/m);
    const slip = await work.call(['status', 'review']);
    expect(slip).toMatchObject({ code: 2, stdout: '' });
    expect(slip.stderr).toContain(
      'no run of a job "review" at .promptmill, and no job file of that name here',
    );
    expect(slip.stderr).toContain('did you mean reviews?');

    const stopping = new Promise<void>((resolve) => {
      running.process.stderr?.on('data', (said: string) => said.includes('stopping') && resolve());
    });
    running.process.kill('SIGTERM');
    await stopping;
    release();
    expect((await running.ended).code).toBe(143);
    const interrupted = { state: 'interrupted', stopped: 'interrupted: by SIGTERM', rows_per_second: null };
    await watch.shows({ runs: [interrupted], workers: [] });

    const { code, stderr } = await work.call(['run', job], { PROMPTMILL_BASE_URL: service.url });
    expect(code, stderr).toBe(0);
    const rows = { total: 30, known: 30, completed: 30 };
    // The same run, not a second one.
    await watch.shows({ runs: [{ state: 'finished', rows, waiting: null, stopped: null }], workers: [] });
    expect(await watch.end()).toBe(0);

    // The dashboard tells a run by its last word, and the report by the file.
    const stateDir = work.path('.promptmill');
    const lookout = await openBoard('embedded', { stateDir, onWarning: () => {} });
    const [seen] = readRuns(await lookout.keyValue.list('run'));
    await lookout.close();
    const { finished_at, duration_s, rows_per_second } = work.json('out.summary.json');
    expect(seen?.beat.summary).toMatchObject({ finished_at, duration_s, rows_per_second });
  });
});
