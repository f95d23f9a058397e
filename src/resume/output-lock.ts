import { accessSync, constants } from 'node:fs';
import { dirname, join } from 'node:path';
import { errorText, UsageError } from '../core/errors.js';
import { makeFolder } from '../core/folder.js';
import type { Halt } from '../core/halt.js';
import { acquireLock, type Lock, LockedError } from '../core/lock.js';
import { stemOf } from '../output/output-name.js';
import { WriteError } from '../output/writer.js';
import { hasPlaceholder, outputFiles } from './output-files.js';

type Say = (line: string) => void;

/**
 * Reserves an output for one run (fault 60). The lock is beside the output, so it is the same for every run
 * that could write there, whatever its working directory, state directory or container. It is taken before
 * anything is read.
 *
 * It is named after the stem: `reviews.csv` and `reviews.jsonl` share one summary (fault 66). A path with a
 * date or a run has a lock for the unfilled path, and one for the resulting file.
 */
export class OutputLock implements Lock {
  readonly #held: Lock[] = [];

  constructor(private readonly context: { readonly say: Say; readonly halt: Halt }) {}

  /** @throws LockedError when another run has it, UsageError `output_not_writable` */
  async take(output: string): Promise<void> {
    const { say, halt } = this.context;
    this.#held.push(await lock(output, say, halt.signal));
  }

  get tookOver(): boolean {
    return this.#held.some((each) => each.tookOver);
  }

  isHeld(): boolean {
    return this.#held.every((each) => each.isHeld());
  }

  release(): void {
    for (const each of this.#held) each.release();
  }
}

async function lock(output: string, say: Say, signal: AbortSignal): Promise<Lock> {
  const path = lockPath(output);
  const purpose = `writing ${output}`;
  try {
    makeFolder(dirname(path));
    accessSync(dirname(path), constants.R_OK | constants.W_OK | constants.X_OK);
    return await acquireLock(path, {
      purpose,
      signal,
      onWatch: ({ pid, host, purpose: work }, silentMs) =>
        say(
          `${output} was last held by process ${pid} on ${host} (${work}), in another container or on another machine; ` +
            `this run goes on when that one has been silent for ${silentMs / 1000} s`,
        ),
    });
  } catch (error) {
    if (error instanceof LockedError) throw heldBy(output, error.holder.purpose === purpose, error);
    if (signal.aborted || error instanceof UsageError) throw error;
    throw new UsageError(
      'output_not_writable',
      `cannot write ${output}: ${errorText(error)}`,
      new WriteError(output, error).full
        ? 'Free some space, or name another file with --output.'
        : 'Name another file with --output, or change the permissions of the folder.',
    );
  }
}

function heldBy(output: string, isSame: boolean, { holder }: LockedError): LockedError {
  if (isSame) return new LockedError(output, holder);
  return new LockedError(
    output,
    holder,
    `Wait until that process has ended, or end it. If it writes another output: both would have the summary ${outputFiles(output).summary}, so give this one a name of its own with --output.`,
  );
}

/** `out/reviews.csv` → `out/.reviews.lock`; above the folder if that has placeholders. */
function lockPath(output: string): string {
  const segments = output.split('/');
  const first = segments.findIndex(hasPlaceholder);
  const depth = first === -1 ? segments.length - 1 : first;
  const folder = segments.slice(0, depth).join('/');
  const name = segments
    .slice(depth)
    .join('%2F')
    .replaceAll(/[{}\s]/g, (mark) => (/\s/.test(mark) ? '' : mark));
  return join(folder === '' && output.startsWith('/') ? '/' : folder, `.${stemOf(name)}.lock`);
}
