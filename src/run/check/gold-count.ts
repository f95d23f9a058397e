import { type Gold, goldReader } from '../../answer/gold.js';
import type { Settings } from '../../config/settings.js';
import { valueText } from '../../core/json.js';
import type { Row } from '../../core/model.js';

/** The right answers that the input has. */
export interface GoldCounts {
  readonly column: string;
  /** Rows with one. */
  readonly rows: number;
  /** How often each label or number is right, the most frequent first, but whole numbers by size; empty for JSON. Of a row with several, each. */
  readonly answers: { readonly [answer: string]: number };
  /** Values that have no place in `answer.gold.map`, and their rows: the first 20 of them. */
  readonly unmapped: { readonly [value: string]: number };
}

/** Most answers and values that are kept apart. */
const MOST = { answers: 1_000, unmapped: 20 } as const;
const LONGEST_VALUE = 60;

/** Memory does not grow with the number of rows. */
export class GoldCount {
  readonly #read: (row: Row) => Gold | null;
  readonly #answers = new Map<string, number>();
  readonly #unmapped = new Map<string, number>();
  #rows = 0;

  private constructor(
    private readonly column: string,
    read: (row: Row) => Gold | null,
  ) {
    this.#read = read;
  }

  /** Null for a job without gold. */
  static of(settings: Settings, input: string): GoldCount | null {
    const read = goldReader(settings, input);
    return read === null || settings.gold === null ? null : new GoldCount(settings.gold, read);
  }

  add(row: Row): void {
    const gold = this.#read(row);
    if (gold === null) {
      const text = valueText(row.fields.get(this.column) ?? null).trim();
      if (text !== '' && row.problem === undefined)
        countIn(this.#unmapped, text.slice(0, LONGEST_VALUE), MOST.unmapped);
      return;
    }
    this.#rows++;
    const answers = gold.kind === 'label' ? [gold.label] : gold.kind === 'labels' ? gold.labels : [];
    for (const answer of answers) countIn(this.#answers, answer, MOST.answers);
  }

  result(): GoldCounts {
    const sorted = (counts: ReadonlyMap<string, number>) =>
      Object.fromEntries([...counts].sort(([, a], [, b]) => b - a));
    return {
      ...{ column: this.column, rows: this.#rows },
      ...{ answers: sorted(this.#answers), unmapped: sorted(this.#unmapped) },
    };
  }
}

function countIn(counts: Map<string, number>, name: string, most: number): void {
  if (counts.has(name) || counts.size < most) counts.set(name, (counts.get(name) ?? 0) + 1);
}
