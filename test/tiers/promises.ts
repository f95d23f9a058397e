import type { ShownTier } from './shown.js';

/** A promise of docs/guarantees.md, and the tests that it names. */
export interface Promised {
  readonly heading: string;
  /** Paths below `test`, without the ending. */
  readonly shownBy: readonly string[];
}

/** The headings of a page that have a paragraph "Shown by: …", with the names in it. */
export function promisesIn(page: string): Promised[] {
  return page.split(/^## /m).flatMap((section) => {
    const [heading = '', ...paragraphs] = section.split('\n\n');
    const named = paragraphs
      .filter((paragraph) => paragraph.startsWith('Shown by:'))
      .flatMap((paragraph) => [...paragraph.matchAll(/`((?:[a-z-]+\/)+[a-z-]+)`/g)])
      .flatMap(([, name = '']) => name);
    return named.length === 0 ? [] : [{ heading, shownBy: [...new Set(named)] }];
  });
}

/** The files that a name may mean: in which tier a test is is no part of its name. */
export const filesNamed = (name: string): string[] => [`test/${name}.test.ts`, `test/${name}.slow.test.ts`];

/** Where and how a named test ended: `faults: 12 passed`. Null when no tier that ran has it. */
export function shownText(name: string, tiers: readonly ShownTier[]): string | null {
  for (const path of filesNamed(name)) {
    for (const { tier, files } of tiers) {
      const ended = files[path];
      if (ended === undefined) continue;
      return `${tier}: ${ended.passed} passed${ended.failed > 0 ? `, ${ended.failed} FAILED` : ''}`;
    }
  }
  return null;
}

/** Why a promise is not shown; empty when each named test has run somewhere and passed. */
export function unshown(promises: readonly Promised[], tiers: readonly ShownTier[]): string[] {
  return promises.flatMap(({ heading, shownBy }) =>
    shownBy.flatMap((name) => {
      const ends = filesNamed(name).flatMap((path) => tiers.flatMap(({ files }) => files[path] ?? []));
      const hasPassed = ends.some(({ passed, failed }) => passed > 0 && failed === 0);
      return hasPassed ? [] : [`"${heading}" is to be shown by ${name}, of which no test has run and passed`];
    }),
  );
}
