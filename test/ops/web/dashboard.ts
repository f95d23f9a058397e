import { request } from 'node:http';
import { pino } from 'pino';
import { startWeb, type Web, type WebOptions } from '../../../src/ops/web/web.js';
import { MemoryBeats } from './beats.js';

export const LOGIN = { user: 'promptmill', password: 'correct horse battery' };
export const AUTHORIZATION = basic(LOGIN.user, LOGIN.password);

/** What a page answered. */
export interface Answer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: string;
}

/** A dashboard of a test, with what runs and workers beat. */
export interface Dashboard extends Web {
  readonly beats: MemoryBeats;
  /** With the login, where the headers say nothing else. */
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  send(method: string, path: string, headers?: Record<string, string>): Promise<Answer>;
}

/** @param options `beats`: what is there at the start is shown at once, what comes later within a second */
export async function startDashboard(
  options: Partial<WebOptions> & { readonly beats?: MemoryBeats } = {},
): Promise<Dashboard> {
  const { beats = new MemoryBeats() } = options;
  const log = pino({ level: 'silent' });
  const web = await startWeb({
    queues: null,
    login: LOGIN,
    port: 0,
    version: '1.2.3',
    log,
    ...options,
    keyValue: beats,
  });
  const send = (method: string, path: string, headers: Record<string, string> = {}): Promise<Answer> =>
    ask(method, web.url + path, { authorization: AUTHORIZATION, ...headers });
  return { ...web, beats, send, get: (path, headers) => send('GET', path, headers) };
}

export function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}

/** One request, with any header: `fetch` would not send a foreign Host. */
export function ask(method: string, url: string, headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        body += piece;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
      );
    });
    sent.on('error', reject);
    sent.end();
  });
}
