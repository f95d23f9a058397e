import { join } from 'node:path';
import { within } from '../../deadline.js';
import { isDiskFull, isFileLimit, StopError, UsageError } from '../../errors.js';
import { makePrivateFolder, prepareStateDir } from '../../folder.js';
import { acquireLock, type Lock, LockedError } from '../../lock.js';
import { StoreHealth } from '../health.js';
import { backendOn } from '../postgres/pool.js';
import type { Store, StoreOptions } from '../store.js';
import { openDatabase } from './database.js';
import { FileKeyValue } from './key-value.js';
import { EmbeddedLedger, lockLost } from './ledger.js';
import type { PglitePool } from './pool.js';

/** The directories of runs that are at work at the same time: `store`, `store-2`, … `store-16`. */
const STORE_NAMES = Array.from({ length: 16 }, (_, i) => (i === 0 ? 'store' : `store-${i + 1}`));
/** The longest wait for statements under way at the end, in milliseconds. */
const CLOSE_MS = 5_000;

/**
 * Opens the first store of the state directory that no other process uses, or the preferred one.
 * @throws UsageError when the directory cannot be written, or another process uses the preferred store
 */
export async function openEmbeddedStore(options: StoreOptions): Promise<Store> {
  const { name, lock } = await claimDirectory(options);
  const directory = join(options.stateDir, name);
  try {
    // Only this process can reach the database, so nobody mends it meanwhile.
    const health = new StoreHealth(directory, false);
    const { database, pool } = await openDatabase(directory, health, () =>
      lock.isHeld() ? null : lockLost(directory),
    );
    const closeDatabase = async (): Promise<void> => {
      await within(
        CLOSE_MS,
        pool.end().then(() => (pool.dead ? undefined : database.close())),
      ).catch(() => {});
    };
    const ledger = await openLedger(directory, lock, pool, options).catch(async (error: unknown) => {
      await closeDatabase();
      throw error;
    });
    health.opened();
    return {
      name,
      ledger,
      keyValue: new FileKeyValue(options.stateDir),
      health,
      ping: async () => {
        await pool.query('SELECT');
        ledger.probe();
      },
      backendFactory: backendOn(pool),
      connectionFor: () => ({}),
      describe: () => directory,
      close: async () => {
        try {
          ledger.leave();
        } catch {
          // The runs are through, and the next process reads the file as it is.
        }
        await closeDatabase();
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw unusable(directory, error);
  }
}

const openLedger = async (
  directory: string,
  lock: Lock,
  pool: PglitePool,
  { onWarning, ledgerTimes }: StoreOptions,
): Promise<EmbeddedLedger> =>
  new EmbeddedLedger(join(directory, 'ledger'), lock, pool, onWarning, ledgerTimes);

/** Takes the lock of a directory that is free, or of the one that a run to be continued has its outcomes in. */
async function claimDirectory({
  stateDir,
  preferred,
  onWarning,
  lockPatience,
}: StoreOptions): Promise<{ name: string; lock: Lock }> {
  prepareStateDir(stateDir);
  const before = /^store(-\d+)?$/.exec(preferred ?? '')?.[0];
  let held: LockedError | null = null;
  for (const name of before === undefined ? STORE_NAMES : [before]) {
    const directory = join(stateDir, name);
    try {
      makePrivateFolder(directory);
      const lock = await acquireLock(join(directory, 'lock'), {
        purpose: 'its queue',
        ...(lockPatience !== undefined && { patience: lockPatience }),
        onWatch: ({ pid, host }, silentMs) =>
          onWarning(
            `process ${pid} on ${host} used the queue in ${directory} and cannot be looked at from here; ` +
              `when it is silent for ${silentMs / 1000} s, this run takes the queue over`,
          ),
      });
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

/** Why the database cannot be used; a limit of open files is left for `last-words.ts` to name. */
function unusable(directory: string, error: unknown): unknown {
  if (error instanceof UsageError || isFileLimit(error)) return error;
  if (error instanceof StopError) {
    return new UsageError(error.code, error.message, error.hint, { cause: error });
  }
  // What PGlite throws when it cannot write is no Error.
  const reason = error instanceof Error ? error.message : JSON.stringify(error);
  if (error instanceof RangeError && /memory/i.test(reason)) {
    return new UsageError(
      'no_memory',
      `cannot open the queue in ${directory}: ${reason}`,
      'It takes some 200 MB of memory, and more than 12 GB of address space (ulimit -v unlimited). Redis and PostgreSQL take neither here.',
      { cause: error },
    );
  }
  const isFull = isDiskFull(error);
  return new UsageError(
    isFull ? 'state_dir_full' : 'bad_state_dir',
    `cannot keep the queue in ${directory}: ${reason}`,
    isFull
      ? 'Free some space, or name another directory with PROMPTMILL_STATE_DIR.'
      : 'Make the directory writable, or name another one with PROMPTMILL_STATE_DIR. If it is damaged, remove it: what is in the output stays.',
    { cause: error },
  );
}
