import { type Confusion, cohenKappa } from '../account/score.js';

export type Transitions = { readonly [from: string]: { readonly [to: string]: number } };

const OTHER = '(other)';

/** Characters; an answer may be a text of any length. */
const NAME_LENGTH = 200;

const byName = new Intl.Collator('en', { numeric: true });

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
