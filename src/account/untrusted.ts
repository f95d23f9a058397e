import * as z from 'zod';

/**
 * Fields of what runs and workers say of themselves. It is read out of a store that others can write to, so whatever is
 * odd in it is made fit to be added, compared and shown, and a heartbeat that is none is refused (fault 85).
 */

/** Characters of a text: the longest path of a file. A longer text is cut. */
const LONGEST = 4_096;
/** Characters of a name that is counted, as the tally cuts them. */
const LONGEST_NAME = 200;
/** Distinct names of one count: some times what the tally keeps. */
const MOST_NAMES = 1_000;

const cut = (most: number) => (text: string) =>
  text.length <= most ? text : `${text.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;

/** A text, cut where it is longer than any that is meant. */
export const words = z.string().transform(cut(LONGEST));

/** A number that counts or measures: at least 0, and not larger than what can be counted exactly. */
export const amount = z.number().transform((value) => Math.min(Math.max(0, value), Number.MAX_SAFE_INTEGER));

/** A moment, ISO 8601 in UTC. */
export const moment = z.iso.datetime();

/** Name → how often. */
export const counts = z.record(z.string(), amount).transform((named) =>
  Object.fromEntries(
    Object.entries(named)
      .slice(0, MOST_NAMES)
      .map(([name, n]) => [cut(LONGEST_NAME)(name), n]),
  ),
);

/** As plain data is passed around here: nobody changes what was said. */
export type DeepReadonly<T> = { readonly [K in keyof T]: DeepReadonly<T[K]> };
