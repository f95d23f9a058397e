import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { filesNamed, promisesIn, shownText, unshown } from './promises.js';
import type { ShownTier } from './shown.js';

const PAGE = `# Title

Shown by: nothing here is a name.

## One

Words.

Shown by: \`run/one\` (each row), \`faults/kill\`, and words with \`code\`.

## Two

No test.
`;

const tier = (name: ShownTier['tier'], files: ShownTier['files']): ShownTier => ({
  tier: name,
  files,
  faults: [],
});

test('a promise is a heading with the tests that are named under it', () => {
  expect(promisesIn(PAGE)).toEqual([{ heading: 'One', shownBy: ['run/one', 'faults/kill'] }]);
});

test('a promise is shown where each of its tests has run in some tier, and passed', () => {
  const promises = promisesIn(PAGE);
  const slow = tier('slow', { 'test/run/one.slow.test.ts': { passed: 3, failed: 0 } });
  const faults = tier('faults', { 'test/faults/kill.test.ts': { passed: 1, failed: 0 } });
  expect(unshown(promises, [slow, faults])).toEqual([]);
  expect(shownText('run/one', [slow, faults])).toBe('slow: 3 passed');
  expect(unshown(promises, [slow])).toHaveLength(1);
  for (const ended of [
    { passed: 0, failed: 0 },
    { passed: 2, failed: 1 },
  ])
    expect(unshown(promises, [slow, tier('faults', { 'test/faults/kill.test.ts': ended })])).toEqual([
      '"One" is to be shown by faults/kill, of which no test has run and passed',
    ]);
});

test('docs/guarantees.md names tests that are there', () => {
  const named = promisesIn(readFileSync('docs/guarantees.md', 'utf8')).flatMap(({ shownBy }) => shownBy);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !filesNamed(name).some((path) => existsSync(path)))).toEqual([]);
});
