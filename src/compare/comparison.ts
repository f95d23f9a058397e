import { byName, MOST_LABELS } from '../account/gold-tally.js';
import { type Confusion, cohenKappa } from '../account/score.js';
import { NAME_LENGTH, OTHER } from '../account/tally.js';
import type { NormalizedAnswer } from './normalized-answer.js';

export interface Agreement {
  readonly rows: number;
  readonly changed: number;
  /** Share of unchanged rows, from 0 to 1; `null` without rows. */
  readonly agreement: number | null;
}

/** For one property of JSON answers, or one label if a row may have several. */
export interface PartAgreement extends Agreement {
  readonly kappa: number | null;
  /** `(none)`: the row does not have it. */
  readonly transitions: Transitions;
}

export interface Compared extends Agreement {
  /** Cohen's, over all transitions; `null` if undefined, and beyond 100 different answers. */
  readonly kappa: number | null;
  readonly transitions: Transitions;
  /** Rows neither failed nor skipped in either output. */
  readonly answered: Agreement;
  /** By name, if answers have parts; of the rows with an answer in both. */
  readonly parts: { readonly [name: string]: PartAgreement } | null;
}

/** Properties or labels compared one by one, and distinct values of each. */
const PARTS = { names: 100, values: 20 } as const;

export class Comparison {
  readonly #all = new Count();
  readonly #answered = new Count();
  readonly #pairs = new Pairs(MOST_LABELS);
  readonly #parts = new Map<string, { readonly pairs: Pairs; readonly count: Count }>();
  #withParts = 0;

  /** @returns whether the answer changed */
  add(a: NormalizedAnswer, b: NormalizedAnswer): boolean {
    const changed = a.answer !== b.answer;
    this.#all.add(changed);
    this.#pairs.add(a.label, b.label);
    if (isAnswered(a) && isAnswered(b)) this.#answered.add(changed);
    if (a.parts !== null && b.parts !== null) this.#addParts(a.parts, b.parts);
    return changed;
  }

  result(): Compared {
    return {
      ...this.#all.result(),
      kappa: this.#pairs.kappa(),
      transitions: this.#pairs.transitions(),
      answered: this.#answered.result(),
      parts: this.#withParts === 0 ? null : this.#partResults(),
    };
  }

  #addParts(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): void {
    this.#withParts += 1;
    for (const name of new Set([...a.keys(), ...b.keys()])) {
      let part = this.#parts.get(name);
      if (part === undefined) {
        if (this.#parts.size >= PARTS.names) continue;
        part = { pairs: new Pairs(PARTS.values), count: new Count() };
        this.#parts.set(name, part);
      }
      const [from, to] = [a.get(name) ?? NONE, b.get(name) ?? NONE];
      part.pairs.add(from, to);
      part.count.add(from !== to);
    }
  }

  #partResults(): Compared['parts'] {
    return Object.fromEntries(
      [...this.#parts].map(([name, { pairs, count }]) => {
        const rest = this.#withParts - pairs.rows;
        pairs.add(NONE, NONE, rest);
        count.add(false, rest);
        return [name, { ...count.result(), kappa: pairs.kappa(), transitions: pairs.transitions() }];
      }),
    );
  }
}

const NONE = '(none)';

const isAnswered = ({ status }: NormalizedAnswer): boolean => status === 'completed' || status === 'filtered';

class Count {
  #rows = 0;
  #changed = 0;

  add(changed: boolean, rows = 1): void {
    this.#rows += rows;
    if (changed) this.#changed += rows;
  }

  result(): Agreement {
    const { rows, changed } = { rows: this.#rows, changed: this.#changed };
    return { rows, changed, agreement: rows === 0 ? null : (rows - changed) / rows };
  }
}

export type Transitions = { readonly [from: string]: { readonly [to: string]: number } };

/** Names in brackets stand for rows without an answer, and come last. */
const isWord = (name: string): boolean => name.startsWith('(') && name.endsWith(')');

export class Pairs {
  readonly #places = new Map<string, number>();
  readonly #counts = new Map<string, number>();
  #rows = 0;
  #isFull = false;

  /** @param most distinct names; further ones count as `(other)` */
  constructor(private readonly most: number) {}

  get rows(): number {
    return this.#rows;
  }

  add(from: string, to: string, rows = 1): void {
    if (rows === 0) return;
    const pair = `${this.#placeOf(from)},${this.#placeOf(to)}`;
    this.#counts.set(pair, (this.#counts.get(pair) ?? 0) + rows);
    this.#rows += rows;
  }

  /** Cohen's kappa; `null` if undefined, or if there are too many names. */
  kappa(): number | null {
    return this.#isFull || this.#rows === 0 ? null : cohenKappa(this.#matrix());
  }

  /** In order of names, without zeros. */
  transitions(): Transitions {
    const { labels, counts } = this.#matrix();
    const rows = labels.map((from, i): [string, Transitions[string]] => [
      from,
      Object.fromEntries(
        labels.flatMap((to, j) => {
          const n = counts[i]?.[j] ?? 0;
          return n === 0 ? [] : [[to, n]];
        }),
      ),
    ]);
    return Object.fromEntries(rows.filter(([, to]) => Object.keys(to).length > 0));
  }

  #placeOf(given: string): number {
    const name = given.slice(0, NAME_LENGTH);
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    if (name !== OTHER && this.#places.size - (this.#isFull ? 1 : 0) >= this.most) {
      this.#isFull = true;
      return this.#placeOf(OTHER);
    }
    this.#places.set(name, this.#places.size);
    return this.#places.size - 1;
  }

  #matrix(): Confusion {
    const order = [...this.#places].sort(
      ([a], [b]) => Number(isWord(a)) - Number(isWord(b)) || byName.compare(a, b),
    );
    return {
      labels: order.map(([name]) => name),
      counts: order.map(([, from]) => order.map(([, to]) => this.#counts.get(`${from},${to}`) ?? 0)),
      none: order.map(() => 0),
    };
  }
}
