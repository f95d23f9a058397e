import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';

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
    ['work --concurrency 0', base, "option '--concurrency <n>' argument '0' is invalid", '--help'],
    ['work --queue redis://127.0.0.1:1 --log-level loud', base, 'got loud', ''],
    ['run job.yaml --no-work', base, 'only this one can open the embedded queue', '--queue redis://'],
    [
      'run job.yaml --no-work --emulate --queue redis://127.0.0.1:1',
      {},
      'for this one only',
      'promptmill emulate',
    ],
    ['status --queue redis://127.0.0.1:1', {}, 'cannot reach redis://127.0.0.1:1', 'Start the server'],
    ['status --queue mysql://db', {}, 'the queue "mysql://db" is none that is known', 'Use embedded'],
  ])('is told, with exit code 2: promptmill %s', async (command, env, problem, remedy) => {
    const { code, stderr, stdout } = await work.run(command.split(' '), env);
    expect(code, stderr).toBe(2);
    expect(stderr).toContain(problem);
    expect(stderr).toContain(remedy);
    expect(stdout).toBe('');
  });

  it('does not include a key for a run that leaves its calls to others', async () => {
    const env = { ...base, PROMPTMILL_API_KEY: '' };
    const { stderr } = await work.run(
      ['run', 'job.yaml', '--no-work', '--queue', 'redis://127.0.0.1:1'],
      env,
    );
    expect(stderr).not.toContain('PROMPTMILL_API_KEY');
    expect(stderr).toContain('cannot reach redis://127.0.0.1:1');
  });
});

describe('promptmill status', () => {
  let work: Workplace;
  let service: ScriptedService;
  afterEach(async () => {
    await service.close();
    work.remove();
  });

  const status = async (...args: string[]) => {
    const { code, stdout, stderr } = await work.run(['status', ...args, '--json'], {});
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout);
  };

  it('shows an embedded run while it goes on, when it was killed, and when it has finished', async () => {
    work = new Workplace();
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
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
    expect(await status()).toEqual({ runs: [], workers: [] });

    const running = work.start(['run', job], { PROMPTMILL_BASE_URL: service.url });
    await expect.poll(async () => (await status()).runs[0]?.rows.known, { timeout: 60_000 }).toBe(10);
    await expect.poll(async () => (await status()).workers[0]?.in_flight, { timeout: 60_000 }).toBe(5);
    const { runs, workers } = await status(job);
    expect(runs).toMatchObject([{ job: 'reviews', state: 'running', rows: { total: 30 }, emulated: false }]);
    expect(workers).toMatchObject([
      {
        run: runs[0].run,
        pid: running.process.pid,
        concurrency: 5,
        draining: false,
        rows: 10,
        calls: { 200: 10 },
      },
    ]);
    expect(await status('another')).toEqual({ runs: [], workers: [] });
    const { stdout: text } = await work.run(['status'], {});
    expect(text).toMatch(/^reviews +\d{8}-\d{6}-\w+ +███░+ +33 %/m);

    running.process.kill('SIGKILL');
    await running.ended;
    // Nobody says that it has ended. It is lost when it was silent for a while, which status.test.ts shows.
    expect((await status('reviews')).runs[0].state).toMatch(/running|lost/);

    release();
    const { code, stderr } = await work.run(['run', job], { PROMPTMILL_BASE_URL: service.url });
    expect(code, stderr).toBe(0);
    const after = await status('reviews');
    expect(after.runs).toMatchObject([
      { run: runs[0].run, state: 'finished', rows: { total: 30, known: 30, completed: 30 }, waiting: null },
    ]);
    expect(
      (await status()).workers.filter(({ pid }: { pid: number }) => pid !== running.process.pid),
    ).toEqual([]);
  });

  it('says how a run ended that was interrupted, or stopped', async () => {
    work = new Workplace();
    service = await startScriptedService(({ headers }) =>
      headers['api-key'] === 'a-key-for-tests-only' ? 'hang' : { status: 401, json: { statusCode: 401 } },
    );
    const job = work.job({ input: { path: work.rows(3) }, output: { path: 'out.csv' } });
    const env = { PROMPTMILL_BASE_URL: service.url, PROMPTMILL_API_KEY: 'another' };
    expect((await work.run(['run', job], env)).code).toBe(3);
    const [stopped] = (await status()).runs;
    expect(stopped).toMatchObject({ state: 'stopped', stopped: expect.stringMatching(/^unauthorized: /) });
  });
});
