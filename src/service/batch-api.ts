import { createReadStream } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import type { Dispatcher } from 'undici';
import { isObject, parseJson } from '../core/json.js';
import type { Problem } from '../core/model.js';
import { collectionUrl } from './address.js';
import { LARGEST_ANSWER } from './answer-size.js';
import type { ServiceAccess } from './endpoint.js';
import type { EndpointSpec } from './endpoint-spec.js';
import { type KeyCleaner, keyCleaner, proxyCleaner } from './key-cleaner.js';
import { operationOf } from './operation.js';
import { dispatcherFor } from './post.js';
import { readError } from './response.js';
import { waitHint } from './verdict.js';

/** Files and batches of the service, as its specification has them; servers differ, so all but ids may be missing. */

export type Reply<T> = Ok<T> | No;

interface Ok<T> {
  readonly kind: 'ok';
  readonly value: T;
  /** How long to wait before the next look, in ms; null when the service does not say. */
  readonly retryAfterMs: number | null;
}

export interface No {
  /**
   * `unsure`: it may have been done or not, or the service is away. `busy`: not done, may be done later. `missing`: no
   * such thing. `refused`: this request will never pass. `stop`: no request will, until a person mends the cause.
   */
  readonly kind: 'unsure' | 'busy' | 'missing' | 'refused' | 'stop';
  readonly problem: Problem;
  /** @see Ok.retryAfterMs */
  readonly retryAfterMs: number | null;
}

export interface RemoteFile {
  readonly id: string;
  readonly name: string;
  /** Lower case; the hosted form has `pending` before `processed`. */
  readonly status: string;
}

export interface RemoteBatch {
  readonly id: string;
  readonly inputFile: string;
  /** Lower case, `cancelled` with two l. */
  readonly status: string;
  readonly outputFile: string | null;
  readonly errorFile: string | null;
  readonly counts: BatchCounts | null;
  readonly errors: readonly LineError[];
  readonly metadata: { readonly [name: string]: unknown };
}

interface BatchCounts {
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
}

interface LineError extends Problem {
  /** Of the input file, from 1; null when it is about the whole file. */
  readonly line: number | null;
}

export interface Page<T> {
  readonly entries: readonly T[];
  /** Where the next page begins; null on the last. */
  readonly after: string | null;
}

/** Entries of a page of a list. */
const PAGE = 100;
const CALL_MS = 120_000;
/** For a file of 200 MB on a slow line. */
const FILE_MS = 60 * 60_000;
/** Without a byte in between. */
const SILENT_MS = 5 * 60_000;

interface Call<T> {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Behind the address of all files or batches. */
  readonly path: string;
  readonly query?: { readonly [name: string]: string };
  readonly type?: string;
  /** Made again for each key that is tried. */
  readonly body?: () => { readonly content: string | AsyncIterable<Buffer>; readonly bytes: number };
  readonly ms?: number;
  /** Null when the body is not what was asked for. */
  read(body: Dispatcher.ResponseData['body'], clean: KeyCleaner): Promise<T | null>;
}

/** Makes each call once. A second key is tried when the first is refused. */
export class BatchApi {
  readonly #dispatcher: Dispatcher;
  readonly #over = new AbortController();

