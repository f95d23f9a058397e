import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../errors.js';
import { parseStoreAddress } from '../store/address.js';
import { openStore } from '../store/open.js';
import type { Store } from '../store/store.js';

export interface ScheduleStoreOptions {
  /** What `--queue` says. */
  readonly queue: string;
  readonly stateDir: string;
  readonly onWarning: (message: string) => void;
}

/** Whether nothing can be scheduled, because the embedded store of the schedule was never made. */
export const isNeverMade = ({ queue, stateDir }: Pick<ScheduleStoreOptions, 'queue' | 'stateDir'>): boolean =>
  parseStoreAddress(queue).kind === 'embedded' && !existsSync(join(stateDir, 'schedule'));

/** Another process has the embedded store of the schedule open, which is `promptmill serve` for hours and days. */
export class ScheduleInUseError extends UsageError {
  constructor(directory: string, cause: UsageError) {
    super(
      'schedule_in_use',
      `another process has the schedule in ${directory} open, most likely promptmill serve`,
      'serve looks at the job files itself, every minute, and at once when it gets SIGHUP. ' +
        'For any other change stop it first.',
      { cause },
    );
  }
}

/**
 * Opens the store that has the schedule: the server of `--queue`, or an embedded one beside those of the runs, so that it
 * never stands in the way of one.
 * @throws ScheduleInUseError when the embedded one is open elsewhere
 * @throws UsageError when the store cannot be used
 */
export async function openScheduleStore({
  queue,
  stateDir,
  onWarning,
}: ScheduleStoreOptions): Promise<Store> {
  const directory = join(stateDir, 'schedule');
  try {
    return await openStore(queue, { stateDir: directory, preferred: 'store', onWarning });
  } catch (error) {
    if (error instanceof UsageError && error.code === 'store_in_use')
      throw new ScheduleInUseError(directory, error);
    throw error;
  }
}
