import { setTimeout as after } from 'node:timers/promises';
import { Gauge, type Registry } from 'prom-client';
import type { QueueView } from '../queue/queue-views.js';

/** A scrape does not wait longer for the counts of a queue, in milliseconds; they are then left out. */
const PATIENCE_MS = 2_000;

/** Entries of the queues by their state, one entry being up to `chunk_size` rows. */
export async function addQueueMetrics(registry: Registry, views: readonly QueueView[]): Promise<void> {
  const depth = new Gauge({
    name: 'promptmill_queue_depth',
    help: 'Entries of a queue by their state; an entry holds up to chunk_size rows',
    labelNames: ['queue', 'state'],
    registers: [registry],
  });
  const patience = new AbortController();
  const tired = after(PATIENCE_MS, null, { signal: patience.signal }).catch(() => null);
  await Promise.all(
    views.map(async (view) => {
      const counts = await Promise.race([view.depth().catch(() => null), tired]);
      for (const [state, n] of Object.entries(counts ?? {})) depth.set({ queue: view.name, state }, n);
    }),
  );
  patience.abort();
}
