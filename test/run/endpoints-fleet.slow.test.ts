import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest';
import type { Summary } from '../../src/index.js';
import { type Running, Workplace } from '../support/promptmill.js';
import {
  completionBody,
  type Script,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { withResolvers } from '../support/with-resolvers.js';

const ROWS = 120;
const KEYS = { WEST_KEY: 'west', EAST_KEY: 'east' };

if (!haveRedis()) describeMissing('a fleet for several endpoints', 'redis-server or valkey-server');

describe.runIf(haveRedis())('a fleet for several endpoints', () => {
  const work = new Workplace();
  let server: Server;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    await server.stop();
    work.remove();
  });

  /** Holds the answers of all endpoints until each of these keys has called one of them. */
  function heldFor(keys: readonly string[]): (script?: Script) => Script {
    const called = new Set<string>();
    const { promise: all, resolve } = withResolvers();
    return (script = () => ({})) =>
      async (request) => {
        called.add(String(request.headers['api-key']));
        if (keys.every((key) => called.has(key))) resolve();
        await all;
        return script(request);
      };
  }
  const keysAt = ({ requests }: ScriptedService): string[] =>
    [...new Set(requests.map(({ headers }) => String(headers['api-key'])))].sort();

  let names = 0;
  /** A job with the endpoints west and east, and the processes that work on it. */
  async function begin(
    { onTestFinished }: Pick<TestContext, 'onTestFinished'>,
    scripts: { west?: Script; east?: Script } = {},
    fields: object = {},
    heldForKeys: readonly string[] = [],
  ) {
    const running: Running[] = [];
    const held = heldFor(heldForKeys);
    const [west, east] = await Promise.all([
      startScriptedService(held(scripts.west)),
      startScriptedService(held(scripts.east)),
    ]);
    onTestFinished(async () => {
      for (const { process, ended } of running) {
        process.kill('SIGKILL');
        await ended;
      }
      for (const service of [west, east]) await service.close();
    });
    const name = `job-${++names}`;
    const endpoints = [
      { name: 'west', base_url: west.url, deployment: 'd-west', key: 'WEST_KEY' },
      { name: 'east', base_url: east.url, deployment: 'd-east', key: 'EAST_KEY' },
    ];
    const job = work.job(
      {
        ...{ service: { endpoints }, input: { path: work.rows(ROWS) }, output: { path: `${name}.csv` } },
        limits: { chunk_size: 5, concurrency: 8 },
        ...fields,
      },
      `${name}.yaml`,
    );
    const queue = { PROMPTMILL_QUEUE: server.url, PROMPTMILL_API_KEY: '' };
    const start = (args: readonly string[], keys: Readonly<Record<string, string>> = {}): Running => {
      const started = work.start(args, { ...queue, ...keys });
      running.push(started);
      return started;
    };
    const worker = (keys: Readonly<Record<string, string>>) =>
      start(['work', '--job', job, '--concurrency', '4'], keys);
    const run = () => start(['run', job, '--no-work']).ended;
    const leave = async ({ process, ended }: Running) => {
      process.kill('SIGTERM');
      return await ended;
    };
    const summary = () => work.json(`${name}.summary.json`);
    const ids = () => work.records(`${name}.csv`).map(({ id }) => Number(id));
    return { west, east, job, start, worker, run, leave, summary, ids };
  }
  const ALL = Array.from({ length: ROWS }, (_, i) => i + 1);

  /** One of them waits long for a worker that is lost. */
  describe.concurrent('whose processes come and go', () => {
    it('has each row called once, and each worker calls the endpoints whose keys it has', async (context) => {
      const keys = ['west-of-both', 'east-of-both', 'east-of-one'];
      const { west, east, worker, run, leave, summary, ids } = await begin(context, {}, {}, keys);
      const both = worker({ WEST_KEY: 'west-of-both', EAST_KEY: 'east-of-both' });
      const one = worker({ EAST_KEY: 'east-of-one' });
      const { code, stderr } = await run();
      expect(code, stderr).toBe(0);
      expect(ids()).toEqual(ALL);
      expect(keysAt(west)).toEqual(['west-of-both']);
      expect(keysAt(east)).toEqual(['east-of-both', 'east-of-one']);
      expect(west.calls() + east.calls()).toBe(ROWS);
      expect(summary()).toMatchObject({
        calls: { sent: ROWS, retried: 0, repeated: 0 },
        endpoints: {
          west: { calls: west.calls(), rows: west.calls(), rate_limited: 0 },
          east: { calls: east.calls(), rows: east.calls(), rate_limited: 0 },
        },
      });
      const [{ stderr: ofBoth }, { code: left, stderr: ofOne }] = [await leave(both), await leave(one)];
      expect(left, ofOne).toBe(0);
      expect(ofBoth).toContain('working for west, east of job-');
      expect(ofBoth).not.toContain('without');
      expect(ofOne).toContain('working for east of job-');
      expect(ofOne).toContain('without west, as WEST_KEY is not set');
    });

    it('counts the calls of a killed worker too, and calls its rows again', async (context) => {
      let killed: Running | null = null;
      // Its calls in flight are lost when it has made ten.
      const fatal: Script = ({ headers, total }) => {
        if (total > 10 && headers['api-key'] === 'killed') killed?.process.kill('SIGKILL');
        return {};
      };
      const { west, east, worker, run, summary, ids } = await begin(context, { east: fatal }, {}, [
        'killed',
        'west',
      ]);
      killed = worker({ EAST_KEY: 'killed' });
      worker(KEYS);
      const ended = run();
      const { code, stderr } = await ended;
      expect(code, stderr).toBe(0);
      expect(ids()).toEqual(ALL);
      const { calls, endpoints } = summary() as unknown as Summary;
      const [ofWest = 0, ofEast = 0] = [endpoints?.['west']?.calls, endpoints?.['east']?.calls];
      expect(ofWest + ofEast).toBe(calls.sent);
      expect(calls.sent).toBeGreaterThanOrEqual(west.calls() + east.calls());
      // What the killed worker had reserved and not counted yet is with the first.
      expect(ofEast).toBeLessThanOrEqual(east.calls());
    });

    it('goes on at the other endpoint while a worker that has only one waits for it', async (context) => {
      let calls = 0;
      const refused = withResolvers();
      const limited: Script = () => {
        if (++calls <= 5) return {};
        refused.resolve();
        return { status: 429, headers: { 'retry-after': '600' }, json: {} };
      };
      const { west, worker, run, summary, ids } = await begin(context, { east: limited });
      worker({ EAST_KEY: 'east' });
      const ended = run();
      await refused.promise;
      worker(KEYS);
      const { code, stderr } = await ended;
      expect(code, stderr).toBe(0);
      expect(ids()).toEqual(ALL);
      expect(west.calls()).toBe(ROWS - 5);
      expect(summary()).toMatchObject({
        calls: { sent: ROWS - 5 + calls, rate_limited: calls - 5 },
        endpoints: { west: { calls: ROWS - 5, rate_limited: 0 }, east: { calls, rate_limited: calls - 5 } },
      });
    });

    it('goes on without a worker whose only endpoint refuses its key', async (context) => {
      const picky: Script = ({ headers }) =>
        headers['api-key'] === 'revoked' ? { status: 401, json: { error: { code: '401' } } } : {};
      const { worker, run, summary, ids } = await begin(context, { east: picky });
      const one = worker({ EAST_KEY: 'revoked' });
      const ended = run();
      const left = await one.ended;
      expect(left.code, left.stderr).toBe(3);
      expect(left.stderr).toContain(
        'unauthorized: east: the service refuses every key (HTTP 401). Set EAST_KEY',
      );
      worker(KEYS);
      const { code, stderr } = await ended;
      expect(code, stderr).toBe(0);
      expect(ids()).toEqual(ALL);
      expect(summary()).toMatchObject({ calls: { repeated: 0 } });
    });

    it('leaves rows for the endpoint asked last to a worker with its key', async (context) => {
      const asked = withResolvers();
      const say =
        (text: string): Script =>
        ({ total }) => {
          if (total > 20) asked.resolve();
          return { json: completionBody({ text }) };
        };
      const { west, east, worker, run, summary } = await begin(
        context,
        { west: say(' perhaps'), east: say(' yes') },
        {
          answer: { labels: ['yes', 'no'], on_invalid: { deployment: 'east' } },
          limits: { chunk_size: 20, concurrency: 8 },
        },
      );
      worker({ WEST_KEY: 'west' });
      const ended = run();
      await asked.promise;
      expect(east.calls()).toBe(0);
      worker(KEYS);
      const { code, stderr } = await ended;
      expect(code, stderr).toBe(0);
      expect(summary()).toMatchObject({
        rows: { completed: ROWS },
        answers: { yes: ROWS },
        answers_invalid: 0,
      });
      expect(keysAt(west)).toEqual(['west']);
    });
  });

  it('says what is missing, with exit code 2', async (context) => {
    const { job, start } = await begin(context);
    const none = await start(['work', '--job', job]).ended;
    expect(none.code).toBe(2);
    expect(none.stderr).toContain(`${job}: WEST_KEY and EAST_KEY are not set`);
    const two = await start(['work', '--job', job, '--deployment', 'd-west'], KEYS).ended;
    expect(two.code).toBe(2);
    expect(two.stderr).toContain('--job');
  });

  it('tells a worker without the job file what the run waits for', async (context) => {
    const { start, run } = await begin(context);
    const other = start(['work'], { PROMPTMILL_BASE_URL: 'http://127.0.0.1:9', PROMPTMILL_API_KEY: 'k' });
    let said = '';
    other.process.stderr?.on('data', (text: string) => {
      said += text;
    });
    void run();
    await expect
      .poll(() => said.replace(/\s+/g, ' '))
      .toContain('1 run waits for workers of several endpoints: start `promptmill work --job`');
  });
});
