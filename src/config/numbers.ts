import * as z from 'zod';

/** Numbers of a job file. Messages name the range. */

/** @param most @default any */
export function whole(least: 0 | 1, most?: number): z.ZodNumber {
  const range = `must be a whole number ${most === undefined ? `of at least ${least}` : `from ${least} to ${most}`}`;
  const number = z.number(range).int(range);
  const bounded = least === 1 ? number.positive(range) : number.min(least, range);
  return most === undefined ? bounded : bounded.max(most, range);
}

/** @param most @default any */
export function above0(most?: number): z.ZodNumber {
  const range = `must be a number above 0${most === undefined ? '' : `, at most ${most}`}`;
  const number = z.number(range).positive(range);
  return most === undefined ? number : number.max(most, range);
}

const FROM_0 = 'must be a number of at least 0';
export const price = z.number(FROM_0).nonnegative(FROM_0);

const A_SHARE = 'must be a number from 0 to 1';
export const share = z.number(A_SHARE).min(0, A_SHARE).max(1, A_SHARE);
