import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode, UsageError } from './errors.js';
import { makeFolder } from './folder.js';

/** Identifies a process, so that others can find out whether it is alive. */
interface ProcessMark {
  readonly pid: number;
  readonly host: string;
  /** Start time as the system writes it; distinguishes the process from a later one with the same number. */
  readonly began: string | null;
  /** Boot and PID namespace of the number: containers may share folders and host name (fault 60). */
  readonly space: string;
}

interface Holder extends Pick<ProcessMark, 'pid' | 'host'> {
  /** For messages. */
  readonly purpose: string;
}

export interface Lock {
  /** The lock was taken from a silent holder that could not be inspected; it may wake up. */
  readonly tookOver: boolean;
  /** False when another process took the lock after too long a silence. Check before writing. */
  isHeld(): boolean;
  /** May be called twice. */
  release(): void;
}

/** Another living process holds the lock. */
export class LockedError extends UsageError {
  constructor(
    readonly path: string,
    readonly holder: Holder,
    hint = 'Wait until that process has ended, or end it.',
  ) {
    super('locked', `${path} is held by process ${holder.pid} on ${holder.host} (${holder.purpose})`, hint);
  }
}

/** For processes that cannot be inspected, because they are in another container or on another machine. */
export interface Patience {
  /** Milliseconds between signs of life of a claim. */
  readonly beatMs: number;
  /** Milliseconds of silence, while watched, after which a claim is dead. */
  readonly silentMs: number;
}

const PATIENCE: Patience = { beatMs: 5_000, silentMs: 30_000 };
/** Age of a dead claim when there is no time to watch it. */
const ABANDONED_MS = 24 * 60 * 60 * 1000;
/** Milliseconds between looks at a watched claim. */
const WATCH_MS = 100;
/** Milliseconds before the next try when others claim the lock at the same time. */
const AGAIN_MS = 5;
/** How often a claim yields to others that hold nothing before it reports one of them as the holder. */
const MAX_YIELDS = 200;

interface Claim extends Holder, ProcessMark {
  readonly held: boolean;
}

export const thisProcess = (): ProcessMark => ({
  pid: process.pid,
  host: hostname(),
  began: beganAt(process.pid),
  space: ownSpace(),
});

/** False for a process that cannot be inspected from here. */
export const isLiving = (mark: ProcessMark): boolean => isInSight(mark) && lives(mark);

/** False for a process that cannot be inspected from here: it may be alive. */
export const hasEnded = (mark: ProcessMark): boolean => isInSight(mark) && !lives(mark);

const isInSight = ({ space }: ProcessMark): boolean => space === ownSpace();

function lives({ pid, began }: ProcessMark): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is alive, and belongs to another user.
    if (errorCode(error) !== 'EPERM') return false;
  }
  const now = began === null ? null : beganAt(pid);
  return now === null || now === began;
}

