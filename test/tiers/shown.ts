import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Reporter, TestCase, TestModule } from 'vitest/node';
import { claimedFaults } from './claims.js';
import { fullName, type Shown } from './rows.js';
import type { Tier } from './tiers.js';

/** How a tier has ended. */
export interface ShownTier {
  readonly tier: Tier;
  /** Each file, by its path, with how many of its tests passed and how many did not. */
  readonly files: Readonly<Record<string, { readonly passed: number; readonly failed: number }>>;
  /** The tests that claim faults. */
  readonly faults: readonly Shown[];
}

/** Where each tier writes what it has shown, for `npm run test:map`; unset, nothing is written. */
export const SHOWN: string | undefined = process.env['TESTS_SHOWN'];

/** Says at the start how long the tier takes, and at the end writes down what it has shown. */
export class ShownTests implements Reporter {
  constructor(
    private readonly tier: Tier,
    private readonly says: string,
  ) {}

  onTestRunStart(): void {
    console.log(`\n${this.says}`);
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    if (SHOWN === undefined) return;
    const files: Record<string, { passed: number; failed: number }> = {};
    const faults: Shown[] = [];
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      const failed = tests.filter((test) => test.result().state === 'failed').length;
      files[module.relativeModuleId] = {
        passed: tests.filter((test) => test.result().state === 'passed').length,
        // A file that cannot be loaded has no tests.
        failed: failed + module.errors().length,
      };
      faults.push(...tests.map(shownBy).filter((test) => claimedFaults(fullName(test)).length > 0));
    }
    const shown: ShownTier = { tier: this.tier, files, faults };
    mkdirSync(SHOWN, { recursive: true });
    writeFileSync(join(SHOWN, `${this.tier}.json`), JSON.stringify(shown));
  }
}

function shownBy(test: TestCase): Shown {
  const { state } = test.result();
  return {
    suites: suitesOf(test),
    name: test.name,
    state: state === 'pending' ? 'skipped' : state,
    figures: test.meta().fault,
  };
}

function suitesOf({ parent }: { readonly parent: TestCase['parent'] }): string[] {
  return parent.type === 'module' ? [] : [...suitesOf(parent), parent.name];
}
