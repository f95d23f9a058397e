import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { pick } from '../core/random.js';
import type { Reply } from './refusal.js';

export type Delivery =
  | { readonly kind: 'whole' | 'drip'; readonly reply: Reply }
  | { readonly kind: 'truncate'; readonly reply: Reply; readonly random: () => number }
  | EventStream
  | { readonly kind: 'reset' | 'hang' };

export const whole = (reply: Reply): Delivery => ({ kind: 'whole', reply });

interface EventStream {
  readonly kind: 'stream';
  readonly headers: Readonly<Record<string, string>>;
  readonly events: readonly string[];
  /** Milliseconds until the next events. */
  readonly pause: () => number;
}

const REGION = 'emulated';

/** Milliseconds between two bytes of a dripping answer. */
const DRIP_MS = 1000;

/** @param gone aborts when the caller hangs up or the emulator closes; then this rejects or returns */
export async function deliver(
  delivery: Delivery,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  switch (delivery.kind) {
    case 'whole': {
      const { status, headers, bytes } = wireOf(delivery.reply);
      response.writeHead(status, { ...headers, 'content-length': bytes.length });
      response.end(bytes);
      return;
    }
    case 'stream':
      return stream(delivery, response, gone);
    case 'truncate':
      return truncate(delivery.reply, response, delivery.random);
    case 'drip':
      return drip(delivery.reply, response, gone);
    case 'reset':
      response.socket?.resetAndDestroy();
      return;
    case 'hang':
      if (!gone.aborted) await new Promise((resolve) => gone.addEventListener('abort', resolve));
      return;
  }
}

async function stream(
  { events, pause, headers }: EventStream,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  response.writeHead(200, { ...headers, ...tracing(), 'content-type': EVENT_STREAM });
  for (const event of events) {
    response.write(event);
    await wait(pause(), gone);
  }
  response.end();
}

/** Sends half of a body, cut off in one of three ways (fault 23). */
async function truncate(reply: Reply, response: ServerResponse, random: () => number): Promise<void> {
  const { status, headers, bytes } = wireOf(reply);
  const half = bytes.subarray(0, bytes.length / 2);
  const way = pick(random, ['length', 'chunk', 'close']);
  // Without length and chunks, the end of the connection ends the body, and nothing shows that it came early.
  if (way === 'close') response.useChunkedEncodingByDefault = false;
  response.writeHead(status, way === 'length' ? { ...headers, 'content-length': bytes.length } : headers);
  if (way === 'close') {
    response.end(half);
    return;
  }
  await new Promise((resolve) => response.write(half, resolve));
  response.socket?.destroySoon();
}

/** Sends a body so slowly that only a deadline ends it (fault 25). */
async function drip(reply: Reply, response: ServerResponse, gone: AbortSignal): Promise<void> {
  const { status, headers, bytes } = wireOf(reply);
  response.writeHead(status, { ...headers, 'content-length': bytes.length });
  for (let at = 0; at < bytes.length; at++) {
    response.write(bytes.subarray(at, at + 1));
    await wait(DRIP_MS, gone);
  }
  response.end();
}

const EVENT_STREAM = 'text/event-stream';

function wireOf({ status, body, headers }: Reply) {
  const isText = typeof body === 'string';
  return {
    status,
    headers: { 'content-type': isText ? typeOf(body) : 'application/json', ...tracing(), ...headers },
    bytes: Buffer.from(isText ? body : JSON.stringify(body)),
  };
}

function typeOf(text: string): string {
  if (text.startsWith('data: ')) return EVENT_STREAM;
  return text.startsWith('<') ? 'text/html' : 'text/plain';
}

function tracing(): Record<string, string> {
  return { 'x-request-id': randomUUID(), 'apim-request-id': randomUUID(), 'x-ms-region': REGION };
}

/** How long the emulator waits before it answers. */
export interface Latency {
  /** Milliseconds before the first token. */
  readonly baseMs: number;
  /** Milliseconds for each token of the longest choice. */
  readonly perTokenMs: number;
}

/** Calls of equal size differ by up to this fraction in either direction. */
const JITTER = 0.2;

export function latencyOf(latency: Latency, tokens: number, random: () => number): number {
  return (latency.baseMs + latency.perTokenMs * tokens) * (1 + JITTER * (2 * random() - 1));
}

/** Returns at once for 0 ms. Rejects with the signal's reason when it aborts. */
export async function wait(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await sleep(ms, undefined, { signal });
}
