import { StopError } from '../errors.js';
import type { Loss, PartFile } from '../output/writer.js';

const AGAIN = 'run the same command: it goes on where it stopped.';

/** Why a run may not go on writing to its place, in words; the path is what the words are about. */
const WORDS = {
  taken: [
    'output_taken',
    (path: string) =>
      `${path} was not there when the run began, and is there now. Every row is written, in ${path}.part.`,
    'Move that file away, or add --overwrite, and run the same command: only the name is left to be given.',
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
  'manifest deleted': [
    'manifest_lost',
    (path: string) => `${path} was deleted while the run went on; it is written again.`,
    `Leave it there and ${AGAIN}`,
  ],
  'manifest replaced': [
    'manifest_lost',
    (path: string) => `${path} was replaced by another file while the run went on.`,
    'Restore it, or start over with --restart; rows already answered are then called again.',
  ],
} as const;

/** The place is not this run's any more; what was paid for is on disk or in the ledger. */
export function outOfPlace(why: keyof typeof WORDS, path: string): StopError {
  const [code, message, hint] = WORDS[why];
  return new StopError(code, message(path), hint);
}

/** The part file is not where it was, or not what it was. What it held is put on disk again where it would be gone. */
export async function lostPart(loss: Loss, path: string, part: PartFile): Promise<StopError> {
  const stop = (message: string, hint: string): StopError =>
    new StopError('part_lost', `${path} ${message} while the run went on.`, hint);
  switch (loss) {
    case 'moved':
      return stop('was moved away', `Put it back and ${AGAIN}`);
    case 'resized':
      return stop('was changed by another process', `Keep others from it and ${AGAIN}`);
    case 'deleted':
      await part.rescue(path);
      return stop('was deleted', `It is written again: leave it there and ${AGAIN}`);
    case 'replaced': {
      const rescued = `${path}.rescued`;
      await part.rescue(rescued);
      return stop(
        'was replaced by another file',
        `What the run had written is in ${rescued}: give it the name ${path} and ${AGAIN}`,
      );
    }
  }
}
