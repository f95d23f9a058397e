import type { BackendFactory, ConnectionOptions, RedisQueueBackend } from 'bullmq';
import type { Patience } from '../lock.js';
import type { StoreHealth } from './health.js';
import type { KeyValue } from './key-value.js';
import type { Ledger } from './ledger.js';
import type { LedgerTimes } from './times.js';

/** What a connection is for. A worker needs connections of its own, because it blocks on them. */
type ConnectionUse = 'queue' | 'worker';

/** The place that holds the queue and the ledger: `new Queue(name, { connection: store.connectionFor('queue') }, store.backendFactory)`. */
export interface Store {
  /** What to pass as `preferred`, to come back to this very store; null where the address says it all. */
  readonly name: string | null;
  readonly ledger: Ledger;
  /** Heartbeats of runs and workers, and the pace of each queue. */
  readonly keyValue: KeyValue;
  /** Whether it can still be used. */
  readonly health: StoreHealth;
  /** Resolves when the store answers; waits while it is away. */
  ping(): Promise<void>;
  /** Makes BullMQ's connections to this store. The type names Redis because BullMQ's own defaults do. */
  readonly backendFactory: BackendFactory<RedisQueueBackend>;
  /** BullMQ's `connection` option. */
  connectionFor(use: ConnectionUse): ConnectionOptions;
  /** The address without its password, or the directory. */
  describe(): string;
  /** Leaves the store, within a few seconds whatever state it is in. Queues and workers are closed before it. */
  close(): Promise<void>;
}

export interface StoreOptions {
  /** Where the embedded store keeps its files. */
  readonly stateDir: string;
  /** The `name` of the store that a run to be continued used, or null. */
  readonly preferred?: string | null;
  /** Told what does not stop a run and should be known: a server that may forget, another directory. */
  readonly onWarning: (message: string) => void;
  /** How long things last in the ledger; only tests change it. */
  readonly ledgerTimes?: LedgerTimes;
  /** How a process is judged that has the embedded store and cannot be looked at; only tests change it. */
  readonly lockPatience?: Patience;
}
