import type { Json } from '../model.js';

/** Column name → its position in every record. */
export type ColumnIndex = ReadonlyMap<string, number>;

/**
 * The fields of one CSV record. All records of a file share the names, so that a row holds its cells and nothing
 * else: a map of its own for each of 6,000 columns would take ten times the memory (fault 70).
 */
export class CellFields implements ReadonlyMap<string, Json> {
  readonly #index: ColumnIndex;
  readonly #cells: readonly string[];
  readonly size: number;

  /** @param cells in the order of the columns; a ragged record may have fewer or more */
  constructor(index: ColumnIndex, cells: readonly string[]) {
    this.#index = index;
    this.#cells = cells;
    this.size = Math.min(index.size, cells.length);
  }

  get(name: string): string | undefined {
    const position = this.#index.get(name);
    return position === undefined ? undefined : this.#cells[position];
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  *entries(): MapIterator<[string, Json]> {
    for (const [name, position] of this.#index) {
      const cell = this.#cells[position];
      if (cell === undefined) return;
      yield [name, cell];
    }
  }

  *keys(): MapIterator<string> {
    for (const [name] of this.entries()) yield name;
  }

  *values(): MapIterator<Json> {
    for (const [, cell] of this.entries()) yield cell;
  }

  [Symbol.iterator](): MapIterator<[string, Json]> {
    return this.entries();
  }

  forEach(each: (value: Json, key: string, map: ReadonlyMap<string, Json>) => void): void {
    for (const [name, cell] of this.entries()) each(cell, name, this);
  }
}
