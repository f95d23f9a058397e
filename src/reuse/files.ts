import { createHash } from 'node:crypto';
import { join } from 'node:path';

const folderOf = (stateDir: string): string => join(stateDir, 'reuse');

/** The outcomes that a run keeps while it goes on. */
export const outcomesPath = (stateDir: string, run: string): string =>
  join(folderOf(stateDir), `${run}.jsonl`);

/** How the name of {@link answeredPath} ends; other files of the folder belong to a run that has not finished. */
export const ANSWERED = '.answered.jsonl';

/**
 * What the last finished run of a job answered.
 * @param where the address of the service; `null` for a rehearsal, which must not take the place of the real answers
 */
export function answeredPath(stateDir: string, job: string, where: string | null): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([job, where]))
    .digest('hex');
  return join(folderOf(stateDir), `${job.replace(/[^\w.-]/g, '_')}-${hash.slice(0, 8)}${ANSWERED}`);
}
