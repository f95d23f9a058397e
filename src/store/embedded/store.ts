import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { errorText, isDiskFull, isFileLimit, StopError, UsageError } from '../../core/errors.js';
import { makePrivateFolder, prepareStateDir } from '../../core/folder.js';
import { acquireLock, type Lock, LockedError } from '../../core/lock.js';
import { StoreHealth } from '../health.js';
import type { Store, StoreOptions } from '../store.js';
import { FileKeyValue } from './key-value.js';
import { assertSpace, EmbeddedLedger, lockLost } from './ledger.js';
import { LedgerFile } from './ledger-file.js';
import { EmbeddedQueues } from './queue-backend.js';

/** Directories for runs at the same time: `store`, `store-2`, … `store-16`. */
const STORE_NAMES = Array.from({ length: 16 }, (_, i) => (i === 0 ? 'store' : `store-${i + 1}`));
/** Leftovers in a directory from when the queue was in a database. */
const OF_THE_DATABASE = ['data', 'ready'];

/** @throws UsageError when the directory cannot be written, or another process uses the preferred store */
export async function openEmbeddedStore(options: StoreOptions): Promise<Store> {
  const { name, lock } = await claimDirectory(options);
  const directory = join(options.stateDir, name);
  const { onWarning, ledgerTimes } = options;
  try {
    for (const old of OF_THE_DATABASE) rmSync(join(directory, old), { recursive: true, force: true });
    LedgerFile.sweep(join(directory, 'ledger'));
    await assertSpace(directory);
    // File errors do not come here: they go to whoever writes the file.
    const health = new StoreHealth(directory);
    const loss = (): Error | null => {
      if (lock.isHeld()) return null;
      const error = lockLost(directory);
      health.fail({ code: error.code, message: `${error.message} ${error.hint}` });
      return error;
    };
    const queues = new EmbeddedQueues(join(directory, 'schedulers.json'), loss, onWarning);
    const ledger = new EmbeddedLedger(join(directory, 'ledger'), lock, onWarning, ledgerTimes);
    return {
      name,
      ledger,
      keyValue: new FileKeyValue(options.stateDir),
      health,
      ping: async () => {
        queues.assertHeld();
        await ledger.probe();
      },
      backendFactory: queues.backendFactory,
      connection: {},
      describe: () => directory,
      close: async () => {
        queues.close();
        try {
          ledger.leave();
        } catch {
          // The runs are finished, and the next process reads the file as it is.
        }
        lock.release();
      },
    };
  } catch (error) {
    lock.release();
    throw unusable(directory, error);
  }
}

/** Locks a free directory, or the one that has the outcomes of the run to continue. */
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

/** Why the directory cannot be used; leaves a limit of open files to `exit-message.ts`. */
function unusable(directory: string, error: unknown): unknown {
  if (error instanceof UsageError || isFileLimit(error)) return error;
  if (error instanceof StopError) {
    return new UsageError(error.code, error.message, error.hint, { cause: error });
  }
  const isFull = isDiskFull(error);
  return new UsageError(
    isFull ? 'state_dir_full' : 'bad_state_dir',
    `cannot keep the queue in ${directory}: ${errorText(error)}`,
    isFull
      ? 'Free some space, or name another directory with PROMPTMILL_STATE_DIR.'
      : 'Make the directory writable, or name another one with PROMPTMILL_STATE_DIR. If it is damaged, remove it: what is in the output stays.',
    { cause: error },
  );
}
