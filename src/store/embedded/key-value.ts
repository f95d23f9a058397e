import { lstatSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../../core/errors.js';
import { makePrivateFolder } from '../../core/folder.js';
import { acquireLock, type Lock, LockedError } from '../../core/lock.js';
import {
  type Cell,
  type Folder,
  type KeyValue,
  type Listed,
  LONGEST_TEXT,
  MOST_BYTES,
  MOST_LISTED,
} from '../key-value.js';

/** Name prefix of a file being written. */
const UNDER_WAY = '.';
/** A file still being written after this time, in ms, belongs to a killed process. */
const ABANDONED_MS = 60_000;
/** Maximum bytes of the first line. */
const HEAD = 32;
/** Pause before trying again a lock that another process holds, in ms. */
const AGAIN_MS = 3;
/** Attempts before a name is given up as unusable. */
const LOOKS = 300;

/**
 * Files in the state directory, because only the process of a run can open its store, but others watch its
 * progress, and runs of one state directory share a quota. The first line of a file is its time to live in
 * ms. Readers need no lock: every change is a rename.
 */
export class FileKeyValue implements KeyValue {
  readonly #directory: string;

  constructor(stateDir: string) {
    this.#directory = join(stateDir, 'board');
  }

  async get(folder: Folder, name: string): Promise<Cell> {
    return this.#look(folder, name);
  }

  async put(folder: Folder, name: string, text: string, ttlMs: number): Promise<void> {
    makePrivateFolder(join(this.#directory, folder));
    this.#write(folder, name, text, ttlMs);
  }

  async swap(
    folder: Folder,
    name: string,
    before: string | null,
    after: string,
    ttlMs: number,
  ): Promise<Cell> {
    makePrivateFolder(join(this.#directory, folder));
    const lock = await this.#lock(folder, name);
    try {
      const held = this.#look(folder, name);
      if (held.text !== before) return held;
      this.#write(folder, name, after, ttlMs);
      return { text: after, written: true, now: Date.now() };
    } finally {
      lock.release();
    }
  }

  async list(folder: Folder, withinMs = Number.POSITIVE_INFINITY): Promise<readonly Listed[]> {
    const newest = namesIn(join(this.#directory, folder))
      .flatMap((file) => this.#sizedOf(folder, file) ?? [])
      .filter(({ ageMs }) => ageMs <= withinMs)
      .sort((a, b) => a.ageMs - b.ageMs);
    const texts: Listed[] = [];
    let left = MOST_BYTES;
    for (const { name, path, size, ageMs } of newest) {
      const text = textOf(path, ageMs);
      if (text === OVER) rmSync(path, { force: true });
      if (typeof text !== 'string') continue;
      left -= size;
      if (left < 0 || texts.length >= MOST_LISTED) break;
      texts.push({ name, text, ageMs });
    }
    return texts;
  }

  async remove(folder: Folder, name: string): Promise<void> {
    rmSync(this.#path(folder, name), { force: true });
  }

  #path(folder: Folder, name: string): string {
    return join(this.#directory, folder, fileOf(name));
  }

  #look(folder: Folder, name: string): Cell {
    const path = this.#path(folder, name);
    const found = sized(path);
    const text = found && textOf(path, found.ageMs);
    return { text: text === OVER ? null : text, written: false, now: Date.now() };
  }

  #write(folder: Folder, name: string, text: string, ttlMs: number): void {
    const draft = join(this.#directory, folder, `${UNDER_WAY}${process.pid}-${fileOf(name)}`);
    writeFileSync(draft, `${ttlMs}\n${text}`, { mode: 0o600 });
    renameSync(draft, this.#path(folder, name));
  }

  async #lock(folder: Folder, name: string): Promise<Lock> {
    for (let look = 1; ; look++) {
      try {
        return await acquireLock(`${this.#path(folder, name)}.lock`, { purpose: `its ${folder}` });
      } catch (error) {
        if (!(error instanceof LockedError) || look === LOOKS) throw error;
        await sleep(AGAIN_MS);
      }
    }
  }

  /** Size and age of a file, without reading it; null when it holds no text. */
  #sizedOf(folder: Folder, file: string): (Sized & { name: string; path: string }) | null {
    const path = join(this.#directory, folder, file);
    const found = sized(path);
    if (file.startsWith(UNDER_WAY)) {
      if (found !== null && found.ageMs >= ABANDONED_MS) rmSync(path, { force: true });
      return null;
    }
    const name = nameOf(file);
    return found === null || name === null ? null : { ...found, name, path };
  }
}

/** File name of a text; no name can lead out of the folder. */
const fileOf = (name: string): string => encodeURIComponent(name).replaceAll('.', '%2E');

/** Null for a file that is not ours. */
function nameOf(file: string): string | null {
  try {
    return decodeURIComponent(file);
  } catch {
    return null;
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

interface Sized {
  readonly size: number;
  readonly ageMs: number;
}

/** Null for what is no text (a folder, a pipe, a link, too large a file) or is closed to this process. */
function sized(path: string): Sized | null {
  try {
    const stat = lstatSync(path);
    if (!stat.isFile() || stat.size > LONGEST_TEXT + HEAD) return null;
    return { size: stat.size, ageMs: Math.max(0, Date.now() - stat.mtimeMs) };
  } catch {
    return null;
  }
}

const OVER = Symbol('over');

/** Null for a file that is gone or closed to us. */
function textOf(path: string, ageMs: number): string | typeof OVER | null {
  try {
    const content = readFileSync(path, 'utf8');
    const end = content.indexOf('\n');
    return ageMs < Number(content.slice(0, end)) ? content.slice(end + 1) : OVER;
  } catch {
    return null;
  }
}

const isMissing = (error: unknown): boolean => errorCode(error) === 'ENOENT';
