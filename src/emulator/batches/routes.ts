import { createReadStream } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import * as z from 'zod';
import { parseJson } from '../../core/json.js';
import { type Delivery, deliver, whole } from '../delivery.js';
import type { Body } from '../operation.js';
import type { Service } from '../options.js';
import { invalidRequest, Refusal, resourceNotFound, type Style, serverError } from '../refusal.js';
import { checked, METADATA, readBody } from '../request.js';
import { checkKey, checkPlainKey, pathOf, queryOf, versionOf } from '../routes.js';
import { Batches, type Order } from './batches.js';
import { Files, fileBody, type StoredFile, upload } from './files.js';

/** Files and batches, as an emulator serves them. */
export interface BatchService {
  /** @returns false for paths that are neither */
  serve(request: IncomingMessage, response: ServerResponse, gone: AbortSignal): Promise<boolean>;
  close(): Promise<void>;
}

interface Call {
  readonly style: Style;
  /** `POST files`, `GET batches ID`, `GET files ID content`, … */
  readonly what: string;
  readonly id: string;
}

interface Download {
  readonly file: StoredFile;
  /** Whether it ends after half of its bytes. */
  readonly isCut: boolean;
}

export function batchService(service: Service): BatchService {
  const files = new Files();
  const batches = new Batches(service, files);
  const { batchFault } = service;
  let calls = 0;
  /** Batches that take seconds are worth another look before the usual ones. */
  const soon = () => ({
    'retry-after-ms': String(Math.ceil(Math.min(60_000, service.batches.seconds * LOOK_MS))),
  });

  /** @throws Refusal */
  async function answered(call: Call, request: IncomingMessage): Promise<Delivery | Download> {
    const { style, what, id } = call;
    const query = queryOf(request.url);
    const version = style === 'plain' ? null : query.get('api-version');
    if (style === 'plain') checkPlainKey(request.headers, service);
    else {
      checkKey(request.headers, service);
      versionOf(version, true);
    }
    const number = ++calls;
    if (batchFault('unavailable', number)) return whole({ status: 503, body: 'Service Unavailable' });
    const now = service.now();
    switch (what) {
      case 'POST files': {
        const pendingMs = style === 'plain' ? 0 : service.batches.seconds * PENDING_MS;
        const body = request.iterator({ destroyOnReturn: false });
        const times = { createdAt: now, readyAt: now + pendingMs };
        const file = await upload(files, request.headers['content-type'], body, times);
        return sent(fileBody(file, now), soon());
      }
      case 'GET files':
        return sent(
          page(files.all, query, LONGEST.files, (file) => fileBody(file, now)),
          soon(),
        );
      case 'GET files ID':
        return sent(fileBody(files.get(id), now), soon());
      case 'DELETE files ID':
        await files.delete(id, batches.isInputOfRunning(id));
        return sent({ id, object: 'file', deleted: true });
      case 'GET files ID content':
        return { file: files.get(id), isCut: batchFault('cut', number) };
      case 'POST batches': {
        const batch = batches.create(orderOf(parseJson(await readBody(request)), style, version));
        return batchFault('lost-create', batch.number)
          ? { kind: 'reset' }
          : sent(batches.body(batch, batch.createdAt), soon());
      }
      case 'GET batches': {
        await Promise.all(batches.all.map((batch) => batches.look(batch)));
        return sent(
          page(batches.all, query, LONGEST.batches, (batch) => batches.body(batch)),
          soon(),
        );
      }
      case 'GET batches ID':
        return sent(await batches.look(batches.get(id)), soon());
      case 'POST batches ID cancel':
        return sent(await batches.cancel(batches.get(id)), soon());
      default:
        throw resourceNotFound();
    }
  }

  /** @throws Refusal */
  function orderOf(body: unknown, style: Style, version: string | null): Order {
    const { input_file_id: inputId, endpoint, metadata = null } = checked(ORDER, body, 'batches');
    const prefix = style === 'plain' ? '/v1' : '';
    const called = service.operations.find(({ path }) => endpoint === `${prefix}/${path}`);
    if (!called) {
      const known = service.operations.map(({ path }) => `'${prefix}/${path}'`).join(', ');
      throw invalidRequest(`'${endpoint}' is not one of [${known}] - 'endpoint'`, 'endpoint');
    }
    const input = files.get(inputId);
    if (input.readyAt > service.now())
      throw invalidRequest(`The file ${inputId} is not processed yet.`, 'input_file_id');
    return { input, endpoint, called, style, version, metadata };
  }

  return {
    async serve(request, response, gone) {
      const call = callOf(request, service);
      if (call === null) return false;
      const answer = await answered(call, request).catch((error: unknown) =>
        whole(error instanceof Refusal ? error.reply : serverError(error)),
      );
      if (gone.aborted) return true;
      if ('file' in answer) await download(answer, response);
      else await deliver(answer, response, gone);
      return true;
    },
    close: () => files.close(),
  };
}

/** Milliseconds that an uploaded file is pending, for each second that a batch takes. */
const PENDING_MS = 100;

/** Milliseconds to the next look, for each second that a batch takes. */
const LOOK_MS = 250;

const ORDER = z.strictObject({
  input_file_id: z.string(),
  endpoint: z.string(),
  completion_window: z.literal('24h'),
  metadata: METADATA,
});

const sent = (body: Body, headers: Readonly<Record<string, string>> = {}): Delivery =>
  whole({ status: 200, body, headers });

function callOf({ method, url }: IncomingMessage, { segment }: Service): Call | null {
  const [, first = '', kind = '', id = '', action, ...more] = pathOf(url).split('/');
  const isKnown = (first === 'v1' || first === segment) && (kind === 'files' || kind === 'batches');
  if (!isKnown || more.length > 0) return null;
  const what = [method, kind, id === '' ? [] : 'ID', action ?? []].flat().join(' ');
  return { style: first === 'v1' ? 'plain' : 'service', what, id };
}

/** Most entries of a page. */
const LONGEST = { files: 10_000, batches: 100 };
const USUAL_PAGE = 20;

/** @throws Refusal */
function page<T extends { readonly id: string }>(
  all: readonly T[],
  query: URLSearchParams,
  most: number,
  body: (one: T) => Body,
): Body {
  const limit = Number(query.get('limit') ?? USUAL_PAGE);
  if (!Number.isInteger(limit) || limit < 1 || limit > most)
    throw invalidRequest(`'${query.get('limit')}' is not valid - 'limit'`, 'limit');
  const after = query.get('after');
  const before = after === null ? -1 : all.findIndex(({ id }) => id === after);
  if (after !== null && before < 0) throw invalidRequest(`'${after}' is not valid - 'after'`, 'after');
  const listed = all.slice(before + 1, before + 1 + limit);
  return {
    object: 'list',
    data: listed.map(body),
    first_id: listed.at(0)?.id ?? null,
    last_id: listed.at(-1)?.id ?? null,
    has_more: before + 1 + limit < all.length,
  };
}

async function download({ file, isCut }: Download, response: ServerResponse): Promise<void> {
  const { path, bytes } = file;
  response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytes });
  try {
    const sent = createReadStream(path, isCut ? { end: Math.floor(bytes / 2) } : {});
    await pipeline(sent, response, { end: !isCut });
  } catch {
    // The caller has hung up.
  }
  if (isCut) response.socket?.destroySoon();
}
