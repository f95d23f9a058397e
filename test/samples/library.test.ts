import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Queue, QueueEvents } from 'bullmq';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Emulator, startEmulator } from '../../src/emulator/server.js';
import { Workplace } from '../support/promptmill.js';
import { haveRedis, type Server, startRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';

const samples = join(import.meta.dirname, '../../samples');
const ROWS = 60;

describe('the examples of the library', () => {
  const work = new Workplace();
  const state = work.path('state');
  const reviews = readFileSync(join(samples, 'reviews.csv'), 'utf8').split(/^(?=R\d{4},)/m);
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
    const child = spawn(process.execPath, [join(samples, 'library', name), ...args], {
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

  it('script.js prints the reviews that are negative', async () => {
    const { child, lines } = start('script.js', [input]);
    const printed: string[] = [];
    for (let next = await lines.next(); !next.done; next = await lines.next()) printed.push(next.value);
    expect(printed.length).toBeGreaterThan(5);
    expect(printed.filter((line) => !/^R\d{4}$/.test(line))).toEqual([]);
    expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(0);
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
