import { execFileSync } from 'node:child_process';
import {
  closeSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  rmdirSync,
  rmSync,
  statfsSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'vitest';
import { describeMissing } from './stores.js';

/** A real file system that is small enough to be filled to its last block. */
export interface SmallDisk {
  /** Where it is mounted. */
  readonly path: string;
  /** Takes all space that is left, but for so many blocks. @default 0 */
  fill(blocksLeft?: number): void;
  /** Gives back what `fill` took. */
  free(): void;
  /** Makes it read-only for everybody, the superuser included, or writable again. */
  setReadOnly(on: boolean): void;
  /** Makes it larger. */
  grow(kib: number): void;
  /** Unmounts it, with all that is on it. */
  remove(): void;
}

/** Mounts a disk of so many KiB. It goes with the process of the test, if not before. */
export function mountSmallDisk(kib: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'promptmill-disk-'));
  const filler = join(path, '.filler');
  mount('-t', 'tmpfs', '-o', `size=${kib}k`, 'promptmill-test', path);
  const remove = (): void => {
    process.off('exit', remove);
    // Lazily, because a process that a test has just killed may still hold a file.
    execFileSync('umount', ['--lazy', path]);
    rmdirSync(path);
  };
  process.on('exit', remove);
  return {
    path,
    fill: (blocksLeft = 0) => {
      const { bsize } = statfsSync(path);
      const file = openSync(filler, 'w');
      let size = 0;
      try {
        for (;;) size += writeSync(file, Buffer.alloc(bsize));
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
        ftruncateSync(file, size - blocksLeft * bsize);
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler, { force: true }),
    setReadOnly: (on) => mount('-o', `remount,${on ? 'ro' : 'rw'}`, path),
    grow: (to) => mount('-o', `remount,size=${to}k`, path),
    remove,
  };
}

/**
 * Runs a suite that mounts small disks. Only the superuser may; for others, and where the system refuses it to
 * him too (a container), it does not run and says so. With CI=true a refused superuser is a failure.
 */
export function describeWithSmallDisk(name: string, suite: () => void): void {
  const refusal = whyNoMount();
  if (refusal === null) {
    describe(name, suite);
    return;
  }
  if (process.getuid?.() === 0) {
    describeMissing(name, `a mount of tmpfs: ${refusal}`);
    return;
  }
  console.warn(`NOT RUN: ${name}. Needs the superuser, who can mount a small disk.`);
  describe.skip(`${name} (needs the superuser)`, () => {});
}

function whyNoMount(): string | null {
  try {
    mountSmallDisk(64).remove();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}

function mount(...args: string[]): void {
  execFileSync('mount', args, { stdio: 'pipe' });
}
