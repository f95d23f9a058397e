import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Reporter, TestCase, TestModule } from 'vitest/node';
import { claimedFaults } from './claims.js';
import { fullName, type Shown } from './rows.js';

/**
 * Where `npm test` writes which faults it showed, so that `npm run test:faults` adds them to its table and does not run
 * those tests again. CI sets it for both; unset, `test:faults` runs every test of a fault itself.
 */
export const SHOWN_BEFORE: string | undefined = process.env['FAULTS_SHOWN'];

/** What `npm test` has shown; none where it has not run, or where this run shows all by itself. */
export function shownBefore(): Shown[] {
  if (SHOWN_BEFORE === undefined || !existsSync(SHOWN_BEFORE)) return [];
  return JSON.parse(readFileSync(SHOWN_BEFORE, 'utf8'));
}

export function shownBy(test: TestCase): Shown {
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

/** Says at the start of `npm test` how long it takes, and at its end writes down the faults it showed. */
export default class ShownFaults implements Reporter {
  onTestRunStart(): void {
    console.log(
      '\nThis takes about four minutes on two free cores, and six on busy ones. It starts and stops its own servers.',
    );
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    if (SHOWN_BEFORE === undefined) return;
    const tests = modules.flatMap((module) => [...module.children.allTests()]).map(shownBy);
    const claiming = tests.filter((test) => claimedFaults(fullName(test)).length > 0);
    writeFileSync(SHOWN_BEFORE, JSON.stringify(claiming));
  }
}
