import { lstatSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makePrivateFolder } from '../../folder.js';
import { type Board, LONGEST_POST, MOST_BYTES, MOST_POSTS, type Posted, type PostKind } from '../board.js';

/** Begins the name of a file that is being written. */
const UNDER_WAY = '.';
/** A file that was being written for so long belongs to a process that was killed, in milliseconds. */
const ABANDONED_MS = 60_000;
/** Bytes that the first line takes at most. */
const HEAD = 32;

/**
 * The board for the embedded store: files in the state directory, because only the process of a run can open its
 * database, and others want to see how it gets on. The first line of a file is its time to live.
 */
export class FileBoard implements Board {
  readonly #directory: string;

  /** @param stateDir its folder `board` is made when it is missing */
  constructor(stateDir: string) {
    this.#directory = join(stateDir, 'board');
  }

  async post(kind: PostKind, id: string, text: string, ttlMs: number): Promise<void> {
    const folder = join(this.#directory, kind);
    makePrivateFolder(folder);
    const name = fileOf(id);
    // A reader sees the whole post or the one before.
    const draft = join(folder, `${UNDER_WAY}${process.pid}-${name}`);
    writeFileSync(draft, `${ttlMs}\n${text}`, { mode: 0o600 });
    renameSync(draft, join(folder, name));
  }

  async posts(kind: PostKind, withinMs = Number.POSITIVE_INFINITY): Promise<readonly Posted[]> {
    const folder = join(this.#directory, kind);
    const newest = namesIn(folder)
      .flatMap((name) => heading(join(folder, name), name) ?? [])
      .filter(({ ageMs }) => ageMs <= withinMs)
      .sort((a, b) => a.ageMs - b.ageMs);
    const posts: Posted[] = [];
    let left = MOST_BYTES;
    for (const { id, file, size, ageMs } of newest) {
      const text = readPost(file, ageMs);
      if (text === null) continue;
      left -= size;
      if (left < 0 || posts.length >= MOST_POSTS) break;
      posts.push({ id, text, ageMs });
    }
    return posts;
  }

  async remove(kind: PostKind, id: string): Promise<void> {
    rmSync(join(this.#directory, kind, fileOf(id)), { force: true });
  }
}

/** A name that no id can leave the folder with. */
const fileOf = (id: string): string => encodeURIComponent(id).replaceAll('.', '%2E');

/** Null for a file that is none of ours. */
function idOf(name: string): string | null {
  try {
    return decodeURIComponent(name);
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

interface Heading {
  readonly id: string;
  readonly file: string;
  readonly size: number;
  readonly ageMs: number;
}

/** What a file is without a look into it; null for all that is no post: a folder, a pipe, a link, a file of another size. */
function heading(file: string, name: string): Heading | null {
  try {
    const stat = lstatSync(file);
    const ageMs = Math.max(0, Date.now() - stat.mtimeMs);
    if (name.startsWith(UNDER_WAY)) {
      if (ageMs >= ABANDONED_MS) rmSync(file, { force: true });
      return null;
    }
    const id = idOf(name);
    if (id === null || !stat.isFile() || stat.size > LONGEST_POST + HEAD) return null;
    return { id, file, size: stat.size, ageMs };
  } catch {
    // Taken down meanwhile, or nothing that this process may touch.
    return null;
  }
}

/** The text of a post; null for one that is over, which is taken down, and for one that is gone or closed to us. */
function readPost(file: string, ageMs: number): string | null {
  try {
    const content = readFileSync(file, 'utf8');
    const end = content.indexOf('\n');
    if (ageMs < Number(content.slice(0, end))) return content.slice(end + 1);
    rmSync(file, { force: true });
  } catch {}
  return null;
}

const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT';
