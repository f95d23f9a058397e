import { statfs } from 'node:fs/promises';
import { UsageError } from '../../errors.js';

const MIB = 2 ** 20;
/** Kept free for the outcomes of calls in flight: with less, a run stops. */
const RESERVE = 16 * MIB;

/** @throws UsageError when there is less space than a run needs */
export async function assertSpace(directory: string): Promise<void> {
  const free = await freeBytes(directory);
  if (free >= RESERVE) return;
  throw new UsageError(
    'state_dir_full',
    `cannot keep the queue in ${directory}: ${mib(free)} MiB are free there, and ${mib(RESERVE)} MiB are needed`,
    'Free some space, or name another directory with PROMPTMILL_STATE_DIR.',
  );
}

/** Why there is too little space to go on; null while there is enough. */
export async function shortageOf(directory: string): Promise<string | null> {
  const free = await freeBytes(directory);
  if (free >= RESERVE) return null;
  return `only ${mib(free)} MiB are free for the queue in ${directory}; what is paid for needs ${mib(RESERVE)}.`;
}

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
