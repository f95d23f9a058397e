import { defineConfig } from 'vitest/config';

/** `npm run test:faults`: real servers and processes that are killed; slower than the default suite. */
export default defineConfig({
  test: {
    include: ['test/faults/**/*.test.ts'],
    testTimeout: 180_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
