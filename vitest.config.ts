import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/faults/**'],
    // Only what hangs for good should fail by it: the machines of CI are slow and busy.
    globalSetup: ['test/support/folder-of-all.ts'],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // Two files at a time: more would make the real servers of the tests starve each other.
    maxWorkers: 2,
  },
});
