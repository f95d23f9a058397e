import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FAULTS } from '../faults/catalogue.js';
import { tableText } from './fault-text.js';
import { promisesIn, shownText, unshown } from './promises.js';
import { contradictions, linesOf } from './rows.js';
import { SHOWN, type ShownTier } from './shown.js';

/**
 * `npm run test:map`: which tier has shown each promise of docs/guarantees.md and each fault of the catalogue. It fails
 * where one is shown in none, and where a fault that is listed as not covered is shown after all.
 */
if (SHOWN === undefined) {
  console.error(
    'Set TESTS_SHOWN to a folder, and run npm test, test:slow and test:faults with it before this.',
  );
  process.exit(2);
}
const folder = SHOWN;
const paths = ['test', 'slow', 'faults'].map((tier) => join(folder, `${tier}.json`));
const missing = paths.filter((path) => !existsSync(path));
if (missing.length > 0) {
  console.error(`Not run yet, or not to its end: ${missing.join(', ')}`);
  process.exit(2);
}
const tiers: ShownTier[] = paths.map((path) => JSON.parse(readFileSync(path, 'utf8')));
const promises = promisesIn(readFileSync('docs/guarantees.md', 'utf8'));
for (const { heading, shownBy } of promises) {
  console.log(`\n${heading}`);
  for (const name of shownBy) console.log(`    ${name.padEnd(32)}${shownText(name, tiers) ?? 'NOT RUN'}`);
}
const lines = linesOf(tiers);
console.log(`\n${tableText(lines, FAULTS)}`);
const problems = [...unshown(promises, tiers), ...contradictions(lines, FAULTS)];
if (problems.length > 0) {
  console.error(`\n${problems.join('\n')}`);
  process.exit(1);
}
