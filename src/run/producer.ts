import type { Outcome, Row } from '../model.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import type { ChunkQueue } from '../queue/chunk-queue.js';
import type { RowKeys } from '../reuse/keys.js';
import type { Source } from '../reuse/outcome.js';
import type { Reuse } from '../reuse/reuse.js';
import type { Canary } from './canary.js';
import type { Plan } from './plan.js';
import { expected, type Window, type WindowChunk } from './window.js';

/** A chunk is closed when its rows pass this size, whatever its number of rows: long prompts stay small entries. */
export const CHUNK_BYTES = 1024 * 1024;
/** Chunks that share one write to the queue. */
const BATCH = 16;

type RequestOf = Plan['requestOf'];
type ToChunk = ReturnType<Plan['toChunk']>;

interface ProducerParts {
  readonly rows: AsyncIterable<Row>;
  /** Rows up to this number are on disk already. */
  readonly committed: number;
  /** Rows after this number are left out (`--limit`). */
  readonly total: number;
  readonly chunkSize: number;
  readonly requestOf: RequestOf;
  readonly toChunk: ToChunk;
  /** Says which rows need not be sent; null for a job that reuses nothing. */
  readonly reuse: Pick<Reuse, 'look'> | null;
  readonly window: Window;
  readonly queue: ChunkQueue;
  readonly signal: AbortSignal;
  /** The rows that go ahead of the rest. */
  readonly canary: Canary;
}

/** Groups rows into chunks and adds them to the queue, keeping the window full. Ends with the input, or when stopped. */
export async function produce(parts: ProducerParts): Promise<void> {
  const { window, queue, signal, chunkSize, canary } = parts;
  let rows: Row[] = [];
  let settled = new Map<number, Outcome>();
  let sources = new Map<number, Source>();
  let keys = new Map<number, RowKeys>();
  let requests: ChunkRow[] = [];
  let bytes = 0;
  let held = 0;
  let batch: Chunk[] = [];

  const send = async (): Promise<void> => {
    if (batch.length > 0) await queue.add(batch);
    batch = [];
  };
  const close = async (first: number): Promise<void> => {
    window.add({ first, rows, settled, sources, keys, bytes: held });
    if (requests.length > 0) batch.push(parts.toChunk(first, requests));
    [rows, settled, sources, keys, requests] = [[], new Map(), new Map(), new Map(), []];
    [bytes, held] = [0, 0];
    if (batch.length >= BATCH || window.full) await send();
    await window.room();
  };

  let first = parts.committed + 1;
  for await (const row of parts.rows) {
    if (row.number <= parts.committed) continue;
    if (row.number > parts.total || signal.aborted) break;
    const request = parts.requestOf(row);
    if (request.kind === 'send') {
      const looked = parts.reuse?.look(row, request.prompt, request.parameters);
      if (looked) keys.set(row.number, looked.keys);
      if (looked?.source) sources.set(row.number, looked.source);
      else requests.push({ row: row.number, prompt: request.prompt, parameters: request.parameters });
      // Also when it is not sent: a resume that knows less of earlier rows must end its chunks at the same ones.
      bytes += request.prompt.length;
      held += request.prompt.length;
    } else {
      settled.set(row.number, request.outcome);
    }
    rows.push(row);
    bytes += row.bytes;
    held += row.held ?? row.bytes;
    if (rows.length >= chunkSize || bytes >= CHUNK_BYTES || row.number === canary.last) {
      await close(first);
      first = row.number + 1;
    }
    if (row.number === canary.last && row.number < parts.total) {
      await send();
      await canary.passed;
    }
  }
  if (signal.aborted) return;
  if (rows.length > 0) await close(first);
  await send();
  window.close();
}

/** The queue's form of chunks that are in the window already: rendered again, without the rows that are not sent. */
export function renderChunk(chunk: WindowChunk, requestOf: RequestOf, toChunk: ToChunk): Chunk | null {
  if (expected(chunk) === 0) return null;
  const requests: ChunkRow[] = [];
  for (const row of chunk.rows) {
    if (chunk.sources.has(row.number)) continue;
    const request = requestOf(row);
    if (request.kind === 'send') {
      requests.push({ row: row.number, prompt: request.prompt, parameters: request.parameters });
    }
  }
  return toChunk(chunk.first, requests);
}
