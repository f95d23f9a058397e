import { type Disturbance, disturbanceNamed } from '../../src/emulator/disturbance.js';
import type { Emulator } from '../../src/emulator/server.js';

/** A disturbance that there is. */
export function named(name: string): Disturbance {
  const found = disturbanceNamed(name);
  if (!found) throw new Error(`no fault ${name}`);
  return found;
}

/** A response, read to its end. */
export interface Response {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at wire bodies of every shape
  readonly body: any;
}

export interface CallOptions {
  readonly deployment?: string;
  readonly version?: string;
  /** The whole target, in place of deployment and version. */
  readonly target?: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
}

/** Calls an emulator with its first key; a string is sent as it is. */
export async function call(
  emulator: Pick<Emulator, 'url' | 'keys'>,
  body: unknown,
  {
    deployment = 'lm-35-turbo-instruct',
    version = '2023-09-15-preview',
    target = `/openai/deployments/${deployment}/completions?api-version=${version}`,
    method = 'POST',
    headers = { 'api-key': emulator.keys[0] },
  }: CallOptions = {},
): Promise<Response> {
  const response = await fetch(emulator.url + target, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(method === 'GET' ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

export const SENTIMENT =
  'Classify the sentiment of the review as positive, negative or neutral.\nReview: I love it!\nSentiment:';

/** The bodies of an event stream, read to its end. */
export async function events(
  emulator: Pick<Emulator, 'url' | 'keys'>,
  body: object,
  target = '/openai/deployments/lm-35-turbo-instruct/completions?api-version=2023-09-15-preview',
  // biome-ignore lint/suspicious/noExplicitAny: tests look at wire bodies of every shape
): Promise<{ readonly type: string | null; readonly bodies: any[]; readonly last: string }> {
  const response = await fetch(emulator.url + target, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${emulator.keys[0]}` },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const data = (await response.text()).split('\n\n').filter((event) => event !== '');
  if (!data.every((event) => event.startsWith('data: '))) throw new Error(`no events: ${data.join()}`);
  return {
    type: response.headers.get('content-type'),
    bodies: data.slice(0, -1).map((event) => JSON.parse(event.slice('data: '.length))),
    last: data.at(-1) ?? '',
  };
}
