import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { rowsOf, Workbench } from './workbench.js';

const bench = new Workbench();
const servers: { close(): void }[] = [];
afterAll(async () => {
  for (const server of servers) server.close();
  await bench.rest();
});

const KEY = 'a-key+that/must.not=reach-a-disk';

const completion = (text: string) => ({
  ...{ id: 'x', object: 'chat.completion', created: 1, model: 'lm-35-turbo' },
  choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
});

const resultLine = (id: unknown, text: string): string =>
  `${JSON.stringify({ id: 'r', custom_id: id, response: { status_code: 200, body: completion(text) }, error: null })}\n`;

type Answer = (path: string, response: ServerResponse, method: string) => boolean;

/** A service of the openai form that ends each batch at once. @param answer true where it has answered itself */
async function serviceWith(output: (response: ServerResponse) => void, answer: Answer = () => false) {
  const asked: string[] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    for await (const _ of request);
    const { method = '', url = '' } = request;
    const path = url.replace(/\?.*/, '');
    asked.push(`${method} ${path}`);
    const say = (body: object): void => {
      response.writeHead(200, { 'content-type': 'application/json', 'retry-after-ms': '20' });
      response.end(JSON.stringify(body));
    };
    if (answer(path, response, method)) return;
    const batch = { id: 'batch_1', status: 'completed', input_file_id: 'in', output_file_id: 'out' };
    if (path.endsWith('/chat/completions')) say(completion('called'));
    else if (path.endsWith('/content')) output(response);
    else if (method === 'DELETE') say({ deleted: true });
    else if (method === 'GET' && /\/(files|batches)$/.test(path)) say({ data: [], has_more: false });
    else if (path.includes('/files')) say({ id: 'in', filename: 'x', bytes: 1, status: 'processed' });
    else say(batch);
  };
  const server = createServer((request, response) => void serve(request, response).catch(() => {}));
  servers.push({
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const emulator = { url: `http://127.0.0.1:${port}`, keys: [KEY, KEY] as const };
  const job = bench.begin(emulator, {
    service: { style: 'openai' },
    limits: { give_up_after: '2s', attempts: 1 },
  });
  return { asked, job };
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));

describe.concurrent('a service that sends nonsense', () => {
  it('as results: rows that are not ours, twice the same, no JSON, numbers and traps as ids', async () => {
    const { job } = await serviceWith((response) => {
      const ids = ['0', '99', '-1', '1.5', '2e0', '', null, 'constructor', '__proto__', '../1'];
      for (const id of ids) response.write(resultLine(id, 'foreign'));
      response.write('<html>\n\n\u0000\n{"custom_id":"1"}\n[1]\n{"custom_id":"1","response":[]}\n');
      response.write(`{"custom_id":"1","response":{"status_code":"200","body":7}}\n`);
      for (const text of ['first', 'second']) response.write(resultLine('1', text));
      response.write(resultLine(2, 'two'));
      response.end(resultLine('3', 'cut').slice(0, 40));
    });
    const { rows, stopped } = await job.go(rowsOf(3));
    expect([stopped, rows.completed]).toEqual([null, 3]);
    expect(job.lines().map(({ text }) => text)).toEqual(['first', 'two', 'called']);
  });

  it('as results that break off half-way: they are read again', async () => {
    const text = resultLine('1', 'one') + resultLine('2', 'two');
    let downloads = 0;
    const { job } = await serviceWith((response) => {
      response.writeHead(200, { 'content-length': String(text.length) });
      downloads += 1;
      if (downloads > 1) response.end(text);
      else response.write(text.slice(0, text.length / 2), () => response.destroy());
    });
    const { stopped, calls } = await job.go(rowsOf(2));
    expect([stopped, calls.sent, downloads]).toEqual([null, 0, 2]);
    expect(job.lines().map(({ text }) => text)).toEqual(['one', 'two']);
  });

  it('as results: the key, which reaches no disk', async () => {
    let seen: string[] = [];
    const { job } = await serviceWith(
      (response) => {
        response.write(resultLine('1', `you sent ${KEY}`));
        response.end(resultLine('2', `you sent ${encodeURIComponent(KEY)}`));
      },
      (path, response, method) => {
        if (method !== 'DELETE') return false;
        // The results are on the disk by now.
        seen = filesIn(job.state).filter((file) => readFileSync(file, 'latin1').includes('you sent'));
        response.end(`{"key":"${KEY}"}`);
        return path === '';
      },
    );
    await job.go(rowsOf(2));
    expect(seen.length).toBeGreaterThan(0);
    expect(job.lines().map(({ text }) => text)).toEqual(['you sent [key]', 'you sent [key]']);
    const known = [KEY, encodeURIComponent(KEY)];
    for (const file of [...filesIn(job.state), job.output])
      for (const key of known) expect(readFileSync(file, 'latin1'), file).not.toContain(key);
    for (const key of known) expect(job.said.join('\n')).not.toContain(key);
  });

  it('as results that never end: what is there is taken', async () => {
    let size = 0;
    const { job } = await serviceWith((response) => {
      response.write(resultLine('1', 'one'));
      const line = resultLine('77', 'x'.repeat(1_000));
      const more = (): void => {
        size += line.length;
        if (!response.destroyed) response.write(line, () => setImmediate(more));
      };
      more();
    });
    const { rows, stopped } = await job.go(rowsOf(3));
    expect([stopped, rows.completed]).toEqual([null, 3]);
    expect(job.lines().map(({ text }) => text)).toEqual(['one', 'called', 'called']);
    expect(size).toBeLessThan(50_000_000);
  });

  for (const id of ['../../files/x', 'a/b', '..', 'x?y=1', 'x\r\ny', 7, null, 'x'.repeat(1_000)])
    it(`as the id of a batch: ${JSON.stringify(id).slice(0, 20)}, and the run stops`, async () => {
      const { job, asked } = await serviceWith(
        (response) => response.end(),
        (path, response, method) => {
          if (method !== 'POST' || !path.endsWith('/batches')) return false;
          response.writeHead(200, { 'retry-after-ms': '100' });
          response.end(JSON.stringify({ id, status: 'completed', input_file_id: 'in' }));
          return true;
        },
      );
      const { stopped } = await job.go(rowsOf(2));
      expect(stopped).toMatch(/^service_unavailable: /);
      const allowed = /^(GET|POST|DELETE) \/v1\/(files|batches)(\/in)?$/;
      expect(asked.filter((each) => !allowed.test(each))).toEqual([]);
    });

  it('as 200 with HTML for everything, and the run stops', async () => {
    const { job } = await serviceWith(
      (response) => response.end(),
      (_, response) => {
        response.writeHead(200, { 'content-type': 'text/html', 'retry-after-ms': '100' });
        response.end('<html>Sign in</html>');
        return true;
      },
    );
    const { stopped } = await job.go(rowsOf(2));
    expect(stopped).toMatch(/^service_unavailable: .*answers GET \/files with something else/);
    expect(statSync(job.state).isDirectory()).toBe(true);
  });
});
