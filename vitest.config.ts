import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

const files = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts') && !name.startsWith('faults'))
  .map((name) => join('test', name));
/** A mock takes the place of a module only where nothing has loaded it before. */
const mocking = files.filter((path) => /\bvi\.mock\(/.test(readFileSync(path, 'utf8')));

export default defineConfig({
  test: {
    reporters: ['default', './test/faults/shown.ts'],
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
