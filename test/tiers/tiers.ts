import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { ShownTests } from './shown.js';

/** CONTRIBUTING.md says what belongs to each. */
export type Tier = 'test' | 'slow' | 'faults';

/** Told by the name of a test file. */
function tierOf(path: string): Tier {
  if (path.startsWith(join('test', 'faults'))) return 'faults';
  return path.endsWith('.slow.test.ts') ? 'slow' : 'test';
}

interface TierOptions {
  /** More than the cores of CI where tests wait for processes and servers. */
  readonly maxWorkers: number;
  /** Only what hangs for good should fail by it: the machines of CI are slow and busy. */
  readonly timeoutMs: number;
  /** The files that take longest: one that began last would leave the other workers nothing to do. */
  readonly first?: readonly string[];
  /** Printed at the start. */
  readonly says: string;
}

/** What `vitest` runs for a tier. */
export function tierConfig(tier: Tier, { maxWorkers, timeoutMs, first = [], says }: TierOptions) {
  const files = readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join('test', name))
    .filter((path) => tierOf(path) === tier);
  // A mock replaces a module only if nothing has loaded it before, and memory and CPU are to be those of one file alone.
  const apart = files.filter((path) =>
    /\bvi\.mock\(|\b(?:memory|cpu)Usage\(/.test(readFileSync(path, 'utf8')),
  );
  const together = files.filter((path) => !apart.includes(path));
  const gone = first.filter((name) => !files.includes(join('test', `${name}.test.ts`)));
  if (gone.length > 0) throw new Error(`no test of the tier ${tier} is named ${gone.join(', ')}`);

  class LongestFirst extends BaseSequencer {
    override async sort(specifications: TestSpecification[]): Promise<TestSpecification[]> {
      const sorted = await super.sort(specifications);
      const place = ({ moduleId }: TestSpecification): number => {
        const at = first.findIndex((name) => moduleId.endsWith(join('test', `${name}.test.ts`)));
        return at < 0 ? first.length : at;
      };
      return sorted.toSorted((a, b) => place(a) - place(b));
    }
  }

  return defineConfig({
    test: {
      reporters: ['default', new ShownTests(tier, says)],
      testTimeout: timeoutMs,
      hookTimeout: 120_000,
      // Of one second by default.
      expect: { poll: { timeout: 60_000 } },
      maxWorkers,
      sequence: { sequencer: LongestFirst },
      projects: [
        // Without isolation the next file reuses what one has loaded, which saves a tenth of the time.
        { extends: true, test: { name: 'together', include: together, isolate: false } },
        { extends: true, test: { name: 'apart', include: apart } },
      ],
    },
  });
}
