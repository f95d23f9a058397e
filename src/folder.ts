import { accessSync, chmodSync, constants, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errorCode, errorText, UsageError } from './errors.js';

/** Only the owner may look in. */
const PRIVATE = 0o700;
/** What of a mode lets others in. */
const OTHERS = 0o077;

/**
 * Makes a folder and those above it that are missing. Unlike `mkdir` with `recursive` it ends on file systems that
 * let nobody make a folder and say ENOENT, such as `/proc`, where Node goes round in circles for ever (fault 67).
 * @param mode of every folder that is made, less the umask
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
  // What is there already may be a file.
  if (!isFolder(path)) mkdirSync(path, mode);
}

/** The same, readable for its owner only. */
export const makePrivateFolder = (path: string): void => makeFolder(path, PRIVATE);

/** The names that Promptmill gives to what is in a state directory. */
const OURS = /^(store(-\d+)?|board|pace|reuse|locks|schedule|serve(-emulated)?|stdin-[0-9a-f-]+(\.lock)?)$/;

/**
 * Makes the state directory, or closes one that is there already to all but its owner: rows, prompts and answers are
 * in it (fault 68). A folder that holds other things as well, such as a home directory, keeps its mode, and what is
 * ours in it is closed.
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
    throw new UsageError(
      'bad_state_dir',
      `cannot write in the state directory ${stateDir}: ${errorText(error)}`,
      'Make it writable, or name another one with PROMPTMILL_STATE_DIR.',
    );
  }
}

/** Takes the rights of others away from what belongs to this user. */
function close(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.isSymbolicLink()) return;
  const isShared = (found.mode & 0o1000) !== 0;
  if (found.uid !== process.getuid?.() || isShared || (found.mode & OTHERS) === 0) return;
  chmodSync(path, found.mode & 0o777 & ~OTHERS);
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
