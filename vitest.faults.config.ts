import { defineConfig } from 'vitest/config';
import { CLAIM } from './test/faults/claims.js';

/**
 * `npm run test:faults`: every test that shows a fault, those of the default suite again and those of `test/faults`,
 * with real servers and processes that are killed. It ends with a table of what was shown.
 */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testNamePattern: new RegExp(CLAIM.source),
    reporters: ['./test/faults/table.ts'],
    globalSetup: ['test/support/folder-of-all.ts'],
    testTimeout: 180_000,
    hookTimeout: 60_000,
    // One more than the cores of CI: many of these tests wait for something that is away or asleep.
    maxWorkers: 3,
  },
});
