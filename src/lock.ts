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

/** A process, so that another can find out whether it still lives. */
interface ProcessMark {
  readonly pid: number;
  readonly host: string;
  /** When the process began, in the words of its system: tells it from a later one with the same number. */
  readonly began: string | null;
  /**
   * Where the number means this process: a boot of a machine and a namespace of process numbers. Containers may share
   * their folders and a host name and have numbers of their own (fault 60).
   */
  readonly space: string;
}

/** Who holds a lock, as far as its file says. */
interface Holder extends Pick<ProcessMark, 'pid' | 'host'> {
  /** What the holder does with what it locked, in words for people. */
  readonly purpose: string;
}

/** A lock that this process holds. */
export interface Lock {
  /** A holder that could not be looked at, and was silent, has lost the lock to this one; it may wake up. */
  readonly tookOver: boolean;
  /**
   * Whether the lock is still ours. One that gave no sign of life for too long has lost it to another, which it finds
   * out here, before it writes anything.
   */
  isHeld(): boolean;
  /** Gives the lock up. Safe to call twice. */
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

/** How a process is judged that cannot be looked at, because it is in another container or on another machine. */
export interface Patience {
  /** A claim shows that its process lives so often, in milliseconds. */
  readonly beatMs: number;
  /** A claim that showed nothing while it was watched for so long is taken for dead. */
  readonly silentMs: number;
}

const PATIENCE: Patience = { beatMs: 5_000, silentMs: 30_000 };
/** A claim that nobody has time to watch is taken for dead after a day. */
const ABANDONED_MS = 24 * 60 * 60 * 1000;
/** Pause between two looks at a claim that is watched. */
const WATCH_MS = 100;
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
  space: ownSpace(),
});

/** Whether a process lives that can be looked at from here; any other counts as ended. */
export const isLiving = (mark: ProcessMark): boolean => isInSight(mark) && lives(mark);

/** Whether a process is seen to have ended; one that cannot be looked at from here may live. */
export const hasEnded = (mark: ProcessMark): boolean => isInSight(mark) && !lives(mark);

/** Whether the number of a process means the same here. */
const isInSight = ({ space }: ProcessMark): boolean => space === ownSpace();

function lives({ pid, began }: ProcessMark): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it lives, and belongs to somebody else.
    if (errorCode(error) !== 'EPERM') return false;
  }
  const now = began === null ? null : beganAt(pid);
  return now === null || now === began;
}

interface LockOptions {
  /** What is done under the lock; the loser of a race is told. */
  readonly purpose: string;
  /** Told once, when the lock is held by a process that cannot be looked at and is watched now. */
  readonly onWatch?: ((holder: Holder, silentMs: number) => void) | undefined;
  /** Ends the watching. */
  readonly signal?: AbortSignal | undefined;
  /** False: a process that cannot be looked at counts as living, and is not watched. @default true */
  readonly watch?: boolean;
  /** @default 5 s, 30 s */
  readonly patience?: Patience;
}

/**
 * Takes a lock that ends with its process, however that ends (fault 39: also `kill -9`, and a new process can
 * take over at once).
 *
 * The lock is a folder of claims, one file for each process that wants it. A process writes its claim first and
 * looks at the others after that; so of two that race, the later one always sees the earlier one, and claims of
 * dead processes need not be taken away before the lock can be had. Nobody removes the claim of a process that is
 * seen to live, which is where lock files that are replaced in place go wrong.
 *
 * A process in another container or on another machine cannot be looked at (fault 60). It touches its claim while it
 * lives; whoever wants the lock watches the claim by a clock of its own, since wall clocks jump, and removes it when
 * nothing came for 30 s, or for two beats when it is that old already. A process that was only frozen finds its claim
 * gone when it wakes: see {@link Lock.isHeld}.
 *
 * @param path the folder; made when it is missing, removed at the release
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
      // Frozen since it looked, it may have been taken for dead itself: then it begins again.
      if (first === undefined && holdsNow(file, { ...claim, held: true })) break;
      const unsure = others.find((other) => other.state === 'unsure');
      if (unsure !== undefined && !watch) throw new LockedError(path, unsure.claim);
      if (unsure?.claim.held && !told) {
        told = true;
        options.onWatch?.(unsure.claim, patience.silentMs);
      }
      // Of several that claim at once the lowest id stays; the others step back and try again.
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

/** Writes a claim, unless it is there; the folder may vanish meanwhile, when another process releases. */
function announce(path: string, file: string, claim: Claim): void {
  for (let attempt = 1; ; attempt++) {
    makeFolder(path);
    try {
      writeClaim(file, constants.O_CREAT | constants.O_EXCL, claim);
      return;
    } catch (error) {
      if (errorCode(error) === 'EEXIST') return;
      if (errorCode(error) === 'ENOENT' && attempt < 10) continue;
      // On a full disk there is a file and nothing in it, which would pass for the claim of somebody else.
      remove(path, file);
      throw error;
    }
  }
}

/** Says in a claim that is still there that it holds the lock; false when somebody has removed it. */
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
    // In one write and not cut first, so that a reader sees the old claim or the new one: `true` is a letter shorter than
    // `false`, and a second line break at the end does no harm.
    writeSync(descriptor, `${JSON.stringify(claim)}\n`, 0);
  } finally {
    closeSync(descriptor);
  }
}

/** What is known of another process that claims the lock. */
interface Other {
  readonly id: string;
  readonly claim: Claim;
  /** `unsure`: it cannot be looked at, and has given no sign of life since it is watched. */
  readonly state: 'living' | 'unsure';
}

/** The claims of other processes; those of dead ones are swept away. */
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

/** @returns null when the claim is gone */
function readClaim(file: string): Claim | null {
  try {
    const text = readFileSync(file, 'utf8');
    const { pid, host, purpose, began, space, held } = JSON.parse(text);
    const mark = { pid: Number(pid), host: String(host), began, space: String(space) };
    return { ...mark, purpose: String(purpose), held: held === true };
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    // Half written: its owner is at work now, or died over it, which is told by watching.
    return { pid: 0, host: '', purpose: 'claiming it', began: null, space: '', held: false };
  }
}

/** Watches claims of processes that cannot be looked at, by this process's own clock. */
class Watch {
  readonly #seen = new Map<
    string,
    { readonly sign: string; readonly since: number; readonly beats: number }
  >();
  /** A claim was taken for dead. */
  buried = false;

  /** @param patience null: there is no time to watch */
  constructor(private readonly patience: Patience | null) {}

  look(id: string, file: string): 'living' | 'unsure' | 'dead' {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found === undefined) return 'dead';
    const age = Date.now() - found.mtimeMs;
    if (this.patience === null) return age > ABANDONED_MS ? 'dead' : 'unsure';
    // Where the clock says that it was silent for long already, two more beats that do not come are enough.
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

/** The boot of the machine and the namespace of process numbers; where the system does not tell, the host. */
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
    // Only observers who cannot look at the process itself look at it.
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
