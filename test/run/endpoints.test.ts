import { readFileSync } from 'node:fs';
import { pino } from 'pino';
import { afterAll, describe, expect, it } from 'vitest';
import { defineJob, retry, run, type Summary } from '../../src/index.js';
import { Workplace } from '../support/promptmill.js';
import {
  chatBody,
  completionBody,
  type Script,
  type ScriptedService,
  startScriptedService,
} from '../support/scripted-service.js';

const work = new Workplace();
afterAll(() => work.remove());

const echo: Script = ({ prompt }) => ({ json: completionBody({ text: ` ${prompt}` }) });
const refused: Script = () => ({ status: 401, json: { error: { code: '401', message: 'no' } } });

describe.concurrent('a job with several endpoints', () => {
  const services: ScriptedService[] = [];
  afterAll(async () => {
    for (const service of services) await service.close();
  });
  let names = 0;

  /** A place for one job: its endpoints answer by these scripts. */
  async function begin(
    scripts: { west: Script; east: Script },
    limits: object = {},
    route: 'balance' | 'in_order' = 'balance',
    prompt = '{{ id }}',
  ) {
    const [west, east] = await Promise.all([
      startScriptedService(scripts.west),
      startScriptedService(scripts.east),
    ]);
    services.push(west, east);
    const name = `job-${++names}`;
    const output = work.path(`${name}.jsonl`);
    const said: string[] = [];
    const endpoint = (at: string, { url }: ScriptedService) => ({
      ...{ name: at, base_url: url, deployment: `d-${at}`, key: `${at.toUpperCase()}_KEY` },
      prices: { prompt: at === 'west' ? 1 : 10, completion: 0 },
    });
    const log = pino({ level: 'warn' }, { write: (line) => said.push(JSON.parse(line).msg) });
    const env = {
      ...{ WEST_KEY: 'key-of-west', EAST_KEY: 'key-of-east' },
      PROMPTMILL_STATE_DIR: work.path(`state-${name}`),
    };
    let last: Parameters<typeof retry>[1];
    const go = async (rows: number): Promise<Summary> => {
      const job = defineJob({
        name,
        service: { endpoints: [endpoint('west', west), endpoint('east', east)], route },
        prompt,
        ...{ limits: { concurrency: 8, chunk_size: 10, ...limits } },
      });
      const all = Array.from({ length: rows }, (_, i) => ({ id: i + 1 }));
      last = { job, rows: all, log, env };
      return (await run(job, { rows: all, output, log, env })).summary;
    };
    const retryIn = () => retry(output, last);
    const records = () =>
      readFileSync(output, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
    return { west, east, go, retryIn, said, records };
  }

  it('has each row called once, by one of them, with its own key and deployment, and says by which', async () => {
    const { west, east, go, records } = await begin({ west: echo, east: echo });
    const summary = await go(100);
    expect(summary).toMatchObject({ stopped: null, deployment: 'd-west, d-east', rows: { completed: 100 } });
    expect(west.calls() + east.calls()).toBe(100);
    expect(summary.calls).toMatchObject({ sent: 100, retried: 0, repeated: 0 });
    for (const { service, name } of [
      { service: west, name: 'west' },
      { service: east, name: 'east' },
    ]) {
      const asked = service.requests.map(({ prompt }) => Number(prompt)).sort((a, b) => a - b);
      const told = records().filter(({ endpoint }) => endpoint === name);
      expect(told.map(({ row }) => row)).toEqual(asked);
      expect(summary.endpoints?.[name]).toMatchObject({
        calls: asked.length,
        rows: asked.length,
        rate_limited: 0,
      });
      expect(
        service.requests.every(
          ({ headers, url }) => headers['api-key'] === `key-of-${name}` && url.includes(`d-${name}/`),
        ),
      ).toBe(true);
    }
    const { west: w, east: e } = summary.endpoints ?? {};
    expect(summary.cost).toBeCloseTo((w?.cost ?? 0) + (e?.cost ?? 0), 6);
    expect(Object.keys(records()[0]).slice(-4)).toEqual(['attempts', 'latency_ms', 'endpoint', 'error']);
  });

  it('goes on without the one whose key is refused, and says so', async () => {
    // So slow that calls are granted while it refuses others.
    const slow: Script = async (request) => {
      await new Promise((resolve) => setTimeout(resolve, 20 * request.total));
      return refused(request);
    };
    const { west, east, go, said, records } = await begin({ west: slow, east: echo });
    const summary = await go(60);
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 60 }, calls: { repeated: 0 } });
    expect(summary.calls.sent).toBe(west.calls() + east.calls());
    expect(records().every(({ endpoint }) => endpoint === 'east')).toBe(true);
    expect(said.filter((line) => line.startsWith('west: '))).toEqual([
      'west: the service refuses every key (HTTP 401). Set WEST_KEY to a key of this resource, and check that its base_url is its address. The other endpoints go on.',
    ]);
    expect(west.calls()).toBeLessThan(10);
  });

  it('stops when all refuse, and the same command goes on', async () => {
    let mended = false;
    const script: Script = (request) => (mended ? echo(request) : refused(request));
    const { west, east, go } = await begin({ west: script, east: script });
    const stopped = await go(40);
    expect(stopped.stopped).toMatch(/^unauthorized: west: .*WEST_KEY.* east: .*EAST_KEY/);
    const before = west.calls() + east.calls();
    mended = true;
    expect(await go(40)).toMatchObject({ stopped: null, rows: { completed: 40 }, run: stopped.run });
    expect(west.calls() + east.calls()).toBe(before + 40);
  });

  it('leaves one that is down to a probe now and then, and uses no attempt for its rows', async () => {
    const { west, go, records } = await begin({ west: echo, east: echo }, { attempts: 1 });
    await west.close();
    const summary = await go(80);
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 80 }, calls: { repeated: 0 } });
    expect(records().every(({ endpoint }) => endpoint === 'east')).toBe(true);
  });

  it('counts a row as possibly repeated whose call was lost, and which was called again', async () => {
    const lost: Script = ({ count, prompt }) =>
      count === 1 ? 'reset' : { json: completionBody({ text: prompt }) };
    const { west, go } = await begin({ west: lost, east: echo }, {}, 'in_order');
    const summary = await go(3);
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 3 }, calls: { sent: 6, repeated: 3 } });
    expect(west.calls()).toBeGreaterThanOrEqual(3);
  });

  it('with `hold` makes such a call nowhere else', async () => {
    const { west, east, go } = await begin(
      { west: () => 'reset', east: echo },
      { unknown_outcome: 'hold' },
      'in_order',
    );
    const summary = await go(3);
    expect(summary).toMatchObject({
      rows: { failed: 3 },
      errors: { outcome_unknown: 3 },
      calls: { sent: 3 },
    });
    expect([west.calls(), east.calls()]).toEqual([3, 0]);
  });

  it('with `hold` loses few rows to one that breaks off all calls', async () => {
    const { go } = await begin(
      { west: () => 'reset', east: echo },
      { unknown_outcome: 'hold', chunk_size: 3 },
      'in_order',
    );
    const { rows, errors } = await go(100);
    expect(errors).toEqual({ outcome_unknown: rows.failed });
    expect(rows.failed).toBeGreaterThan(0);
    expect(rows.failed).toBeLessThan(30);
  });

  it('ends soon although one of them never answers', async () => {
    const { west, go } = await begin(
      { west: () => 'hang', east: echo },
      { timeout_seconds: 1, chunk_size: 3 },
      'in_order',
    );
    const summary = await go(60);
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 60 } });
    expect(west.calls()).toBeLessThan(30);
  });

  it('pauses only the one that has no quota left', async () => {
    let calls = 0;
    const limited: Script = (request) =>
      ++calls > 5 ? { status: 429, headers: { 'retry-after': '600' }, json: {} } : echo(request);
    const { go } = await begin({ west: limited, east: echo });
    const summary = await go(100);
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 100 } });
    expect(summary.endpoints?.['west']?.rows).toBe(5);
    expect(summary.endpoints?.['west']?.rate_limited).toBe(summary.calls.rate_limited);
    expect(summary.calls.rate_limited).toBeGreaterThan(0);
  });

  it('is rehearsed without their keys, in a file of its own', async () => {
    const keyed = (name: string, deployment: string) => ({
      ...{ name, deployment, base_url: 'https://nowhere.example', key: 'NO_SUCH_KEY' },
    });
    const job = defineJob({
      name: 'rehearsed',
      service: { endpoints: [keyed('west', 'lm-35-turbo-instruct'), keyed('east', 'text-davinci-003')] },
      prompt: 'one of a or b: {{ id }}',
    });
    const rows = Array.from({ length: 20 }, (_, id) => ({ id }));
    const env = { PROMPTMILL_STATE_DIR: work.path('state-rehearsed') };
    const output = work.path('rehearsed.jsonl');
    const { summary } = await run(job, { rows, output, emulate: true, env });
    expect(summary).toMatchObject({ emulated: true, stopped: null, rows: { total: 20, failed: 0 } });
    const { west, east } = summary.endpoints ?? {};
    expect((west?.rows ?? 0) + (east?.rows ?? 0)).toBe(20);
    await expect(run(job, { rows, output: work.path('real.jsonl'), env })).rejects.toThrow(
      'NO_SUCH_KEY is not set',
    );
  });

  it('is rehearsed with deployments of one name that hold different models', async () => {
    const named = (name: string) => ({
      ...{ name, deployment: 'd', base_url: `https://${name}.example`, key: 'NO_SUCH_KEY' },
    });
    const job = defineJob({
      name: 'rehearsed-alike',
      service: {
        endpoints: [
          { ...named('west'), model: 'lm-35-turbo-instruct' },
          { ...named('east'), model: 'lm-35-turbo', operation: 'chat' },
        ],
      },
      prompt: '{{ id }}',
      parameters: { max_tokens: 5 },
    });
    const { summary } = await run(job, {
      rows: Array.from({ length: 40 }, (_, id) => ({ id })),
      ...{ output: work.path('alike.jsonl'), emulate: true },
      env: { PROMPTMILL_STATE_DIR: work.path('state-alike') },
    });
    expect(summary).toMatchObject({ stopped: null, rows: { failed: 0 }, calls: { sent: 40 } });
    expect(summary.endpoints?.['west']?.rows).toBeGreaterThan(0);
    expect(summary.endpoints?.['east']?.rows).toBeGreaterThan(0);
  });

  it('keeps a budget of money at the prices of each, and spends most of it', async () => {
    const counted: Script = ({ prompt }) => ({
      json: completionBody({ text: prompt, prompt_tokens: Buffer.byteLength(prompt) }),
    });
    const { west, east, go } = await begin(
      { west: counted, east: counted },
      { budget: { cost: 50 } },
      'balance',
      `Review {{ id }}: ${'so '.repeat(30)}`,
    );
    const summary = await go(200);
    expect(summary.stopped).toMatch(/^budget: limits\.budget\.cost is 50/);
    expect(west.calls()).toBeGreaterThan(0);
    expect(east.calls()).toBeGreaterThan(0);
    expect(summary.cost).toBeLessThanOrEqual(50);
    expect(summary.cost).toBeGreaterThan(40);
  });

  it('asks one of them again for rows that failed, and adds up what each has cost', async () => {
    let mended = false;
    const bad: Script = (request) =>
      mended ? echo(request) : { status: 400, json: { error: { code: 'bad', message: 'no' } } };
    const { go, retryIn, records } = await begin({ west: bad, east: echo });
    const first = await go(30);
    expect(first.rows.failed).toBeGreaterThan(0);
    mended = true;
    const { summary } = await retryIn();
    expect(summary.rows).toMatchObject({ completed: 30, failed: 0 });
    const { west, east } = summary.endpoints ?? {};
    expect((west?.rows ?? 0) + (east?.rows ?? 0)).toBe(30);
    expect((west?.calls ?? 0) + (east?.calls ?? 0)).toBe(summary.calls.sent);
    const byName = records().map(({ endpoint }) => endpoint);
    expect(byName.every((name) => name === 'west' || name === 'east')).toBe(true);
  });
});

