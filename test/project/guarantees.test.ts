import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test('docs/guarantees.md names tests that are there', () => {
  const page = readFileSync('docs/guarantees.md', 'utf8');
  const shown = page.split('\n\n').filter((paragraph) => paragraph.startsWith('Shown by:'));
  const named = shown.flatMap((paragraph) =>
    [...paragraph.matchAll(/`((?:[a-z-]+\/)+[a-z-]+)`/g)].map(([, name]) => name),
  );
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !existsSync(`test/${name}.test.ts`))).toEqual([]);
});
