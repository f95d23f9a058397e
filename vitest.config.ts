import { readdirSync, readFileSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

const files = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts') && !name.startsWith('faults'))
  .map((name) => join('test', name));
/** A mock takes the place of a module only where nothing has loaded it before. */
const mocking = files.filter((path) => /\bvi\.mock\(/.test(readFileSync(path, 'utf8')));

/**
 * Where there is room, temporary files are kept in memory: most tests begin with an embedded store of 300 files, and a third of the
 * processor time went to the disk. `test:faults` stays on the disk.
 */
const MEMORY = '/dev/shm';
const ROOM = 4 * 2 ** 30;
if (process.env['TMPDIR'] === undefined && freeBytes(MEMORY) > ROOM) process.env['TMPDIR'] = MEMORY;

function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

export default defineConfig({
  test: {
    reporters: ['default', './test/faults/shown.ts'],
    globalSetup: ['test/support/folder-of-all.ts'],
    // Only what hangs for good should fail by it: the machines of CI are slow and busy.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Of one second by default.
    expect: { poll: { timeout: 60_000 } },
    // One more than the cores of CI: these tests wait for processes and servers a fifth of their time.
    maxWorkers: 3,
    projects: [
      // To load what the files before have loaded anew took a tenth of the time of all.
      {
        extends: true,
        test: {
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: ['test/faults/**', ...mocking],
          isolate: false,
        },
      },
      { extends: true, test: { name: 'apart', include: mocking } },
    ],
  },
});
