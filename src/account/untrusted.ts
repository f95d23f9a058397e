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

export const counts = z.record(z.string(), amount).transform((named) =>
  Object.fromEntries(
    Object.entries(named)
      .slice(0, MOST_NAMES)
      .map(([name, n]) => [clipped(name, LONGEST_NAME), n]),
  ),
);

export type DeepReadonly<T> = { readonly [K in keyof T]: DeepReadonly<T[K]> };
