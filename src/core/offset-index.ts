/** Most keys of an index: 50 MB at most. */
export const MOST_KEYS = 1_500_000;

/** Of a hash. */
export const KEY_BYTES = 12;

const FIRST_CAPACITY = 2 ** 12;

/** At three quarters, linear probing is still short. */
const FULL = 0.75;

/** The offset of what has none. */
export const NOWHERE = -1;

interface Found {
  readonly row: number;
  /** Byte offset in its file; null until it is written. */
  readonly at: number | null;
}

interface IndexShape {
  /** A multiple of 4. @default KEY_BYTES */
  readonly keyBytes?: number;
  /** Without offsets, `at` is always null. @default true */
  readonly offsets?: boolean;
}

/**
 * Key → row and offset of its outcome: open addressing over typed arrays, 12 bytes plus the key per entry, 8
 * less without offsets. Keys are bytes of a hash, in base64url.
 */
export class OffsetIndex {
  readonly #words: number;
  #keys: Uint32Array;
  /** 0 marks a free slot; rows count from 1. */
  #rows = new Uint32Array(FIRST_CAPACITY);
  #offsets: Float64Array;
  #size = 0;
  #full = false;

  /** @param most keys. @default MOST_KEYS */
  constructor(
    private readonly most: number = MOST_KEYS,
    { keyBytes = KEY_BYTES, offsets = true }: IndexShape = {},
  ) {
    this.#words = keyBytes / 4;
    this.#keys = new Uint32Array(FIRST_CAPACITY * this.#words);
    this.#offsets = new Float64Array(offsets ? FIRST_CAPACITY : 0);
  }

  get size(): number {
    return this.#size;
  }

  /** True once a key did not fit: from then on some rows are called needlessly. */
  get isFull(): boolean {
    return this.#full;
  }

  find(key: string): Found | null {
    const slot = this.#slotOf(this.#wordsOf(key));
    const row = this.#rows[slot] ?? 0;
    if (row === 0) return null;
    const at = this.#offsets[slot] ?? NOWHERE;
    return { row, at: at === NOWHERE ? null : at };
  }

  /**
   * Remembers the first row of a key; a known key is unchanged.
   * @param at offset of its outcome; null when {@link settle} will tell
   * @returns false when full
   */
  add(key: string, row: number, at: number | null): boolean {
    const words = this.#wordsOf(key);
    const slot = this.#slotOf(words);
    if (this.#rows[slot] !== 0) return true;
    if (this.#size >= this.most) {
      this.#full = true;
      return false;
    }
    this.#put(slot, words, row, at ?? NOWHERE);
    this.#size++;
    if (this.#size > this.#rows.length * FULL) this.#grow();
    return true;
  }

  settle(key: string, at: number): void {
    const slot = this.#slotOf(this.#wordsOf(key));
    if (this.#rows[slot] !== 0) this.#offsets[slot] = at;
  }

  #put(slot: number, words: Uint32Array, row: number, at: number): void {
    this.#keys.set(words, slot * this.#words);
    this.#rows[slot] = row;
    if (this.#offsets.length > 0) this.#offsets[slot] = at;
  }

  /** The key's slot, or the free one where it belongs. */
  #slotOf(words: Uint32Array): number {
    const mask = this.#rows.length - 1;
    let slot = (words[0] ?? 0) & mask;
    while (this.#rows[slot] !== 0 && !this.#holds(slot, words)) slot = (slot + 1) & mask;
    return slot;
  }

  #holds(slot: number, words: Uint32Array): boolean {
    const at = slot * this.#words;
    return words.every((word, i) => this.#keys[at + i] === word);
  }

  #grow(): void {
    const [keys, rows, offsets] = [this.#keys, this.#rows, this.#offsets];
    const capacity = rows.length * 2;
    this.#keys = new Uint32Array(capacity * this.#words);
    this.#rows = new Uint32Array(capacity);
    this.#offsets = new Float64Array(offsets.length > 0 ? capacity : 0);
    for (const [i, row] of rows.entries()) {
      if (row === 0) continue;
      const words = keys.subarray(i * this.#words, (i + 1) * this.#words);
      this.#put(this.#slotOf(words), words, row, offsets[i] ?? NOWHERE);
    }
  }

  #wordsOf(key: string): Uint32Array {
    const words = new Uint32Array(this.#words);
    new Uint8Array(words.buffer).set(Buffer.from(key, 'base64url'));
    return words;
  }
}