  /** @throws UsageError when the address cannot be used */
  constructor(
    private readonly access: ServiceAccess,
    private readonly spec: EndpointSpec,
  ) {
    this.#dispatcher = dispatcherFor(
      new URL(collectionUrl(access.address, spec, 'files')),
      access.address.proxy ?? null,
    );
  }

  /** @param name by which it is found again */
  upload(path: string, name: string, size: number): Promise<Reply<RemoteFile>> {
    const edge = '----promptmill-batch-input';
    const part = (field: string, more = ''): string =>
      `--${edge}\r\ncontent-disposition: form-data; name="${field}"${more}\r\n`;
    const head = Buffer.from(
      `${part('purpose')}\r\nbatch\r\n${part('file', `; filename="${name}"`)}content-type: application/jsonl\r\n\r\n`,
    );
    const tail = Buffer.from(`\r\n--${edge}--\r\n`);
    return this.#call('files', {
      method: 'POST',
      path: '',
      type: `multipart/form-data; boundary=${edge}`,
      body: () => ({ content: joined(head, path, tail), bytes: head.length + size + tail.length }),
      ms: FILE_MS,
      read: async (body, clean) => fileOf(await json(body, clean)),
    });
  }

  file(id: string): Promise<Reply<RemoteFile>> {
    return this.#call('files', {
      method: 'GET',
      path: `/${id}`,
      read: async (...body) => fileOf(await json(...body)),
    });
  }

  files(after: string | null): Promise<Reply<Page<RemoteFile>>> {
    return this.#list('files', { purpose: 'batch' }, after, fileOf);
  }

  removeFile(id: string): Promise<Reply<true>> {
    return this.#call<true>('files', {
      method: 'DELETE',
      path: `/${id}`,
      read: async (body) => {
        await body.dump();
        return true;
      },
    });
  }

  create(inputFile: string, metadata: { readonly [name: string]: string }): Promise<Reply<RemoteBatch>> {
    const content = JSON.stringify({
      input_file_id: inputFile,
      endpoint: lineUrl(this.spec),
      completion_window: '24h',
      metadata,
    });
    return this.#call('batches', {
      ...{ method: 'POST', path: '', type: 'application/json' },
      body: () => ({ content, bytes: Buffer.byteLength(content) }),
      read: async (...body) => batchOf(await json(...body)),
    });
  }

  batch(id: string): Promise<Reply<RemoteBatch>> {
    return this.#call('batches', {
      method: 'GET',
      path: `/${id}`,
      read: async (...body) => batchOf(await json(...body)),
    });
  }

  /** Newest first. */
  batches(after: string | null): Promise<Reply<Page<RemoteBatch>>> {
    return this.#list('batches', {}, after, batchOf);
  }

  cancel(id: string): Promise<Reply<RemoteBatch>> {
    const read: Call<RemoteBatch>['read'] = async (...body) => batchOf(await json(...body));
    return this.#call('batches', { method: 'POST', path: `/${id}/cancel`, read });
  }

  /** @param line takes each line, without the key if it was in it; it waits for what takes time; false: no more */
  content(id: string, line: (text: string) => Promise<boolean>): Promise<Reply<true>> {
    return this.#call<true>('files', {
      ...{ method: 'GET', path: `/${id}/content`, ms: FILE_MS },
      read: async (body, clean) => {
        for await (const text of linesOf(body)) if (!(await line(clean(text)))) break;
        return true;
      },
    });
  }

  /** Calls in flight end as `unsure`. */
  async close(): Promise<void> {
    this.#over.abort();
    await this.#dispatcher.destroy();
  }

  #list<T>(
    of: 'files' | 'batches',
    query: { readonly [name: string]: string },
    after: string | null,
    entry: (value: unknown) => T | null,
  ): Promise<Reply<Page<T>>> {
    const asked = { ...query, limit: String(PAGE), ...(after !== null && { after }) };
    return this.#call(of, {
      ...{ method: 'GET', path: '', query: asked },
      read: async (...body) => pageOf(await json(...body), entry),
    });
  }

  async #call<T>(of: 'files' | 'batches', call: Call<T>): Promise<Reply<T>> {
    const { keys } = this.access;
    let refused: No = { kind: 'stop', problem: NO_KEY, retryAfterMs: null };
    for (let key = keys.current(); key !== null; key = keys.after(key)) {
      const reply = await this.#once(of, call, key);
      if (reply !== 'unauthorized') {
        if (reply.kind === 'ok') keys.took(key);
        return reply;
      }
      keys.refuse(key);
      refused = {
        ...refused,
        problem: {
          code: 'unauthorized',
          message: `the service refuses every key for its ${of} (HTTP 401). Set ${keys.variable} to a key of this resource.`,
        },
      };
    }
    return refused;
  }

  async #once<T>(of: 'files' | 'batches', call: Call<T>, key: string): Promise<Reply<T> | 'unauthorized'> {
    const { address } = this.access;
    const url = new URL(collectionUrl(address, this.spec, of));
    url.pathname += call.path;
    for (const [name, value] of Object.entries(call.query ?? {})) url.searchParams.set(name, value);
    const made = call.body?.();
    const cleanKey = keyCleaner(key);
    const cleanOfProxy = proxyCleaner(address.proxy?.user ?? '');
    const clean: KeyCleaner = (text) => cleanOfProxy(cleanKey(text));
    let retryAfterMs: number | null = null;
    try {
      const {
        statusCode: status,
        headers,
        body,
      } = await this.#dispatcher.request({
        ...{ origin: url.origin, path: `${url.pathname}${url.search}`, method: call.method },
        headers: {
          ...(this.spec.style === 'openai' ? { authorization: `Bearer ${key}` } : { 'api-key': key }),
          ...(call.type !== undefined && { 'content-type': call.type }),
          ...(made !== undefined && { 'content-length': String(made.bytes) }),
          ...{ accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'promptmill' },
        },
        ...(made !== undefined && { body: made.content as Dispatcher.DispatchOptions['body'] & {} }),
        ...{ headersTimeout: call.ms ?? CALL_MS, bodyTimeout: SILENT_MS },
        signal: AbortSignal.any([this.#over.signal, AbortSignal.timeout(call.ms ?? CALL_MS)]),
      });
      body.on('error', () => {});
      const text = (name: string): { readonly [name: string]: string } => {
        const value = headers[name];
        return typeof value === 'string' ? { [name]: value } : {};
      };
      const hints = { ...text('retry-after'), ...text('retry-after-ms') };
      retryAfterMs = waitHint(hints, '', Date.now());
      if (status === 401) {
        await body.dump();
        return 'unauthorized';
      }
      if (status >= 200 && status < 300) {
        const value = await call.read(body, clean);
        if (value !== null) return { kind: 'ok', value, retryAfterMs };
        return no(
          'unsure',
          'not_json',
          `the service answers ${call.method} /${of} with something else`,
          retryAfterMs,
        );
      }
      const { code, message } = readError(status, clean(await limited(body)));
      return no(
        kindOf(status, call),
        code === '' ? `http_${status}` : code,
        `${message} (HTTP ${status} at /${of})`,
        retryAfterMs,
      );
    } catch (error) {
      const what = error instanceof TooLong ? error.message : `no whole answer from /${of}`;
      return no('unsure', 'connection_failed', what, retryAfterMs);
    }
  }
}

