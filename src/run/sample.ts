import { UsageError } from '../core/errors.js';
import { count } from '../core/figures.js';
import { valueText } from '../core/json.js';
import type { Row } from '../core/model.js';
import { fingerprintOf, randomFrom } from '../core/random.js';
import { Reservoir, shared } from '../core/reservoir.js';
import type { Settings } from '../config/settings.js';

/** Values of a `--by` column. */
const MOST_VALUES = 1_000;

/** Chooses rows at random while the input is read. Keeps at most twice as many numbers as are wanted. */
export class RowSample {
  /** By a hash of the value, as values may be long. */
  readonly #groups = new Map<number, Reservoir<number>>();
  /** Most rows of one value; it shrinks as more rows are read. */
  #share: number;
  #kept = 0;

  constructor(
    private readonly wanted: NonNullable<Settings['input']['sample']>,
    private readonly name: string,
  ) {
    this.#share = wanted.rows;
  }

  /** @throws UsageError `too_many_values` */
  offer({ number, fields }: Row): void {
    const { by, rows } = this.wanted;
    const group = this.#groupOf(by === null ? '' : valueText(fields.get(by) ?? null));
    const { length } = group.kept;
    group.offer(() => number);
    this.#kept += group.kept.length - length;
    if (this.#kept <= 2 * rows) return;
    this.#share = Math.max(...this.#shares().values());
    for (const each of this.#groups.values()) each.shrink(this.#share);
    this.#kept = [...this.#groups.values()].reduce((sum, { kept }) => sum + kept.length, 0);
  }

  /** In input order. */
  numbers(): readonly number[] {
    for (const [group, share] of this.#shares()) group.shrink(share);
    return [...this.#groups.values()].flatMap(({ kept }) => kept).sort((a, b) => a - b);
  }

  #shares(): Map<Reservoir<number>, number> {
    const sizes = new Map([...this.#groups.values()].map((group) => [group, group.seen]));
    return shared(sizes, this.wanted.rows);
  }

  #groupOf(value: string): Reservoir<number> {
    const key = fingerprintOf(value);
    const known = this.#groups.get(key);
    if (known !== undefined) return known;
    if (this.#groups.size === MOST_VALUES) {
      throw new UsageError(
        'too_many_values',
        `--by ${this.wanted.by}: the column has more than ${count(MOST_VALUES)} values in ${this.name}, too many for a sample with rows of each`,
        'Name a column with classes, or leave out --by.',
      );
    }
    const group = new Reservoir<number>(this.#share, randomFrom(this.wanted.seed, value));
    this.#groups.set(key, group);
    return group;
  }
}

/** The rows with these numbers, renumbered from 1. */
export async function* picked(rows: AsyncIterable<Row>, numbers: readonly number[]): AsyncGenerator<Row> {
  let next = 0;
  if (numbers.length === 0) return;
  for await (const row of rows) {
    if (row.number !== numbers[next]) continue;
    next++;
    yield { ...row, number: next };
    if (next === numbers.length) return;
  }
}