describe('a job whose endpoints have both operations', () => {
  it('sends each what its operation takes, asks the one named last, and tells what both tell', async () => {
    const asked = new Set<number>();
    /** Each fifth row has its first answer in another word. */
    const answer = ({ prompt }: { readonly prompt: string }): string => {
      const id = Number(prompt.replace(/\D/g, ''));
      const fits = id % 5 > 0 || asked.has(id);
      asked.add(id);
      return fits ? ' yes' : ' maybe';
    };
    const west = await startScriptedService((request) => ({
      json: completionBody({ text: answer(request) }),
    }));
    const east = await startScriptedService((request) => ({
      json: chatBody({ content: answer(request).trim() }),
    }));
    const at = (name: string, { url }: ScriptedService) => ({
      ...{ name, base_url: url, deployment: `d-${name}`, key: `${name.toUpperCase()}_KEY` },
    });
    const job = defineJob({
      service: { endpoints: [at('west', west), { ...at('east', east), operation: 'chat', style: 'openai' }] },
      prompt: '{{ id }}?',
      parameters: { max_tokens: 5 },
      answer: { labels: ['yes', 'no'], on_invalid: { deployment: 'east' } },
      limits: { concurrency: 4, chunk_size: 5 },
    });
    const output = work.path('both.csv');
    const { summary } = await run(job, {
      rows: Array.from({ length: 40 }, (_, i) => ({ id: i + 1 })),
      output,
      env: { WEST_KEY: 'w', EAST_KEY: 'e', PROMPTMILL_STATE_DIR: work.path('state-both') },
    });
    await Promise.all([west.close(), east.close()]);
    expect(summary).toMatchObject({ stopped: null, rows: { completed: 40 }, calls: { sent: 48 } });
    expect(summary.answer_sources).toMatchObject({ read: 32, escalated: 8 });
    expect(west.calls() + east.calls()).toBe(48);
    // Also where a row was asked at both.
    for (const [name, { calls }] of Object.entries({ west, east }))
      expect(summary.endpoints?.[name]).toMatchObject({
        calls: calls(),
        usage: { prompt_tokens: 10 * calls() },
      });
    expect(west.requests.every(({ url }) => url.includes('/d-west/completions'))).toBe(true);
    expect(east.requests.every(({ url }) => url.endsWith('/v1/chat/completions'))).toBe(true);
    for (const row of work.records('both.csv')) {
      expect(row).toMatchObject({ status: 'completed', refusal: '', cached_tokens: expect.any(String) });
      // The last to be asked is the one named.
      if (Number(row['id']) % 5 === 0) expect(row['endpoint']).toBe('east');
    }
  });
});

