import { z } from 'zod';
import { parseJson } from '../json.js';
import type { CalledOutcome, Origin } from '../model.js';
import type { Key } from './keys.js';

/** An outcome that later rows, or later runs, may take over. */
export interface Kept {
  /** Under which key a row of a later run finds it; `null` where none will look for it. */
  readonly row: Key | null;
  /** Under which key a row of the same run finds it; `null` likewise. */
  readonly request: Key | null;
  /** Number of the row in the run that keeps it. */
  readonly number: number;
  /** The run that called for it. */
  readonly run: string;
  readonly outcome: CalledOutcome;
}

/** What a row takes its outcome over from. */
export type Source =
  | {
      readonly kind: 'copied';
      /** Number of the earlier row that asks the same. */
      readonly from: number;
      readonly key: Key;
    }
  | {
      readonly kind: 'carried';
      /** Place in the file of the job's last run. */
      readonly at: number;
    };

/** The outcome for a row that was not called: nothing was billed for it, and it took no time. */
export function takenOver(outcome: CalledOutcome, origin: Origin): CalledOutcome {
  return { ...unbilled(outcome), origin };
}

/** An outcome without what belongs to the row that was called. */
function unbilled({ origin: _, ...outcome }: CalledOutcome): CalledOutcome {
  const free = { attempts: 0, latency_ms: null };
  if (outcome.status === 'failed') return { ...outcome, ...free };
  if (outcome.status === 'completed')
    return { ...outcome, completion: { ...outcome.completion, usage: null }, ...free };
  const { completion } = outcome;
  return { ...outcome, completion: completion && { ...completion, usage: null }, ...free };
}

/** One line of a file of outcomes. */
export function encodeKept({ row, request, number, run, outcome }: Kept): string {
  return `${JSON.stringify([row, request, number, run, unbilled(outcome)])}\n`;
}

const key = z.string().length(16).nullable();
const line = z.tuple([key, key, z.int().positive(), z.string().min(1), z.custom<CalledOutcome>(isOutcome)]);

/** Reads a line; `null` when it is none of ours, for example one that a crash has torn. */
export function decodeKept(text: string): Kept | null {
  const parsed = line.safeParse(parseJson(text));
  if (!parsed.success) return null;
  const [row, request, number, run, outcome] = parsed.data;
  return { row, request, number, run, outcome };
}

/** Promptmill wrote it: a whole line is an outcome when it has the members of one. */
function isOutcome(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('status' in value)) return false;
  const isSet = (name: string): boolean => typeof Reflect.get(value, name) === 'object';
  if (value.status === 'completed') return isSet('completion') && isSet('filters');
  if (value.status === 'filtered') return isSet('completion') && isSet('filters') && isSet('error');
  return value.status === 'failed' && isSet('error');
}
