import type { Fault } from '../faults/catalogue.js';
import { claimedFaults, storeNamed } from './claims.js';
import type { FaultFigures } from '../faults/figures.js';
import type { ShownTier } from './shown.js';
import type { Tier } from './tiers.js';

/** One test as it ended. */
export interface Shown {
  /** Names of its suites, outermost first. */
  readonly suites: readonly string[];
  readonly name: string;
  readonly state: 'passed' | 'failed' | 'skipped';
  readonly figures: FaultFigures | undefined;
}

/** As the name pattern of a run sees it. */
export const fullName = ({ suites, name }: Shown): string => [...suites, name].join(' ');

/** All tests of one fault in one tier and on one store. */
export interface Line extends FaultFigures {
  readonly fault: number;
  readonly tier: Tier;
  readonly store: string;
  readonly tests: number;
  /** The worst of its tests. */
  readonly state: Shown['state'];
}

const WORST_FIRST = ['failed', 'skipped', 'passed'] as const;

/** The table's lines by number, tier and store. Figures of several tests are added up. */
export function linesOf(tiers: readonly Pick<ShownTier, 'tier' | 'faults'>[]): Line[] {
  const lines = new Map<string, Line>();
  for (const { tier, faults } of tiers) {
    for (const test of faults) {
      const store = storeNamed(test.suites);
      for (const fault of new Set(claimedFaults(fullName(test)))) {
        const key = `${fault} ${tier} ${store}`;
        const line = lines.get(key) ?? { fault, tier, store, tests: 0, state: 'passed' };
        lines.set(key, withTest(line, test));
      }
    }
  }
  // By number; of one number, in the order in which the tiers ran.
  return [...lines.values()].sort((a, b) => a.fault - b.fault);
}

function withTest(line: Line, { state, figures = {} }: Shown): Line {
  const { rows, calls, repeated } = figures;
  return {
    ...line,
    tests: line.tests + 1,
    state: WORST_FIRST.find((each) => each === state || each === line.state) ?? state,
    ...(rows !== undefined && { rows: rows + (line.rows ?? 0) }),
    ...(calls !== undefined && { calls: calls + (line.calls ?? 0) }),
    ...(repeated !== undefined && { repeated: repeated + (line.repeated ?? 0) }),
  };
}

/** Where the tests that ran and the catalogue do not say the same; empty when they do. */
export function contradictions(lines: readonly Line[], catalogue: readonly Fault[]): string[] {
  const ran = new Set(lines.filter(({ state }) => state !== 'skipped').map(({ fault }) => fault));
  const known = new Set(catalogue.map(({ number }) => number));
  return [
    ...catalogue.flatMap(({ number, absent }) => {
      if (ran.has(number) && absent !== undefined) {
        return `fault ${number} is listed as not covered, and a test of it ran: take it off the list`;
      }
      if (ran.has(number) || absent !== undefined) return [];
      return `fault ${number} is neither shown by a test that ran nor listed as not covered`;
    }),
    ...[...new Set(lines.map(({ fault }) => fault))]
      .filter((fault) => !known.has(fault))
      .map((fault) => `fault ${fault} is in the name of a test and not in the catalogue`),
  ];
}
