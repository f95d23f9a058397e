import * as z from 'zod';
import { clipped } from '../core/figures.js';

/**
 * Schemas for heartbeats of runs and workers. Others can write to the store, so odd values are made fit to be
 * added, compared and shown, and what is no heartbeat is refused (fault 85).
 */

/** Characters: the longest file path. A longer text is cut. */
const LONGEST = 4_096;
/** Characters, as in the tally. */
const LONGEST_NAME = 200;
/** Distinct names of one count: a few times what the tally keeps. */
const MOST_NAMES = 1_000;

export const words = z.string().transform((text) => clipped(text, LONGEST));

export const amount = z.number().transform((value) => Math.min(Math.max(0, value), Number.MAX_SAFE_INTEGER));

/** ISO 8601 in UTC. */
export const moment = z.iso.datetime();

/** By name. `z.record` would lose the name `__proto__`, which a label may have (fault 9). */
export const named = <T extends z.ZodType>(value: T) =>
  z
    .custom<object>((given) => typeof given === 'object' && given !== null && !Array.isArray(given))
    .transform((given) => new Map(Object.entries(given)))
    .pipe(z.map(z.string(), value))
    .transform((given) => Object.fromEntries(given));

export const counts = named(amount).transform((byName) =>
  Object.fromEntries(
    Object.entries(byName)
      .slice(0, MOST_NAMES)
      .map(([name, n]) => [clipped(name, LONGEST_NAME), n]),
  ),
);

export type DeepReadonly<T> = { readonly [K in keyof T]: DeepReadonly<T[K]> };
