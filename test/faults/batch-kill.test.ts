import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, it } from 'vitest';
import { startEmulator } from '../../src/emulator/server.js';
import { Workplace } from '../support/promptmill.js';

const work = new Workplace();
afterAll(() => work.remove());

/** Most kills of one run: before the service gets a request, or after it has done what is asked. */
const KILLS = 15;

/** Stands before a service, and tells of each request before it goes on, and when the answer is there. */
async function doorTo(url: string, told: (when: 'asked' | 'done') => boolean): Promise<Server> {
  const target = new URL(url);
  const pass = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body: Buffer[] = [];
    for await (const chunk of incoming) body.push(chunk);
    if (told('asked')) return void incoming.socket.destroy();
    const { method, headers, url: path } = incoming;
    const onward = request({ host: target.hostname, port: target.port, method, headers, path }, (answer) => {
      const said: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => said.push(chunk));
      answer.on('end', () => {
        if (told('done')) return void incoming.socket.destroy();
        response.writeHead(answer.statusCode ?? 500, answer.headers).end(Buffer.concat(said));
      });
    });
    onward.end(Buffer.concat(body));
  };
  const server = createServer((incoming, response) => void pass(incoming, response).catch(() => {}));
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return server;
}

for (const when of ['asked', 'done'] as const)
  it(`fault 40: no batch is made twice by a run that is killed ${when === 'asked' ? 'before each step of its life' : 'after each step, whose answer is lost'}`, async () => {
    const emulator = await startEmulator({ batches: { seconds: 0.3 } });
    let onTold: (at: 'asked' | 'done') => boolean = () => false;
    const door = await doorTo(emulator.url, (at) => onTold(at));
    const { port } = door.address() as AddressInfo;
    try {
      const job = (output: string) =>
        work.job(
          {
            service: { operation: 'chat', deployment: 'lm-35-turbo', tier: 'batch' },
            input: { path: work.rows(40) },
            prompt: 'row {{ id }}: {{ note }}',
            prices: { prompt: 1, completion: 2 },
            limits: { batch: { requests: 20, at_once: 2 } },
            output: { path: output },
          },
          `${output}.yaml`,
        );
      const env = {
        PROMPTMILL_BASE_URL: `http://127.0.0.1:${port}`,
        PROMPTMILL_API_KEY: emulator.keys[0] ?? '',
      };
      const whole = await work.call(['run', job(`whole-${when}.csv`)], env);
      expect(whole.code, whole.stderr).toBe(0);
      const before = emulator.stats();
      expect(before.batches.created).toBe(2);
      const path = job(`out-${when}.csv`);
      let kills = 0;
      let isFinished = false;
      for (let step = 1; kills < KILLS; step++) {
        const running = work.start(['run', path], env);
        let left = Math.ceil(step / 3);
        onTold = (at) => {
          if (at !== when || --left > 0) return false;
          running.process.kill('SIGKILL');
          return true;
        };
        const { code, stderr } = await running.ended;
        onTold = () => false;
        if (code !== null) {
          expect(code, stderr).toBe(0);
          isFinished = true;
          break;
        }
        kills++;
      }
      if (!isFinished) {
        const finished = await work.call(['run', path], env);
        expect(finished.code, finished.stderr).toBe(0);
      }
      console.log(`killed ${kills} times`);
      expect(kills).toBeGreaterThan(8);
      const after = emulator.stats();
      expect(after.batches.created - before.batches.created).toBe(2);
      expect(after.by_tier['batch']?.answered).toBe(80);
      const { cost, batches } = work.json(`out-${when}.summary.json`) as Record<string, never>;
      expect(cost).toBe((work.json(`whole-${when}.summary.json`) as Record<string, never>)['cost']);
      expect(batches).toHaveLength(2);
      const bare = (name: string) =>
        work.records(name).map(({ completion_id: _, created: __, ...record }) => record);
      expect(bare(`out-${when}.csv`)).toEqual(bare(`whole-${when}.csv`));
    } finally {
      door.close();
      await emulator.close();
    }
  });
