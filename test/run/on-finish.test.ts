import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { summarise } from '../../src/account/summary.js';
import { emptyTally } from '../../src/account/tally.js';
import { jobSchema } from '../../src/config/job-schema.js';
import type { HaltReason } from '../../src/core/halt.js';
import { onFinish, readyHooks } from '../../src/run/on-finish.js';
import { DETAILS } from '../account/summary-parts.js';
import { Workplace } from '../support/promptmill.js';
import { startProxy } from '../support/proxy.js';

/** A receiver of POSTs on this machine. */
interface Receiver {
  readonly url: string;
  readonly bodies: string[];
  close(): Promise<void>;
}

async function startReceiver(statuses: readonly number[]): Promise<Receiver> {
  const bodies: string[] = [];
  const server: Server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      bodies.push(body);
      const status = statuses[bodies.length - 1] ?? 200;
      response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return {
    url: `http://127.0.0.1:${address.port}/a-secret-path`,
    bodies,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A program that writes what it got to a file, which its first argument names. */
const NOTE = `
  const { readFileSync, writeFileSync } = require('node:fs');
  const stdin = readFileSync(0, 'utf8');
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('PROMPTMILL_')));
  writeFileSync(process.argv[1], JSON.stringify({ env, summary: JSON.parse(stdin), args: process.argv.slice(2) }));
`;

const SUMMARY = summarise({
  run: '20261121-020000-4f9c1a',
  job: 'the-job',
  deployment: 'd',
  api_version: 'v',
  emulated: false,
  input: { path: 'rows.csv', sha256: '0', rows: 0 },
  output: 'out.csv',
  started_at: '2026-11-21T02:00:00.000Z',
  finished_at: '2026-11-21T02:00:01.000Z',
  duration_s: 1,
  stopped: null,
  missed: null,
  tally: emptyTally(),
  calls: { sent: 0, retried: 0, rate_limited: 0, repeated: 0 },
  prices: null,
  details: DETAILS,
});
const { details: _, ...FIGURES } = SUMMARY;
const FILES = {
  output: 'out.csv',
  part: 'out.csv.part',
  rewritten: 'out.csv.part.tmp',
  manifest: 'out.csv.run.json',
  summary: 'out.summary.json',
  review: 'out.review.csv',
  report: 'out.report.html',
  errors: 'out.errors.jsonl',
};

describe('on_finish', () => {
  let folder: string;
  const closing: (() => Promise<void>)[] = [];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'promptmill-hooks-'));
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function receiver(...statuses: readonly number[]): Promise<Receiver> {
    const started = await startReceiver(statuses);
    closing.push(started.close);
    return started;
  }

  /** Does what a job file asks for. @returns what it warned of */
  async function finish(
    hooks: object,
    env: NodeJS.ProcessEnv = {},
    halted: HaltReason | null = null,
    signal = new AbortController().signal,
  ): Promise<string[]> {
    const job = jobSchema.parse({
      service: { deployment: 'd' },
      input: { path: 'rows.csv' },
      on_finish: hooks,
    });
    const warnings: string[] = [];
    const result = {
      summary: SUMMARY,
      halted,
      files: FILES,
      review: null,
      report: null,
      beyond: 0,
      kept: 0,
    };
    await onFinish(
      readyHooks(job, (name) => env[name]),
      result,
      {
        env: { PATH: process.env['PATH'], ...env },
        onWarning: (message) => warnings.push(message),
        signal,
        times: { postMs: 30_000, againMs: 1 },
      },
    );
    return warnings;
  }

  const note = (): unknown => JSON.parse(readFileSync(join(folder, 'note.json'), 'utf8'));

  it('starts a command with the summary and where things are, without a shell and without the keys', async () => {
    const command = [process.execPath, '-e', NOTE, join(folder, 'note.json'), 'a b', '$HOME'];
    const keys = {
      PROMPTMILL_API_KEY: 'one',
      PROMPTMILL_API_KEY_2: 'two',
      PROMPTMILL_DASHBOARD_PASSWORD: 'three',
      PROMPTMILL_QUEUE: 'redis://:four@127.0.0.1',
    };
    expect(await finish({ command }, { ...keys, PROMPTMILL_STATE_DIR: 'state' })).toEqual([]);
    expect(note()).toEqual({
      summary: FIGURES,
      args: ['a b', '$HOME'],
      env: {
        PROMPTMILL_STATE_DIR: 'state',
        PROMPTMILL_STATUS: 'finished',
        PROMPTMILL_EXIT_CODE: '0',
        PROMPTMILL_JOB: 'the-job',
        PROMPTMILL_RUN: SUMMARY.run,
        PROMPTMILL_OUTPUT: expect.stringMatching(/^\/.*\/out\.csv$/),
        PROMPTMILL_SUMMARY: expect.stringMatching(/^\/.*\/out\.summary\.json$/),
      },
    });
  });

  it('tells of a run that stopped early, and not of one that a signal interrupted', async () => {
    const command = [process.execPath, '-e', NOTE, join(folder, 'note.json')];
    await finish({ command }, {}, { kind: 'signal', signal: 'SIGTERM' });
    expect(existsSync(join(folder, 'note.json'))).toBe(false);
    await finish({ command }, {}, { kind: 'stop', problem: { code: 'c', message: 'm' } });
    expect(note()).toMatchObject({
      env: { PROMPTMILL_STATUS: 'stopped', PROMPTMILL_EXIT_CODE: '3', PROMPTMILL_SUMMARY: '' },
    });
  });

  it('posts the summary, once more when that was refused', async () => {
    const { url, bodies } = await receiver(503);
    expect(await finish({ post: 'HOOK_URL' }, { HOOK_URL: url })).toEqual([]);
    expect(bodies.map((body) => JSON.parse(body))).toEqual([FIGURES, FIGURES]);
  });

  it('follows no redirect, and its warning has not the address', async () => {
    const { url, bodies } = await receiver(302, 302);
    const warnings = await finish({ post: 'HOOK_URL' }, { HOOK_URL: url });
    expect(warnings).toEqual(['on_finish.post: the address in HOOK_URL answered with 302']);
    expect(bodies).toHaveLength(2);
  });

  it('goes through the proxy, by its scheme, and names no password of it', async () => {
    const { url, bodies } = await receiver();
    const proxy = await startProxy({ user: 'me:secret' });
    closing.push(proxy.close);
    const env = { HOOK_URL: url, HTTP_PROXY: `http://me:secret@${proxy.host}`, HTTPS_PROXY: proxy.host };
    expect(await finish({ post: 'HOOK_URL' }, env)).toEqual([]);
    expect(proxy.asked).toEqual([`POST ${url}`]);
    expect(await finish({ post: 'HOOK_URL' }, { ...env, NO_PROXY: '127.0.0.1' })).toEqual([]);
    expect(proxy.asked).toHaveLength(1);
    expect(bodies).toHaveLength(2);

    const secure = url.replace('http:', 'https:');
    const [warning] = await finish({ post: 'HOOK_URL' }, { ...env, HOOK_URL: secure });
    expect(warning).toContain(`did not answer`);
    expect(warning).toContain(`through the proxy http://${proxy.host}`);
    expect(warning).not.toContain('secret');
    expect(proxy.asked[1]).toBe(`CONNECT ${new URL(secure).host}`);
  });

  it('warns of an address where nobody listens', async () => {
    const { url, close } = await receiver();
    closing.length = 0;
    await close();
    const warnings = await finish({ post: 'HOOK_URL' }, { HOOK_URL: url });
    expect(warnings).toEqual(['on_finish.post: the address in HOOK_URL did not answer (ECONNREFUSED)']);
  });

  it('ends a command that is over its time', async () => {
    expect(await finish({ command: ['sleep', '1000'], timeout: '1s' })).toEqual([
      'on_finish.command: ended after 1 s without an end of its own',
    ]);
  });

  it('ends a command when the process has to leave, with what it started', async () => {
    const server = createTcpServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(async () => {
      server.close();
      await once(server, 'close');
    });
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const connected = once(server, 'connection');
    // The connection ends with the child of the command.
    const script = `'${process.execPath}' -e "require('node:net').connect(${port}, '127.0.0.1')" & wait`;
    const leave = new AbortController();
    const finished = finish({ command: ['sh', '-c', script] }, {}, null, leave.signal);
    const [socket] = await connected;
    const gone = once(socket.on('error', () => {}).resume(), 'close');
    leave.abort();
    expect(await finished).toEqual(['on_finish.command: ended, because promptmill has to leave']);
    await gone;
  });

  it('warns of a command that fails', async () => {
    expect(await finish({ command: ['sh', '-c', 'exit 7'] })).toEqual(['on_finish.command: exit code 7']);
  });

  it('fault 106: refuses a program that is not there, or may not be executed, before anything is sent', async () => {
    await expect(finish({ command: ['./no-such-program'] })).rejects.toThrow(
      /there is no program \/.*\/no-such-program$/,
    );
    await expect(finish({ command: ['no-such-program'] })).rejects.toThrow(
      'on_finish.command: there is no program no-such-program in the PATH',
    );
    await expect(finish({ command: ['./package.json'] })).rejects.toThrow(
      /\/package\.json may not be executed$/,
    );
  });

  it('refuses an address that is not set, or that is none, without showing it', async () => {
    await expect(finish({ post: 'HOOK_URL' })).rejects.toThrow(
      'the environment variable HOOK_URL is not set',
    );
    await expect(finish({ post: 'HOOK_URL' }, { HOOK_URL: 'file:///secret' })).rejects.toThrow(
      'on_finish.post: the environment variable HOOK_URL is not an http or https address',
    );
  });
});

describe('promptmill run with on_finish', () => {
  it('does it when the run has ended, and keeps standard output for data', async () => {
    const work = new Workplace();
    try {
      const job = work.job({
        input: { path: work.rows(5) },
        output: { path: 'out.csv' },
        on_finish: { command: ['sh', '-c', 'cat "$PROMPTMILL_SUMMARY"; cat > stdin.json; exit 7'] },
      });
      const { code, stdout, stderr } = await work.run(['run', job, '--emulate', '--quiet']);
      expect(code, stderr).toBe(0);
      expect(stdout).toBe('');
      expect(stderr).toContain('on_finish.command: exit code 7');
      expect(stderr).toContain(work.read('out.emulated.summary.json'));
      // The figures; the prompt and the settings stay in the folder.
      const { details, ...figures } = work.json('out.emulated.summary.json');
      expect(details).toMatchObject({ v: 1, prompt: 'row {{ id }}', input_bytes: expect.any(Number) });
      expect(work.json('stdin.json')).toEqual(figures);
    } finally {
      work.remove();
    }
  });
});
