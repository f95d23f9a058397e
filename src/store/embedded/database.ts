import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import { errorCode } from '../../errors.js';
import { makePrivateFolder } from '../../folder.js';
import type { StoreHealth } from '../health.js';
import { prepareQueue, QUEUE_SCHEMA, QUEUE_VERSION } from '../postgres/schema.js';
import { startDatabase } from './engine.js';
import { LedgerFile } from './ledger-file.js';
import { takeOverTables } from './ledger-tables.js';
import { PglitePool } from './pool.js';
import { assertSpace } from './space.js';
import { copyTemplate } from './template.js';

/** A new directory takes 1.5 s with these and 3.7 s without; the files then hold 1 MB of log each and not 16. */
const INITDB = ['--wal-segsize=1', '--no-sync'];

/**
 * What is on disk must survive the death of the process, not of the machine: a killed run has its log with the
 * system already. So nothing is synced (PGlite's default), but pages are still logged whole, because a kill can
 * halve an 8 kB write. What is at work hardly gains by more than 4 MB of memory; the default takes 128.
 */
const SETTINGS = ['max_wal_size = 32MB', 'min_wal_size = 8MB', 'shared_buffers = 4MB'];

/** What changes with every chunk. Of the system's own tables those that BullMQ's `addBulk` makes temporary tables in. */
const CHURNED = [
  ...['bullmq.job', 'bullmq.event', 'bullmq.meta', 'bullmq.rate_limit'],
  ...['pg_catalog.pg_attribute', 'pg_catalog.pg_class', 'pg_catalog.pg_type', 'pg_catalog.pg_depend'],
];

/**
 * PGlite has neither autovacuum nor a checkpointer. Without these, 200,000 rows leave 220 MB behind; with them
 * the directory stays near 20 MB. A round takes about 10 ms.
 */
const MAINTENANCE = [`VACUUM (SKIP_DATABASE_STATS) ${CHURNED.join(', ')}`, 'CHECKPOINT'];

/**
 * Opens the database of a store's directory. A new one begins as a copy of the template that the build made: a tenth of the
 * processor time, and a third of the 700 MB of memory that making one takes. Without a template it is made.
 *
 * The file `ready` says of which version the tables are: to look into the database for that would take as long as to open it.
 * @param loss why the directory is not this process's any more; null while it is
 */
export async function openDatabase(
  directory: string,
  health: StoreHealth,
  loss: () => Error | null = () => null,
): Promise<{ database: PGlite; pool: PglitePool; data: string }> {
  const data = join(directory, 'data');
  const ready = join(directory, 'ready');
  const found = readyVersion(ready);
  // A process that was killed while it made the database has left something that nothing can open.
  if (found === null) rmSync(data, { recursive: true, force: true });
  makePrivateFolder(data);
  LedgerFile.sweep(join(directory, 'ledger'));
  await assertSpace(directory, found === null);
  const version = found ?? (await copyTemplate(data));

  const database = await startDatabase(data, { initDbStartParams: INITDB, postgresqlconf: SETTINGS });
  const pool = await PglitePool.open(database, {
    maintenance: MAINTENANCE,
    onError: (error) => health.met(error),
    loss,
  });
  // Not among the settings, because PGlite starts with a path of its own, which goes before them.
  await pool.query(`SET search_path TO ${QUEUE_SCHEMA}`);
  if (version !== QUEUE_VERSION) {
    await prepareQueue(pool);
    await takeOverTables(pool, join(directory, 'ledger'));
  }
  if (found !== QUEUE_VERSION) writeFileSync(ready, QUEUE_VERSION, { mode: 0o600 });
  return { database, pool, data };
}

/** Of which version the tables are; empty where an earlier version of ours has made them, null where there are none. */
function readyVersion(ready: string): string | null {
  try {
    return readFileSync(ready, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}