describe('a job that asks one of its endpoints last', () => {
  it('stops when that one refuses all calls, in the words of a job with several', async () => {
    const west = await startScriptedService(() => ({ json: completionBody({ text: ' maybe' }) }));
    const east = await startScriptedService(refused);
    const at = (name: string, { url }: ScriptedService) => ({
      ...{ name, base_url: url, deployment: `d-${name}`, key: `${name.toUpperCase()}_KEY` },
    });
    const job = defineJob({
      service: { endpoints: [at('west', west), at('east', east)] },
      prompt: '{{ id }}',
      answer: { labels: ['yes', 'no'], on_invalid: { deployment: 'east' } },
    });
    const { summary } = await run(job, {
      rows: [{ id: 1 }, { id: 2 }],
      output: work.path('last.csv'),
      env: { WEST_KEY: 'w', EAST_KEY: 'e', PROMPTMILL_STATE_DIR: work.path('state-last') },
    });
    await Promise.all([west.close(), east.close()]);
    expect(summary.stopped).toBe(
      'unauthorized: east: the service refuses every key (HTTP 401). Set EAST_KEY to a key of this resource, and check that its base_url is its address.',
    );
  });
});

describe('a job with one endpoint', () => {
  it('tells nothing of endpoints, and asks the other deployment last', async () => {
    const service = await startScriptedService(({ prompt, url }) => ({
      json: completionBody({ text: url.includes('larger') || Number(prompt) % 5 > 0 ? ' yes' : ' maybe' }),
    }));
    const job = defineJob({
      service: { deployment: 'small' },
      prompt: '{{ id }}',
      answer: { labels: ['yes', 'no'], on_invalid: { deployment: 'larger' } },
      limits: { concurrency: 4 },
    });
    const output = work.path('one.csv');
    const { summary } = await run(job, {
      rows: Array.from({ length: 20 }, (_, i) => ({ id: i + 1 })),
      output,
      env: {
        ...{ PROMPTMILL_BASE_URL: service.url, PROMPTMILL_API_KEY: 'a-key-for-tests-only' },
        PROMPTMILL_STATE_DIR: work.path('state-one'),
      },
    });
    await service.close();
    expect(summary).toMatchObject({
      ...{ deployment: 'small', stopped: null, calls: { sent: 24 } },
      answer_sources: { read: 16, escalated: 4 },
    });
    expect(summary).not.toHaveProperty('endpoints');
    expect(readFileSync(output, 'utf8').split('\n', 1)[0]).not.toContain('endpoint');
    const details = JSON.parse(readFileSync(work.path('one.summary.json'), 'utf8')).details;
    expect(JSON.parse(details.settings.service)).toEqual({
      ...{ operation: 'completions', deployment: 'small' },
      ...{ apiVersion: '2023-09-15-preview', style: 'deployments' },
    });
  });
});
