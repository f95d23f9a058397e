import { UsageError } from './errors.js';

/** Longer words are not typos, and the distance costs the product of the lengths. */
const LONGEST = 80;

/** The candidate most similar to `word`, or `null` when none is close. Ignores case. */
export function nearest(word: string, candidates: Iterable<string>): string | null {
  if (word.length > LONGEST) return null;
  const wanted = word.toLowerCase();
  // One slip in a short word, a third of a longer one.
  let limit = Math.max(1, Math.floor(word.length / 3));
  let found: string | null = null;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - word.length) > limit) continue;
    const distance = slips(wanted, candidate.toLowerCase());
    if (distance > limit || (distance === limit && found !== null)) continue;
    [limit, found] = [distance, candidate];
  }
  return found;
}

/**
 * Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
 * Optimal string alignment: R. Wagner and R. Lowrance, "An Extension of the String-to-String Correction
 * Problem", 1975, with no edit inside a swapped pair.
 */
function slips(a: string, b: string): number {
  let older: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(previous, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped =
        a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(older, j - 2) + 1 : Number.POSITIVE_INFINITY;
      current.push(Math.min(at(previous, j) + 1, at(current, j - 1) + 1, replaced, swapped));
    }
    [older, previous] = [previous, current];
  }
  return at(previous, b.length);
}

const at = (row: readonly number[], index: number): number => row[index] ?? Number.POSITIVE_INFINITY;

/** Most names listed in a message: an input may have 500 columns. */
const LISTED = 20;

interface NameUse {
  readonly code: string;
  /** The user of the names, with the verb: `prompt uses`, `output.columns names`. */
  readonly user: string;
  /** The owner that lacks them: `samples/reviews.csv has`, `the record has`. */
  readonly owner: string;
  /** @default in double quotes */
  readonly quote?: (name: string) => string;
  /** What the names are. @default `column` */
  readonly kind?: string;
}

/** One error for all unknown names, each with the most similar known name. */
export function unknownNames(use: NameUse, names: readonly string[], known: readonly string[]): UsageError {
  const { quote = (name: string) => JSON.stringify(name), kind = 'column' } = use;
  const guesses = names.flatMap((name) => nearest(name, known) ?? []);
  const listed = known.slice(0, LISTED).join(', ');
  const more = known.length > LISTED ? ` and ${known.length - LISTED} more` : '';
  return new UsageError(
    use.code,
    `${use.user} ${list(names.map(quote), 'and')}, but ${use.owner} no such ${kind}${names.length > 1 ? 's' : ''}` +
      (guesses.length > 0 ? `; did you mean ${list([...new Set(guesses)].map(quote), 'and')}?` : ''),
    `${kind.charAt(0).toUpperCase()}${kind.slice(1)}s: ${listed}${more}.`,
  );
}

function list(words: readonly string[], last: string): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} ${last} ${words.at(-1)}`;
}
