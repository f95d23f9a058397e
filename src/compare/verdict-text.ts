import { count, counted } from '../core/figures.js';
import type { Paired } from './paired.js';

/**
 * `b is right on 31 rows that a has wrong, and wrong on 12 that a has right (p = 0.005): b is better`
 * @param a the first of the two, as people call it: a side, a file, a deployment
 */
export function verdictText(test: Paired, a: string, b: string): string {
  const { rows, better, worse, says, needed } = test;
  if (rows === 0) return `no row with a right answer is completed in both ${a} and ${b}`;
  if (better + worse === 0)
    return `of ${counted(rows, 'row')} ${a} and ${b} have the same ones right: they cannot be told apart`;
  const found = `${b} is right on ${counted(better, 'row')} that ${a} has wrong, and wrong on ${count(worse)} that ${a} has right (${chance(test)})`;
  if (says !== 'even') return `${found}: ${says === 'a' ? a : b} is better`;
  const more = needed === null ? '' : `, some ${count(rounded(needed))} are needed`;
  return `${found}: they cannot be told apart with these ${counted(rows, 'row')}${more}`;
}

/** `p = 0.034`, `p < 0.001` */
const chance = ({ p }: Paired): string => (p < 0.001 ? 'p < 0.001' : `p = ${Number(p.toPrecision(2))}`);

/** To two digits: it is an estimate. */
const rounded = (rows: number): number => Number(rows.toPrecision(2));
