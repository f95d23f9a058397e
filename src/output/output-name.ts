import { extname } from 'node:path';
import { plainName } from './output-bytes.js';

/** The output without its ending: `out/reviews.csv` and `out/reviews.csv.gz` → `out/reviews`. */
export function stemOf(output: string): string {
  const plain = plainName(output);
  return plain.slice(0, plain.length - extname(plain).length);
}

/** Stands before the ending of an output. `measure`: replaced, but drift is still measured against it. */
type Mark = 'emulated' | 'rejected' | 'measure';

/** `out/reviews.csv` → `out/reviews.emulated.csv`. */
export function marked(output: string, mark: Mark): string {
  const stem = stemOf(output);
  return `${stem}.${mark}${output.slice(stem.length)}`;
}

export const isEmulated = (output: string): boolean => stemOf(output).endsWith('.emulated');