interface LockOptions {
  /** Shown to the loser of a race. */
  readonly purpose: string;
  /** Called once, when a holder that cannot be inspected is being watched. */
  readonly onWatch?: ((holder: Holder, silentMs: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** False: a process that cannot be inspected counts as living, and is not watched. @default true */
  readonly watch?: boolean;
  /** @default 5 s, 30 s */
  readonly patience?: Patience;
}

/**
 * Takes a lock that ends with its process, in whatever way it ends (fault 39: after `kill -9` too, a new
 * process can take over at once).
 *
 * The lock is a folder of claims, one file per process that wants it. A process first writes its claim and
 * then reads the others, so the later of two racing processes always sees the earlier one, and claims of dead
 * processes need not be removed first. Nobody removes the claim of a process known to be alive, which is the
 * mistake of lock files that are replaced in place.
 *
 * A process in another container or on another machine cannot be inspected (fault 60). It touches its claim
 * while it is alive. Whoever wants the lock watches the claim by its own clock, since wall clocks jump, and
 * removes it after 30 s of silence, or after two beats if the claim is that old already. A process that was
 * only frozen finds its claim gone when it wakes: see {@link Lock.isHeld}.
 *
 * @param path the folder; made when missing, removed at the release
 * @throws LockedError when a living process holds it
 * @throws the signal's reason, or the file system's error when the folder cannot be written
 */
export async function acquireLock(path: string, options: LockOptions): Promise<Lock> {
  const { purpose, signal, watch = true, patience = PATIENCE } = options;
  const id = randomBytes(16).toString('hex');
  const file = join(path, id);
  const claim = { ...thisProcess(), purpose };
  const watched = new Watch(watch ? patience : null);
  let told = false;

  announce(path, file, { ...claim, held: false });
  try {
    for (let yields = 0; ; ) {
      const others = othersIn(path, id, watched);
      const holder = others.find((other) => other.claim.held && other.state === 'living');
      if (holder !== undefined) throw new LockedError(path, holder.claim);
      const [first] = others;
      // A process frozen since its last look may have lost its own claim; then it starts over.
      if (first === undefined && holdsNow(file, { ...claim, held: true })) break;
      const unsure = others.find((other) => other.state === 'unsure');
      if (unsure !== undefined && !watch) throw new LockedError(path, unsure.claim);
      if (unsure?.claim.held && !told) {
        told = true;
        options.onWatch?.(unsure.claim, patience.silentMs);
      }
      // Of several simultaneous claims the lowest id stays; the others step back and retry.
      const lowest = others.every((other) => id < other.id);
      if (!lowest) rmSync(file, { force: true });
      if (first !== undefined && unsure === undefined && ++yields > MAX_YIELDS)
        throw new LockedError(path, first.claim);
      await sleep(unsure === undefined ? AGAIN_MS : WATCH_MS, undefined, { signal });
      announce(path, file, { ...claim, held: false });
    }
  } catch (error) {
    remove(path, file);
    signal?.throwIfAborted();
    throw error;
  }

  const beat = setInterval(() => touchFile(file), patience.beatMs);
  beat.unref();
  return {
    tookOver: watched.buried,
    isHeld: () => existsSync(file),
    release: () => {
      clearInterval(beat);
      remove(path, file);
    },
  };
}

/** Writes a claim unless it exists. The folder may vanish meanwhile, when another process releases. */
function announce(path: string, file: string, claim: Claim): void {
  for (let attempt = 1; ; attempt++) {
    makeFolder(path);
    try {
      writeClaim(file, constants.O_CREAT | constants.O_EXCL, claim);
      return;
    } catch (error) {
      if (errorCode(error) === 'EEXIST') return;
      if (errorCode(error) === 'ENOENT' && attempt < 10) continue;
      // A full disk leaves an empty file, which would look like another process's claim.
      remove(path, file);
      throw error;
    }
  }
}

/** Marks the existing claim as holding the lock; false when it was removed. */
function holdsNow(file: string, claim: Claim): boolean {
  try {
    writeClaim(file, 0, claim);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

function writeClaim(file: string, flags: number, claim: Claim): void {
  const descriptor = openSync(file, constants.O_WRONLY | constants.O_NOFOLLOW | flags, 0o644);
  try {
    // One write without truncation, so that a reader sees the old claim or the new one: `true` is a letter
    // shorter than `false`, and a second line break at the end is harmless.
    writeSync(descriptor, `${JSON.stringify(claim)}\n`, 0);
  } finally {
    closeSync(descriptor);
  }
}

interface Other {
  readonly id: string;
  readonly claim: Claim;
  /** `unsure`: it cannot be inspected, and has shown no sign of life since watching began. */
  readonly state: 'living' | 'unsure';
}

function othersIn(path: string, own: string, watched: Watch): Other[] {
  const others: Other[] = [];
  for (const id of readdirSync(path)) {
    if (id === own) continue;
    const file = join(path, id);
    const claim = readClaim(file);
    if (claim === null) continue;
    const state = isInSight(claim) ? (lives(claim) ? 'living' : 'dead') : watched.look(id, file);
    if (state === 'dead') rmSync(file, { force: true });
    else others.push({ id, claim, state });
  }
  return others;
}

function readClaim(file: string): Claim | null {
  try {
    const text = readFileSync(file, 'utf8');
    const { pid, host, purpose, began, space, held } = JSON.parse(text);
    const mark = { pid: Number(pid), host: String(host), began, space: String(space) };
    return { ...mark, purpose: String(purpose), held: held === true };
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    // Half written: its owner is working now, or has died meanwhile, which watching shows.
    return { pid: 0, host: '', purpose: 'claiming it', began: null, space: '', held: false };
  }
}

/** Watches claims of processes that cannot be inspected, by this process's own clock. */
class Watch {
  readonly #seen = new Map<
    string,
    { readonly sign: string; readonly since: number; readonly beats: number }
  >();
  buried = false;

  /** @param patience null when there is no time to watch */
  constructor(private readonly patience: Patience | null) {}

  look(id: string, file: string): 'living' | 'unsure' | 'dead' {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found === undefined) return 'dead';
    const age = Date.now() - found.mtimeMs;
    if (this.patience === null) return age > ABANDONED_MS ? 'dead' : 'unsure';
    // If the clock shows a long silence already, two more missing beats are enough.
    const { beatMs, silentMs } = this.patience;
    const enough = age > silentMs ? Math.min(silentMs, 2.2 * beatMs) : silentMs;
    const sign = `${found.ino} ${found.mtimeMs}`;
    const now = performance.now();
    const before = this.#seen.get(id);
    if (before === undefined || before.sign !== sign) {
      this.#seen.set(id, { sign, since: now, beats: before === undefined ? 0 : 1 });
    } else if (now - before.since > enough) {
      this.buried = true;
      return 'dead';
    }
    return (this.#seen.get(id)?.beats ?? 0) > 0 ? 'living' : 'unsure';
  }
}

let space: string | null = null;

/** The boot of the machine and the PID namespace; the host when the system does not tell. */
function ownSpace(): string {
  space ??= spaceByProc() ?? `host ${hostname()}`;
  return space;
}

function spaceByProc(): string | null {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return null;
  }
}

/** Null when the system does not tell. */
function beganAt(pid: number): string | null {
  try {
    // The command, in parentheses, may contain blanks; state and (20th) start follow it. (proc_pid_stat(5))
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A zombie has ended and only waits for its parent, which in a container may never reap it.
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
    // Only observers that cannot inspect the process need the sign of life.
  }
}

function remove(path: string, file: string): void {
  rmSync(file, { force: true });
  try {
    rmdirSync(path);
  } catch {
    // Others still claim it.
  }
}
