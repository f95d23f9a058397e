import { accessSync, chmodSync, constants, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errorCode, errorText, UsageError } from './errors.js';

const PRIVATE = 0o700;
const OTHERS = 0o077;

/**
 * Makes a folder and its missing parents. Unlike `mkdir` with `recursive` it terminates on file systems such
 * as `/proc` that refuse every folder with ENOENT, where Node loops forever (fault 67).
 * @param mode of every new folder, less the umask
 * @throws the file system's error
 */
export function makeFolder(path: string, mode = 0o777): void {
  const missing: string[] = [];
  let at = path;
  while (statSync(at, { throwIfNoEntry: false }) === undefined && dirname(at) !== at) {
    missing.push(at);
    at = dirname(at);
  }
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, mode);
    } catch (error) {
      // Another process was faster.
      if (errorCode(error) !== 'EEXIST' || !isFolder(folder)) throw error;
    }
  }
  // The existing path may be a file.
  if (!isFolder(path)) mkdirSync(path, mode);
}

export const makePrivateFolder = (path: string): void => makeFolder(path, PRIVATE);

const OURS =
  /^(store(-\d+)?|board|pace|reuse|batches|locks|schedule|serve(-emulated)?|stdin-[0-9a-f-]+(\.lock)?)$/;

/**
 * Makes the state directory, or closes an existing one to everyone but its owner: it contains rows, prompts
 * and answers (fault 68). A folder with other files too, such as a home directory, keeps its mode; only our
 * files in it are closed.
 * @throws UsageError `bad_state_dir`
 */
export function prepareStateDir(stateDir: string): void {
  try {
    makePrivateFolder(stateDir);
    accessSync(stateDir, constants.R_OK | constants.W_OK | constants.X_OK);
    const names = readdirSync(stateDir);
    const ours = names.filter((name) => OURS.test(name));
    for (const name of ours) close(join(stateDir, name));
    if (ours.length > 0 && ours.length === names.length) close(stateDir);
  } catch (error) {
    throw unwritable(stateDir, error);
  }
}

export const unwritable = (stateDir: string, error: unknown): UsageError =>
  new UsageError(
    'bad_state_dir',
    `cannot write in the state directory ${stateDir}: ${errorText(error)}`,
    'Make it writable, or name another one with PROMPTMILL_STATE_DIR.',
  );

/** Skips links, sticky folders, and what belongs to other users. */
function close(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.isSymbolicLink()) return;
  const isShared = (found.mode & 0o1000) !== 0;
  if (found.uid !== process.getuid?.() || isShared || (found.mode & OTHERS) === 0) return;
  chmodSync(path, found.mode & 0o777 & ~OTHERS);
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
