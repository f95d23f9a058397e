import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/faults/**'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Two files at a time: more would make the real servers of the tests starve each other.
    maxWorkers: 2,
  },
});
