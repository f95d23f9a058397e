import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Queue, QueueEvents } from 'bullmq';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { Workplace } from '../support/promptmill.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

const root = join(import.meta.dirname, '../..');
const ROWS = 60;

describe('the examples of the library', () => {
  const work = new Workplace();
  const state = work.path('state');
  const reviews = readFileSync(join(root, 'samples/reviews.csv'), 'utf8').split(/^(?=R\d{4},)/m);
  const input = work.path(work.write('reviews.csv', reviews.slice(0, ROWS + 1).join('')));
  const children: ChildProcess[] = [];
  let emulator: Emulator;
  beforeAll(async () => {
    emulator = await startEmulator({ latency: { baseMs: 20, perTokenMs: 0 } });
  });
  afterEach(async () => {
    for (const child of children.splice(0)) {
      const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : null;
      child.kill();
      await ended;
    }
  });
  afterAll(async () => {
    await emulator.close();
    work.remove();
  });

  /** Starts an example as a user does. */
  function start(name: string, args: readonly string[] = [], env: Record<string, string> = {}) {
    const [PROMPTMILL_API_KEY] = emulator.keys;
    const child = spawn(process.execPath, [join(root, 'examples', name), ...args], {
      cwd: work.folder,
      env: {
        PATH: process.env['PATH'],
        PROMPTMILL_BASE_URL: emulator.url,
        PROMPTMILL_API_KEY,
        PROMPTMILL_STATE_DIR: state,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    return { child, lines: createInterface(child.stdout)[Symbol.asyncIterator]() };
  }

  /** Runs an example to its end. */
  async function printed(name: string, args: readonly string[] = [], exit = 0): Promise<string[]> {
    const { child, lines } = start(name, args);
    const found: string[] = [];
    for (let next = await lines.next(); !next.done; next = await lines.next()) found.push(next.value);
    expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(exit);
    return found;
  }

  it('all are on the page of the library', () => {
    const page = readFileSync(join(root, 'docs/library.md'), 'utf8');
    const linked = [...page.matchAll(/\(\.\.\/examples\/([\w.]+)\)/g)].map(([, name]) => name);
    expect(linked.sort()).toEqual(readdirSync(join(root, 'examples')).sort());
  });

  it('memory.js has an answer for each row in memory', async () => {
    const lines = await printed('memory.js');
    expect(lines.map((line) => line.split('\t')[0])).toEqual(['M1', 'M2', 'M3']);
    expect(lines.join('\n')).toMatch(/\t(billing|delivery|else)/);
  });

  it('stream.js writes rows that come page by page into a file', async () => {
    const output = work.path('answers.jsonl');
    expect(await printed('stream.js', [output, '150'])).toEqual([`150 of 150 rows in ${output}`]);
    expect(work.lines('answers.jsonl').map((row) => row['input'].id)).toEqual(
      Array.from({ length: 150 }, (_, i) => i + 1),
    );
  });

  it('first.js stops the run when it has what it looks for', async () => {
    const [found = '', calls = ''] = await printed('first.js', [input, '2']);
    expect(found).toMatch(/^R\d{4} R\d{4}$/);
    expect(Number(/^(\d+) calls$/.exec(calls)?.[1])).toBeLessThan(ROWS);
  });

  it('progress.js tells what happens in words of its own', async () => {
    const lines = await printed('progress.js', [input, work.path('told.csv')]);
    expect(lines[0]).toBe(`${ROWS} rows, 0 of them done`);
    expect(lines.at(-1)).toBe(`${ROWS} rows on disk, 0 failed, ${ROWS} calls`);
  });

  it('budget.js runs within a budget, and sends nothing where it may not suffice', async () => {
    const before = emulator.stats().requests;
    const refused = await printed('budget.js', [input, work.path('cheap.csv'), '0.0001'], 1);
    expect(refused).toEqual([
      expect.stringMatching(/^60 rows for at most 0\.\d{4} USD$/),
      'that may be more than 0.0001: nothing was sent',
    ]);
    expect(emulator.stats().requests).toBe(before);
    const lines = await printed('budget.js', [input, work.path('cheap.csv'), '1']);
    expect(lines.at(-1)).toMatch(/^60 rows cost 0\.\d{4} USD$/);
  });

  it('script.js prints the reviews that are negative', async () => {
    const printedIds = await printed('script.js', [input]);
    expect(printedIds.length).toBeGreaterThan(5);
    expect(printedIds.filter((line) => !/^R\d{4}$/.test(line))).toEqual([]);
  });

  it('server.js answers with a line for each row, and ends the run of a client that leaves', async () => {
    const { lines } = start('server.js', [], { PORT: '0' });
    const address = (await lines.next()).value;
    const post = (rows: object[], signal?: AbortSignal): Promise<Response> => {
      const headers = { 'content-type': 'application/json' };
      return fetch(address, {
        method: 'POST',
        headers,
        body: JSON.stringify(rows),
        ...(signal && { signal }),
      });
    };
    const messages = (count: number) =>
      Array.from({ length: count }, (_, i) => ({ id: i + 1, text: `Where is parcel ${i + 1}?` }));

    const text = await (await post(messages(3))).text();
    const answers = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(answers.map(({ id, status }) => [id, status])).toEqual([1, 2, 3].map((id) => [id, 'completed']));

    const before = emulator.stats().requests;
    const leaving = new AbortController();
    const response = await post(messages(3_000), leaving.signal);
    await response.body?.getReader().read();
    leaving.abort();
    // The run has left its store.
    await expect.poll(() => existsSync(join(state, 'store/lock'))).toBe(false);
    expect(emulator.stats().requests - before).toBeLessThan(3_000);
  });

  if (!haveRedis()) describeMissing('processor.js', 'redis-server or valkey-server');
  else {
    it('processor.js runs a job for each entry of a queue', async () => {
      const server: Server = await startRedis({ appendonly: false });
      const connection = { url: server.url };
      const queue = new Queue('runs', { connection });
      const events = new QueueEvents('runs', { connection });
      try {
        await events.waitUntilReady();
        start('processor.js', [], { REDIS_URL: server.url });
        const entries = await Promise.all(
          ['one.csv', 'two.csv'].map((output) => queue.add('run', { input, output })),
        );
        const ended = await Promise.all(entries.map((entry) => entry.waitUntilFinished(events)));
        expect(ended).toMatchObject([{ total: ROWS }, { total: ROWS }]);
        for (const output of ['one.csv', 'two.csv']) expect(work.records(output).length).toBe(ROWS);
      } finally {
        await Promise.all([queue.close(), events.close()]);
        await server.stop();
      }
    });
  }
});
