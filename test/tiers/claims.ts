/** A test shows a fault when its number and a colon are in its name: `fault 34: …`, `faults 20 to 24: …`. */
const CLAIM = /\bfaults? (\d+(?:(?:, | and | to )\d+)*):/g;

/** The numbers that the full name of a test claims; `20 to 24` is five of them. */
export function claimedFaults(fullName: string): number[] {
  return [...fullName.matchAll(CLAIM)].flatMap(([, list = '']) =>
    list.split(/, | and /).flatMap((part) => {
      const [first = 0, last = first] = part.split(' to ').map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    }),
  );
}

/** The store that the names of a test's suites tell: `embedded`, `redis`, `several`, or `-`. */
export function storeNamed(suites: readonly string[]): string {
  const words = suites.join(' ').match(/\b(?:embedded|redis)\b/gi) ?? [];
  const [store = '-', ...others] = new Set(words.map((word) => word.toLowerCase()));
  return others.length > 0 ? 'several' : store;
}
