import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Board, MOST_POSTS, type Posted, type PostKind } from '../fleet/board.js';

/** Begins the name of a file that is being written. */
const UNDER_WAY = '.';
/** A file that was being written for so long belongs to a process that was killed, in milliseconds. */
const ABANDONED_MS = 60_000;

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
    mkdirSync(folder, { recursive: true });
    const name = fileOf(id);
    // A reader sees the whole post or the one before.
    const draft = join(folder, `${UNDER_WAY}${process.pid}-${name}`);
    writeFileSync(draft, `${ttlMs}\n${text}`);
    renameSync(draft, join(folder, name));
  }

  async posts(kind: PostKind, withinMs = Number.POSITIVE_INFINITY): Promise<readonly Posted[]> {
    const folder = join(this.#directory, kind);
    const posts: Posted[] = [];
    for (const name of namesIn(folder)) {
      const found = readPost(join(folder, name), name.startsWith(UNDER_WAY));
      const id = idOf(name);
      if (found !== null && id !== null && found.ageMs <= withinMs) posts.push({ id, ...found });
    }
    return posts.sort((a, b) => a.ageMs - b.ageMs).slice(0, MOST_POSTS);
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

/** @returns null for a post that is over, which is taken down, and for one that another process took down meanwhile */
function readPost(file: string, isDraft: boolean): { text: string; ageMs: number } | null {
  try {
    const ageMs = Math.max(0, Date.now() - statSync(file).mtimeMs);
    const content = isDraft ? '' : readFileSync(file, 'utf8');
    const end = content.indexOf('\n');
    if (ageMs < (isDraft ? ABANDONED_MS : Number(content.slice(0, end)))) {
      return isDraft ? null : { text: content.slice(end + 1), ageMs };
    }
    rmSync(file, { force: true });
    return null;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT';
