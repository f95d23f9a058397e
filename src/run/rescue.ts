import type { Logger } from 'pino';
import type { Chunk } from '../queue/chunk.js';
import type { ChunkQueue } from '../queue/chunk-queue.js';
import { chunkId } from '../queue/names.js';
import { type Ledger, NOTHING } from '../store/ledger.js';
import type { Window, WindowChunk } from './window.js';

export interface RescueParts {
  readonly queue: ChunkQueue;
  readonly ledger: Ledger;
  /** Opens the run in the ledger again, for a store that came back empty. */
  readonly reopen: () => Promise<void>;
  readonly window: Window;
  readonly render: (chunk: WindowChunk) => Chunk | null;
  readonly log: Logger;
}

/**
 * Looks after the oldest chunk when nothing has come of it for a while. The queue is disposable: an entry that
 * is gone (a store that came back empty, a lease that ran out) is added again, and a chunk whose workers
 * crashed again and again is taken apart, so that only the culprit ends `failed` (faults 35 and 44).
 * @returns whether the chunk is in the queue as one entry, or row by row
 */
export async function rescue(
  head: WindowChunk,
  split: Set<number>,
  parts: RescueParts,
): Promise<'whole' | 'apart'> {
  const chunk = parts.render(head);
  if (chunk === null) return 'whole';
  if (!split.has(head.first)) await rescueChunk(head, chunk, split, parts);
  if (!split.has(head.first)) return 'whole';
  await rescueNextRow(chunk, parts);
  return 'apart';
}

async function rescueChunk(
  head: WindowChunk,
  chunk: Chunk,
  split: Set<number>,
  parts: RescueParts,
): Promise<void> {
  const id = chunkId(chunk.run, chunk.execution, chunk.first);
  const state = await parts.queue.state(id);
  if (state === 'missing') {
    parts.log.warn({ chunk: id }, 'the queue lost entries; adding them again');
    await parts.reopen();
    await parts.queue.add(parts.window.all().flatMap((each) => parts.render(each) ?? []));
  } else if (state === 'failed') {
    parts.log.warn({ chunk: id }, 'a chunk crashed its workers; trying its rows one by one');
    split.add(head.first);
    await parts.queue.remove(id);
  }
}

/** One row of a chunk that was taken apart, and only one: beside the culprit, innocents would crash with it. */
async function rescueNextRow(chunk: Chunk, parts: RescueParts): Promise<void> {
  const known = await parts.ledger.outcomes(chunk);
  const row = chunk.rows.find((each) => !known.has(each.row));
  if (row === undefined) return;
  const id = chunkId(chunk.run, chunk.execution, chunk.first, row.row);
  const state = await parts.queue.state(id);
  if (state === 'missing') {
    await parts.reopen();
    await parts.queue.add([{ ...chunk, rows: [row] }], () => row.row);
  } else if (state === 'failed') {
    const error = {
      code: 'worker_crashed',
      message: 'every worker that called this row ended before it answered',
    };
    const outcome = { status: 'failed', error, attempts: 1, latency_ms: null } as const;
    const settled = [{ run: chunk.run, first: chunk.first, row: row.row, call: null, outcome }];
    await parts.ledger.write({ ...NOTHING, settled });
    await parts.queue.remove(id);
  }
}
