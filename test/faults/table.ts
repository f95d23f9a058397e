import type { RunnerTask, RunnerTestFile, RunnerTestSuite } from 'vitest';
import { DefaultReporter, type TestCase, type TestModule } from 'vitest/node';
import { FAULTS } from './catalogue.js';
import { CLAIM, claimedFaults } from './claims.js';
import { contradictions, fullName, linesOf } from './rows.js';
import { shownBefore, shownBy } from './shown.js';
import { tableText } from './text.js';

type RunEnd = Parameters<DefaultReporter['onTestRunEnd']>;

/**
 * The usual report, and after it a table of the faults that the tests of this run showed. The run fails when a
 * fault is neither shown nor listed as not covered, or both: the list cannot go out of date in silence.
 */
export default class FaultTable extends DefaultReporter {
  override async onTestRunEnd(...run: RunEnd): Promise<void> {
    super.onTestRunEnd(...run);
    const [modules] = run;
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const pattern = this.ctx.config.testNamePattern;
    const now = tests.map(shownBy).filter((test) => pattern?.test(fullName(test)) !== false);
    const lines = linesOf([...shownBefore(), ...now]);
    this.log(tableText(lines, FAULTS));
    if (await this.#isPart(modules)) return;
    const problems = [...contradictions(lines, FAULTS), ...unnumbered(tests)];
    if (problems.length === 0) return;
    this.error(`\n${problems.join('\n')}`);
    process.exitCode = 1;
  }

  /** Tests that the name pattern leaves out are not "skipped": they show no fault, and the default suite has them. */
  override reportTestSummary(files: RunnerTestFile[], errors: unknown[], leaks: number): void {
    const withTests = files
      .map((file) => ({ ...file, tasks: chosen(file, this.ctx.config.testNamePattern) }))
      .filter(({ tasks, result }) => tasks.length > 0 || result?.state === 'fail');
    super.reportTestSummary(withTests, errors, leaks);
  }

  /** Files or names given on the command line cover a part of the faults, and are not judged. */
  async #isPart(modules: readonly TestModule[]): Promise<boolean> {
    const all = await this.ctx.globTestSpecifications();
    return modules.length < all.length || this.ctx.config.testNamePattern?.source !== CLAIM.source;
  }
}

/** The tests of a suite that the pattern takes; a file that could not be loaded has none. */
function chosen(suite: RunnerTestSuite, pattern: RegExp | undefined, path = ''): RunnerTask[] {
  return suite.tasks.flatMap((task) => {
    const name = `${path} ${task.name}`;
    if (task.type === 'suite') return chosen(task, pattern, name);
    return pattern?.test(name) === false ? [] : task;
  });
}

/** The pattern would leave them out, here and in the default suite. */
const unnumbered = (tests: readonly TestCase[]): string[] =>
  tests
    .filter(
      ({ module, fullName }) =>
        /\btest\/faults\//.test(module.relativeModuleId) && claimedFaults(fullName).length === 0,
    )
    .map(
      ({ module, fullName }) =>
        `${module.relativeModuleId} > ${fullName} has no fault in its name, so nothing runs it`,
    );
