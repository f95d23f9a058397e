import type { BackendFactory, ConnectionOptions, RedisQueueBackend } from 'bullmq';
import type { Patience } from '../lock.js';
import type { StoreHealth } from './health.js';
import type { KeyValue } from './key-value.js';
import type { Ledger } from './ledger.js';
import type { LedgerTimes } from './times.js';

/** A worker needs connections of its own, because it blocks on them. */
type ConnectionUse = 'queue' | 'worker';

/** `new Queue(name, { connection: store.connectionFor('queue') }, store.backendFactory)` */
export interface Store {
  /** Pass it as `preferred` to reopen this very store; null where the address is enough. */
  readonly name: string | null;
  readonly ledger: Ledger;
  /** Heartbeats of runs and workers, and the pace of each queue. */
  readonly keyValue: KeyValue;
  readonly health: StoreHealth;
  /** Waits while the store is away. */
  ping(): Promise<void>;
  /** Typed for Redis, as BullMQ's own defaults are. */
  readonly backendFactory: BackendFactory<RedisQueueBackend>;
  connectionFor(use: ConnectionUse): ConnectionOptions;
  /** The address without its password, or the directory. */
  describe(): string;
  /** Leaves the store within a few seconds, whatever state it is in. Close queues and workers first. */
  close(): Promise<void>;
}

export interface StoreOptions {
  readonly stateDir: string;
  /** The `name` of the store that the run to continue used, or null. */
  readonly preferred?: string | null;
  /** Receives what does not stop a run but should be known: a server that may forget, another directory. */
  readonly onWarning: (message: string) => void;
  /** How long ledger entries last; only tests change it. */
  readonly ledgerTimes?: LedgerTimes;
  /** How to judge a process that has the embedded store and cannot be inspected; only tests change it. */
  readonly lockPatience?: Patience;
}
