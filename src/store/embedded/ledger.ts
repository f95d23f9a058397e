import { statfs } from 'node:fs/promises';
import { StopError, UsageError } from '../../errors.js';
import type { Progress } from '../ledger.js';
import { PostgresLedger } from '../postgres/ledger.js';
import type { LedgerTimes } from '../times.js';
import type { PglitePool } from './pool.js';

const MIB = 2 ** 20;
/** Kept free for the outcomes of the calls in flight and the database's own log: below it a run stops. */
const RESERVE = 16 * MIB;
/** What a new database takes, about. */
const NEW_DATABASE = 32 * MIB;

/** @throws UsageError when there is less space than a run needs */
export async function assertSpace(directory: string, isNew: boolean): Promise<void> {
  const needed = isNew ? NEW_DATABASE + RESERVE : RESERVE;
  const free = await freeBytes(directory);
  if (free >= needed) return;
  throw new UsageError(
    'state_dir_full',
    `cannot keep the queue in ${directory}: ${mib(free)} MiB are free there, and ${mib(needed)} MiB are needed`,
    'Free some space, or name another directory with PROMPTMILL_STATE_DIR.',
  );
}

/**
 * The ledger of a run whose store shares a disk with whatever else the machine does. When that disk runs full, the
 * run is asked to stop while there is still room for what is being paid for (fault 39); a server would wait instead
 * (fault 34), because it belongs to somebody who looks after it.
 */
export class EmbeddedLedger extends PostgresLedger {
  constructor(
    private readonly pool: PglitePool,
    private readonly directory: string,
    times?: LedgerTimes,
  ) {
    super(pool, times);
  }

  override async progress(run: string, firsts: readonly number[]): Promise<Progress> {
    const message = await this.#shortage();
    if (this.pool.dead) {
      throw new StopError('state_dir_full', message ?? `the queue in ${this.directory} is damaged.`, REMEDY);
    }
    const found = await super.progress(run, firsts);
    if (message === null || found.stop !== null) return found;
    return { ...found, stop: { code: 'state_dir_full', message: `${message} ${REMEDY}` } };
  }

  async #shortage(): Promise<string | null> {
    if (this.pool.refusal !== null)
      return `cannot keep the queue in ${this.directory}: ${this.pool.refusal}.`;
    const free = await freeBytes(this.directory);
    if (free >= RESERVE) return null;
    return `only ${mib(free)} MiB are free for the queue in ${this.directory}; what is paid for needs ${mib(RESERVE)}.`;
  }
}

const REMEDY = 'Free some space and run the same command: it goes on where it stopped.';

/** Infinity where the file system does not tell. */
async function freeBytes(directory: string): Promise<number> {
  try {
    const { bavail, bsize, blocks } = await statfs(directory);
    return blocks === 0 ? Number.POSITIVE_INFINITY : bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

const mib = (bytes: number): number => Math.floor(bytes / MIB);
