/** Equal room for groups; what small ones leave goes to the others. */
export function shared<K>(sizes: ReadonlyMap<K, number>, room: number): Map<K, number> {
  let left = room;
  let groups = sizes.size;
  return new Map(
    [...sizes]
      .sort(([, a], [, b]) => a - b)
      .map(([name, size]) => {
        const share = Math.min(size, Math.floor(left / groups));
        left -= share;
        groups -= 1;
        return [name, share];
      }),
  );
}

/**
 * A sample of what is offered: each is equally likely. J. S. Vitter, "Random sampling with a reservoir", ACM
 * Transactions on Mathematical Software 11 (1985), 37–57, algorithm R.
 */
export class Reservoir<T> {
  readonly kept: T[] = [];
  #seen = 0;

  constructor(
    private size: number,
    private readonly random: () => number,
  ) {}

  get seen(): number {
    return this.#seen;
  }

  /** @param item called only if it is kept */
  offer(item: () => T): void {
    this.#seen += 1;
    if (this.kept.length < this.size) this.kept.push(item());
    else {
      const place = Math.floor(this.random() * this.#seen);
      if (place < this.size) this.kept[place] = item();
    }
  }

  /** Each is equally likely to stay. */
  shrink(size: number): void {
    this.size = Math.min(this.size, size);
    while (this.kept.length > this.size) this.kept.splice(Math.floor(this.random() * this.kept.length), 1);
  }
}
