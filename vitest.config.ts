import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/faults/**'],
    reporters: ['default', './test/faults/shown.ts'],
    globalSetup: ['test/support/folder-of-all.ts'],
    // Only what hangs for good should fail by it: the machines of CI are slow and busy.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // One more than the cores of CI: these tests wait for processes and servers a fifth of their time.
    maxWorkers: 3,
  },
});
