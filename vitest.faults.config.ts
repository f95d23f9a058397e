import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
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
/** A mock takes the place of a module only where nothing has loaded it before; what is measured is to be that of the test. */
const ALONE = CLAIMING.filter((path) =>
  /\bvi\.mock\(|\b(?:memory|cpu)Usage\(/.test(readFileSync(path, 'utf8')),
);

/** Those that take longest, most of it waiting, and those that take longest of all. */
const LONG_WAITS = [
  ...['process-workers', 'hold', 'lost-entries', 'process-signals', 'service-down', 'store-frozen'],
  ...['machine-limits', 'store-unusable', 'away', 'clock-changes', 'odd-posts', 'one-writer', 'lost-ledger'],
  ...['million-rows', 'large-answers', 'asked-again', 'lost-outcomes', 'retry', 'verdict-table', 'kill'],
  ...[
    'soak',
    'quota-for-ever',
    'store-killed',
    'process-asleep',
    'busy-server',
    'same-queue',
    'cut-part-file',
  ],
];

/** They begin first: one that began last would leave the other workers nothing to do. The others begin by their size. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean =>
      LONG_WAITS.includes(basename(moduleId, '.test.ts'));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

/**
 * `npm run test:faults`: every test that shows a fault, those of the default suite and those of `test/faults`,
 * with real servers and processes that are killed. It ends with a table of what was shown. With `FAULTS_SHOWN` it takes
 * what the default suite has shown from there.
 */
export default defineConfig({
  test: {
    testNamePattern: new RegExp(CLAIM.source),
    reporters: ['./test/faults/table.ts'],
    // Only what hangs for good should fail by it: on a slow machine the longest take half of it.
    testTimeout: 300_000,
    hookTimeout: 120_000,
    // Of one second by default.
    expect: { poll: { timeout: 60_000 } },
    // More than the cores of CI: many of these tests wait for something that is away or asleep.
    maxWorkers: 5,
    sequence: { sequencer: LongestFirst },
    projects: [
      // As in the default suite: what one file has loaded the next need not load anew.
      {
        extends: true,
        test: { name: 'together', include: CLAIMING, exclude: ALONE, isolate: false },
      },
      { extends: true, test: { name: 'apart', include: ALONE } },
    ],
  },
});
