import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { PGlite } from '@electric-sql/pglite';
import { UsageError } from '../errors.js';
import { FileBoard } from '../ledger/file-board.js';
import { FileRegister } from '../ledger/file-register.js';
import type { LedgerTimes } from '../ledger/times.js';
import { acquireLock, type Lock, LockedError } from '../lock.js';
import { PglitePool } from './pglite-pool.js';
import { backendOn, prepareTables, QUEUE_SCHEMA } from './postgres-backend.js';
import type { Store, StoreOptions } from './store.js';
import { within } from './store-deadline.js';
import { assertSpace, EmbeddedLedger } from './store-space.js';

/** The directories of runs that are at work at the same time: `store`, `store-2`, … `store-16`. */
const STORE_NAMES = Array.from({ length: 16 }, (_, i) => (i === 0 ? 'store' : `store-${i + 1}`));
/** The longest wait for statements under way at the end, in milliseconds. */
const CLOSE_MS = 5_000;

/** A new directory takes 1.5 s with these and 3.7 s without; the files then hold 1 MB of log each and not 16. */
const INITDB = ['--wal-segsize=1', '--no-sync'];

/**
 * What is on disk must survive the death of the process, not of the machine: a killed run has its log with the
 * system already. So nothing is synced (PGlite's default), but pages are still logged whole, because a kill can
 * halve an 8 kB write. What is at work fits in 16 MB of memory; the default takes 128.
 */
const SETTINGS = ['max_wal_size = 32MB', 'min_wal_size = 8MB', 'shared_buffers = 16MB'];

/**
 * V8 optimises a function of the database after so much work in it. At its default of 1.8 million a run of a few rows
 * spends 1 s of 2.6 s of processor time on that; 20,000 rows take as long with this.
 */
const OPTIMISE_AFTER = '--wasm-tiering-budget=100000000';

/** What changes with every chunk. Of the system's own tables those that BullMQ's `addBulk` makes temporary tables in. */
const CHURNED = [
  ...['promptmill.outcome', 'promptmill.calls', 'promptmill.run'],
  ...['bullmq.job', 'bullmq.event', 'bullmq.meta', 'bullmq.rate_limit'],
  ...['pg_catalog.pg_attribute', 'pg_catalog.pg_class', 'pg_catalog.pg_type', 'pg_catalog.pg_depend'],
];

/**
 * PGlite has neither autovacuum nor a checkpointer. Without these, 200,000 rows leave 220 MB behind; with them
 * the directory stays near 40 MB. A round takes about 10 ms.
 */
const MAINTENANCE = [`VACUUM (SKIP_DATABASE_STATS) ${CHURNED.join(', ')}`, 'CHECKPOINT'];

/**
 * Opens the first store of the state directory that no other process uses, or the preferred one.
 * @throws UsageError when the directory cannot be written, or another process uses the preferred store
 */
export async function openEmbeddedStore(options: StoreOptions): Promise<Store> {
  const { name, lock } = await claimDirectory(options);
  const directory = join(options.stateDir, name);
  try {
    const { database, pool } = await openDatabase(directory, options.ledgerTimes);
    return {
      kind: 'embedded',
      name,
      ledger: new EmbeddedLedger(pool, directory, options.ledgerTimes),
      register: new FileRegister(join(options.stateDir, 'pace')),
      board: new FileBoard(options.stateDir),
      backendFactory: backendOn(pool),
      connectionFor: () => ({}),
      describe: () => directory,
      close: async () => {
        await within(
          CLOSE_MS,
          pool.end().then(() => (pool.dead ? undefined : database.close())),
        ).catch(() => {});
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw unusable(directory, error);
  }
}

/** Takes the lock of a directory that is free, or of the one that a run to be continued has its outcomes in. */
async function claimDirectory({
  stateDir,
  preferred,
  onWarning,
}: StoreOptions): Promise<{ name: string; lock: Lock }> {
  const before = /^store(-\d+)?$/.exec(preferred ?? '')?.[0];
  let held: LockedError | null = null;
  for (const name of before === undefined ? STORE_NAMES : [before]) {
    const directory = join(stateDir, name);
    try {
      const lock = await acquireLock(join(directory, 'lock'), { purpose: 'its queue' });
      if (held !== null) onWarning(`${held.message}; this run keeps its queue in ${directory}`);
      return { name, lock };
    } catch (error) {
      if (!(error instanceof LockedError)) throw unusable(directory, error);
      held ??= error;
    }
  }
  throw new UsageError(
    'store_in_use',
    before === undefined
      ? `${stateDir} has ${STORE_NAMES.length} runs at work already`
      : `${join(stateDir, before)} has what the unfinished run paid for, and is in use: ${held?.message}`,
    before === undefined
      ? 'Wait for one to end, or name another directory with PROMPTMILL_STATE_DIR.'
      : 'Wait until that process has ended, or give the unfinished run up with --restart.',
  );
}

async function openDatabase(
  directory: string,
  times?: LedgerTimes,
): Promise<{ database: PGlite; pool: PglitePool }> {
  const data = join(directory, 'data');
  const ready = join(directory, 'ready');
  // A process that was killed while it made the database has left something that nothing can open.
  if (!existsSync(ready)) rmSync(data, { recursive: true, force: true });
  mkdirSync(data, { recursive: true });
  await assertSpace(directory, !existsSync(ready));

  setFlagsFromString(OPTIMISE_AFTER);
  const database = new PGlite(data, { initDbStartParams: INITDB, postgresqlconf: SETTINGS });
  await database.waitReady;
  const pool = await PglitePool.open(database, { maintenance: MAINTENANCE });
  // Not among the settings, because PGlite starts with a path of its own, which goes before them.
  await pool.query(`SET search_path TO ${QUEUE_SCHEMA}`);
  await prepareTables(pool, times);
  writeFileSync(ready, '');
  return { database, pool };
}

function unusable(directory: string, error: unknown): UsageError {
  if (error instanceof UsageError) return error;
  // What PGlite throws when it cannot write is no Error.
  const reason = error instanceof Error ? error.message : JSON.stringify(error);
  return new UsageError(
    'bad_state_dir',
    `cannot keep the queue in ${directory}: ${reason}`,
    'Make the directory writable, or name another one with PROMPTMILL_STATE_DIR. If it is damaged, remove it: what is in the output stays.',
    { cause: error },
  );
}
