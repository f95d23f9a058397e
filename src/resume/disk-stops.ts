import { FILE_LIMIT_REMEDY, isFileLimit, StopError } from '../core/errors.js';
import { type Loss, type PartFile, WriteError } from '../output/writer.js';
import type { OutputTarget } from './output-target.js';

/* Why a run stops when the disk fails, or its files are no longer its own. */

/** A full disk stops the run; paid answers stay in the ledger (fault 49). */
export function stopFor(target: OutputTarget | null, error: unknown): StopError {
  if (!(error instanceof WriteError)) throw error;
  if (isFileLimit(error.cause)) {
    return new StopError('too_many_open_files', `${error.message}.`, FILE_LIMIT_REMEDY, {
      cause: error.cause,
    });
  }
  const remedy = error.full ? 'Free some space' : 'Mend that';
  const hint =
    target === null
      ? `${remedy}, and begin again: a run to standard output cannot be continued. One with --output FILE can.`
      : `${remedy} and run the same command: it goes on where it stopped.`;
  return new StopError('output_not_written', `${error.message}.`, hint, { cause: error.cause });
}

const AGAIN = 'run the same command: it goes on where it stopped.';

const WORDS = {
  taken: [
    'output_taken',
    (path: string) =>
      `${path} was not there when the run began, and is there now. Every row is written, in ${path}.part.`,
    'Move that file away, or add --overwrite, and run the same command: only the name is left to be given.',
  ],
  changed: [
    'output_changed',
    (path: string) =>
      `${path} was changed while the run went on. Every row of the run is written, in ${path}.part.`,
    `Put the file back and ${AGAIN}`,
  ],
  'review taken': [
    'review_taken',
    (path: string) => `${path} was not there when the run began, and is there now. Every row is written.`,
    'Move that file away, or add --overwrite, and run the same command: only the files are left to be put in place.',
  ],
  moved: [
    'output_moved',
    (path: string) => `the folder ${path} was moved or removed while the run went on.`,
    `Put it back and ${AGAIN}`,
  ],
  lock: [
    'lock_lost',
    (path: string) =>
      `another run writes to ${path} now, because this process gave no sign of life, or its lock was removed.`,
    'What this run has written stays; the other one goes on with it.',
  ],
  anew: [
    'part_lost',
    (path: string) => `${path} was changed by another process while the run went on.`,
    `Keep other processes from changing it and ${AGAIN}`,
  ],
  'manifest deleted': [
    'manifest_lost',
    (path: string) => `${path} was deleted while the run went on; it is written again.`,
    `Leave it there and ${AGAIN}`,
  ],
  'manifest replaced': [
    'manifest_lost',
    (path: string) => `${path} was replaced by another file while the run went on.`,
    'Restore it, or start over with --restart; rows already known are then called again.',
  ],
} as const;

/** The files are no longer this run's; paid answers are on disk or in the ledger. */
export function outOfPlace(why: keyof typeof WORDS, path: string): StopError {
  const [code, message, hint] = WORDS[why];
  return new StopError(code, message(path), hint);
}

/** The part file was moved or changed. If its content would be gone, it is written to disk again. */
export async function lostPart(loss: Loss, path: string, part: PartFile): Promise<StopError> {
  const stop = (message: string, hint: string): StopError =>
    new StopError('part_lost', `${path} ${message} while the run went on.`, hint);
  switch (loss) {
    case 'moved':
      return stop('was moved away', `Put it back and ${AGAIN}`);
    case 'resized':
      return stop('was changed by another process', `Keep other processes from changing it and ${AGAIN}`);
    case 'deleted':
      await part.salvage(path);
      return stop('was deleted', `It is written again: leave it there and ${AGAIN}`);
    case 'replaced': {
      const rescued = `${path}.rescued`;
      await part.salvage(rescued);
      return stop(
        'was replaced by another file',
        `What the run had written is in ${rescued}: give it the name ${path} and ${AGAIN}`,
      );
    }
  }
}