const no = (kind: No['kind'], code: string, message: string, retryAfterMs: number | null): No => ({
  ...{ kind, retryAfterMs },
  problem: { code, message },
});

const NO_KEY: Problem = { code: 'unauthorized', message: 'no key of the service is left' };

/** A 404 of something that has an id is about that; any other is about the address. */
function kindOf(status: number, { path }: Pick<Call<unknown>, 'path'>): No['kind'] {
  if (status === 429 || status === 409 || status === 425) return 'busy';
  if (status >= 500 || status === 408) return 'unsure';
  if (status === 404) return path === '' ? 'stop' : 'missing';
  return status === 400 || status === 413 || status === 422 ? 'refused' : 'stop';
}

/** Of a line in an input file, and of the batch. */
export function lineUrl(spec: EndpointSpec): string {
  const { path } = operationOf(spec);
  // The hosted form before its `v1`.
  const isDated = spec.style === 'deployments' && /^\d{4}-\d{2}-\d{2}/.test(spec.apiVersion);
  return isDated ? `/${path}` : `/v1/${path}`;
}

async function* joined(head: Buffer, path: string, tail: Buffer): AsyncGenerator<Buffer> {
  yield head;
  yield* createReadStream(path, { highWaterMark: 256 * 1024 });
  yield tail;
}

class TooLong extends Error {}

/** Bodies that are no files; larger ones are cut, and then no JSON. */
const MOST = 4 * 1024 * 1024;

async function limited(body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > MOST) break;
  }
  return Buffer.concat(chunks).toString('utf8');
}

const json = async (body: Dispatcher.ResponseData['body'], clean: KeyCleaner): Promise<unknown> =>
  parseJson(clean(await limited(body)));

async function* linesOf(body: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  for await (const chunk of body) {
    const lines = (rest + decoder.write(chunk)).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > 2 * LARGEST_ANSWER) throw new TooLong('a result line is too long');
    yield* lines;
  }
  rest += decoder.end();
  if (rest !== '') yield rest;
}

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);
const amount = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
/** It becomes a part of a path. */
const idOf = (value: unknown): string | null =>
  typeof value === 'string' && /^[\w.:-]{1,200}$/.test(value) && !/^\.+$/.test(value) ? value : null;

function fileOf(value: unknown): RemoteFile | null {
  if (!isObject(value)) return null;
  const id = idOf(value['id']);
  if (id === null) return null;
  const status = (text(value['status']) ?? 'processed').toLowerCase();
  return { id, name: text(value['filename']) ?? '', status };
}

function batchOf(value: unknown): RemoteBatch | null {
  if (!isObject(value)) return null;
  const { id: said, status, request_counts: counts, errors, metadata } = value;
  const id = idOf(said);
  if (id === null || typeof status !== 'string') return null;
  const list = isObject(errors) && Array.isArray(errors['data']) ? errors['data'].filter(isObject) : [];
  return {
    id,
    inputFile: text(value['input_file_id']) ?? '',
    status: status.toLowerCase().replace(/^cancel(l?)(ed|ing)$/, 'cancell$2'),
    outputFile: idOf(value['output_file_id']),
    errorFile: idOf(value['error_file_id']),
    counts: isObject(counts) ? countsOf(counts) : null,
    errors: list.slice(0, 1_000).map(({ code, message, line }) => ({
      code: text(code) ?? 'invalid_request',
      message: (text(message) ?? 'no message').slice(0, 500),
      line: amount(line),
    })),
    metadata: isObject(metadata) ? metadata : {},
  };
}

function countsOf({ total, completed, failed }: { readonly [name: string]: unknown }): BatchCounts | null {
  const [all, done, not] = [amount(total), amount(completed), amount(failed)];
  return all === null || done === null ? null : { total: all, completed: done, failed: not ?? 0 };
}

function pageOf<T>(value: unknown, entry: (value: unknown) => T | null): Page<T> | null {
  if (!isObject(value) || !Array.isArray(value['data'])) return null;
  const { data } = value;
  const last: unknown = data.at(-1);
  const after = value['has_more'] === true && isObject(last) ? idOf(last['id']) : null;
  return { entries: data.flatMap((each) => entry(each) ?? []), after };
}
