import type { BackendFactory, ConnectionOptions, RedisQueueBackend } from 'bullmq';
import type { Patience } from '../core/lock.js';
import type { StoreHealth } from './health.js';
import type { KeyValue } from './key-value.js';
import type { Ledger, LedgerTimes } from './ledger.js';

/** `new Queue(name, { connection: store.connection }, store.backendFactory)` */
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
  /** For each queue and each worker, which connects by itself. */
  readonly connection: ConnectionOptions;
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

const LOOK_MS = 250;

/** A store that does not answer, or refuses, for this long is away for a process that has to end. */
const AWAY_MS = 3_000;

/**
 * Resolves when the store has been away for `awayMs` (@default 3 seconds) without a break, and never after
 * `until`. A process asked to end need not wait longer: container engines give ten seconds (fault 82).
 */
export function silenceOf(
  { ping, health }: Pick<Store, 'ping' | 'health'>,
  until: AbortSignal,
  awayMs = AWAY_MS,
): Promise<void> {
  return new Promise((resolve) => {
    let asking = false;
    // Counts pings, because a process that was busy itself has not given the store its time.
    let unanswered = 0;
    const look = (): void => {
      unanswered++;
      if (unanswered * LOOK_MS > awayMs) {
        clearInterval(timer);
        resolve();
      }
      if (asking) return;
      asking = true;
      ping()
        .then(() => {
          if (health.refusal === null) unanswered = 0;
        })
        .catch(() => {})
        .finally(() => {
          asking = false;
        });
    };
    const timer = setInterval(look, LOOK_MS);
    until.addEventListener('abort', () => clearInterval(timer), { once: true });
    look();
  });
}
