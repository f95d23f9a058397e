/** Name → how often, as JSON. */
export type Counts = { readonly [name: string]: number };

/** Where further names are counted once there are as many as allowed. */
const OTHER = '(other)';

/** A name is cut to this many characters: some come from the service, which may send anything. */
export const NAME_LENGTH = 200;

/**
 * Counts names of which there may be any number, in bounded space: once `limit` distinct names are known,
 * further ones are counted under `(other)`. A map inside, so that a name like `__proto__` is only a name
 * (fault 9).
 */
export class Counter {
  private readonly counts: Map<string, number>;

  constructor(
    from: Counts,
    private readonly limit: number,
  ) {
    this.counts = new Map(Object.entries(from));
  }

  add(name: string): void {
    const key = boundedKey(this.counts, name, this.limit);
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
  }

  toCounts(): Counts {
    return Object.fromEntries(this.counts);
  }
}

/** The key under which a map of at most `limit` names, and `(other)`, keeps a name. */
export function boundedKey(map: ReadonlyMap<string, unknown>, name: string, limit: number): string {
  const key = name.slice(0, NAME_LENGTH);
  if (map.has(key)) return key;
  const names = map.has(OTHER) ? map.size - 1 : map.size;
  return names < limit ? key : OTHER;
}
