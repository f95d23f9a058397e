import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { CLAIM } from './test/faults/claims.js';
import { SHOWN_BEFORE } from './test/faults/shown.js';

const LONG = join('test', 'faults');
/** The files with the beginning of a claim in them, its number told or put in; to load the others shows nothing. */
const CLAIMING = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => join('test', name))
  .filter(
    (path) =>
      path.startsWith(LONG) ||
      (SHOWN_BEFORE === undefined && /\bfaults? [\d$]/.test(readFileSync(path, 'utf8'))),
  );

/**
 * `npm run test:faults`: every test that shows a fault, those of the default suite and those of `test/faults`,
 * with real servers and processes that are killed. It ends with a table of what was shown. With `FAULTS_SHOWN` it takes
 * what the default suite has shown from there.
 */
export default defineConfig({
  test: {
    include: CLAIMING,
    testNamePattern: new RegExp(CLAIM.source),
    globalSetup: './test/support/servers.ts',
    reporters: ['./test/faults/table.ts'],
    // Only what hangs for good should fail by it: on a slow machine the longest take half of it.
    testTimeout: 300_000,
    hookTimeout: 120_000,
    // Of one second by default.
    expect: { poll: { timeout: 60_000 } },
    // Twice the cores of CI: many of these tests wait for something that is away or asleep.
    maxWorkers: 4,
  },
});
