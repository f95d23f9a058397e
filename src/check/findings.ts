import type { Fault, Row } from '../model.js';

/** A row that a person may want to look at. */
interface Example {
  readonly row: number;
  /** Line of the input on which the record begins, from 1. */
  readonly line: number;
  readonly message: string;
}

/** Rows of which the same is to be said. */
export interface Finding {
  /** Stable and machine-readable, for example `ragged_record`. */
  readonly code: string;
  /** How many rows. */
  readonly rows: number;
  /** The first of them. */
  readonly examples: readonly Example[];
}

/** Rows named for one finding; of the others only their number is kept. */
const MOST_EXAMPLES = 100;

/** Collects what is found, by code; the codes are few, and our own. */
export class Findings {
  readonly #found = new Map<string, { rows: number; examples: Example[] }>();
  #rows = 0;

  add({ number, line }: Row, { code, message }: Fault): void {
    const known = this.#found.get(code) ?? { rows: 0, examples: [] };
    this.#found.set(code, known);
    known.rows++;
    this.#rows++;
    if (known.examples.length < MOST_EXAMPLES) known.examples.push({ row: number, line, message });
  }

  /** Rows of all findings together. */
  get rows(): number {
    return this.#rows;
  }

  /** The most frequent first. */
  toList(): readonly Finding[] {
    return [...this.#found].map(([code, found]) => ({ code, ...found })).sort((a, b) => b.rows - a.rows);
  }
}
