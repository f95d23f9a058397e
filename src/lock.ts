import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UsageError } from './errors.js';

/** A process, so that another can find out whether it still lives. */
export interface ProcessMark {
  readonly pid: number;
  readonly host: string;
  /** When the process began, in the words of its system: tells it from a later one with the same number. */
  readonly began: string | null;
}

/** Who holds a lock, as far as its file says. */
export interface Holder extends Pick<ProcessMark, 'pid' | 'host'> {
  /** What the holder does with what it locked, in words for people. */
  readonly purpose: string;
}

/** A lock that this process holds. */
export interface Lock {
  /** Gives the lock up. Safe to call twice. */
  release(): void;
}

/** Another living process holds the lock. */
export class LockedError extends UsageError {
  constructor(
    readonly path: string,
    readonly holder: Holder,
  ) {
    super(
      'locked',
      `${path} is held by process ${holder.pid} on ${holder.host} (${holder.purpose})`,
      'Wait until that process has ended, or end it.',
    );
  }
}

/** A claim's file is touched this often, in milliseconds, for observers that cannot look at the process. */
const TOUCH_MS = 10_000;
/** A claim from another host whose file was not touched for so long is taken for dead. */
const FOREIGN_DEAD_MS = 60_000;
/** Pause before looking again while others claim the lock at the same moment. */
const AGAIN_MS = 5;
/** How often a claim gives way to others that hold nothing yet before it calls one of them the holder. */
const MAX_YIELDS = 200;

interface Claim extends Holder, ProcessMark {
  readonly held: boolean;
}

export const thisProcess = (): ProcessMark => ({
  pid: process.pid,
  host: hostname(),
  began: beganAt(process.pid),
});

/** Whether a process of this host lives; what another host has cannot be seen, and counts as ended. */
export function isLiving({ pid, host, began }: ProcessMark): boolean {
  if (host !== hostname()) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it lives, and belongs to somebody else.
    if (codeOf(error) !== 'EPERM') return false;
  }
  const now = began === null ? null : beganAt(pid);
  return now === null || now === began;
}

/**
 * Takes a lock that ends with its process, however that ends (fault 39: also `kill -9`, and a new process can
 * take over at once).
 *
 * The lock is a folder of claims, one file for each process that wants it. A process writes its claim first and
 * looks at the others after that; so of two that race, the later one always sees the earlier one, and claims of
 * dead processes need not be taken away before the lock can be had. Nobody ever removes the claim of a living
 * process, which is where lock files that are replaced in place go wrong.
 *
 * @param path the folder; made when it is missing, removed at the release
 * @param options.purpose what is done under the lock; the loser of a race is told
 * @throws LockedError when a living process holds it
 * @throws the file system's error when the folder cannot be written
 */
export async function acquireLock(path: string, options: { purpose: string }): Promise<Lock> {
  const id = randomBytes(8).toString('hex');
  const file = join(path, id);
  const claim = { ...thisProcess(), purpose: options.purpose };
  const announce = (held: boolean): void => writeClaim(path, file, { ...claim, held });

  announce(false);
  try {
    for (let yields = 0; ; ) {
      const others = livingOthers(path, id);
      const holder = others.find((other) => other.claim.held);
      if (holder !== undefined) throw new LockedError(path, holder.claim);
      const [first] = others;
      if (first === undefined) break;
      // Of several that claim at once the lowest id stays; the others step back and try again.
      const lowest = others.every((other) => id < other.id);
      if (!lowest) rmSync(file, { force: true });
      if (++yields > MAX_YIELDS) throw new LockedError(path, first.claim);
      await sleep(AGAIN_MS);
      if (!lowest) announce(false);
    }
    announce(true);
  } catch (error) {
    remove(path, file);
    throw error;
  }

  const touch = setInterval(() => touchFile(file), TOUCH_MS);
  touch.unref();
  return {
    release: () => {
      clearInterval(touch);
      remove(path, file);
    },
  };
}

/** Writes a claim; the folder may vanish between its making and the writing, when another process releases. */
function writeClaim(path: string, file: string, claim: Claim): void {
  for (let attempt = 1; ; attempt++) {
    mkdirSync(path, { recursive: true });
    try {
      writeFileSync(file, JSON.stringify(claim));
      return;
    } catch (error) {
      if (codeOf(error) === 'ENOENT' && attempt < 10) continue;
      // On a full disk there is a file and nothing in it, which would pass for the claim of somebody else.
      remove(path, file);
      throw error;
    }
  }
}

/** The claims of other living processes; those of dead ones are swept away. */
function livingOthers(path: string, own: string): { id: string; claim: Claim }[] {
  const living: { id: string; claim: Claim }[] = [];
  for (const id of readdirSync(path)) {
    if (id === own) continue;
    const file = join(path, id);
    const claim = readClaim(file);
    if (claim === null) continue;
    if (isAlive(claim, file)) living.push({ id, claim });
    else rmSync(file, { force: true });
  }
  return living;
}

/** @returns null when the claim is gone */
function readClaim(file: string): Claim | null {
  try {
    const text = readFileSync(file, 'utf8');
    const { pid, host, purpose, began, held } = JSON.parse(text);
    return { pid: Number(pid), host: String(host), purpose: String(purpose), began, held: held === true };
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    // Half written: its owner is at work now, or died over it; the age of the file decides, as for another host.
    return { pid: 0, host: '', purpose: 'claiming it', began: null, held: false };
  }
}

function isAlive(claim: Claim, file: string): boolean {
  if (claim.host !== hostname()) {
    const touched = statSync(file, { throwIfNoEntry: false })?.mtimeMs;
    return touched !== undefined && Date.now() - touched < FOREIGN_DEAD_MS;
  }
  return isLiving(claim);
}

/** When a process began; null where the system does not tell. */
function beganAt(pid: number): string | null {
  try {
    // The command, in parentheses, may hold blanks; after it come the state and, 20th, the start. (proc_pid_stat(5))
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended and only waits for its parent, which in a container may never look.
    return state === 'Z' || state === 'X' ? 'ended' : (rest[18] ?? null);
  } catch {
    return process.platform === 'darwin' ? beganByPs(pid) : null;
  }
}

function beganByPs(pid: number): string | null {
  try {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      env: { LC_ALL: 'C' },
    }).trim();
  } catch {
    return null;
  }
}

function touchFile(file: string): void {
  const now = new Date();
  try {
    utimesSync(file, now, now);
  } catch {
    // Only observers on other hosts look at it; on this one the process itself is looked at.
  }
}

function remove(path: string, file: string): void {
  rmSync(file, { force: true });
  try {
    rmdirSync(path);
  } catch {
    // Others claim it.
  }
}

function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error ? String(error.code) : null;
}
