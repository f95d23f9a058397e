import { rmSync } from 'node:fs';
import * as z from 'zod';
import { type FinishedSummary, finishedSchema } from '../account/read-summary.js';
import { stepFactsSchema } from '../account/steps.js';
import { summarySchema } from '../account/summary.js';
import { tallySchema } from '../account/tally.js';
import { timelineSchema } from '../account/timeline.js';
import { errorCode, errorText, UsageError } from '../errors.js';
import { parseJson } from '../json.js';
import { isOfOtherVersion, readOwn } from '../output/own-file.js';
import { CALLS, eachOf } from '../store/counters.js';

const count = z.int().nonnegative();

const shape = z.object({
  /** Counted up with every other form; one of another is refused. */
  v: z.literal(1),
  run: z.string().min(1),
  job: z.string(),
  /** Number of the process that works on the run, from 1: counted up by every resume. */
  execution: z.int().positive(),
  /** The process that works on it, or was the last to do so. */
  process: z.object({
    pid: z.int().positive(),
    host: z.string(),
    began: z.string().nullable(),
    space: z.string(),
  }),
  started_at: z.string(),
  /** Time that earlier executions worked on the run, in milliseconds. */
  worked_ms: z.number(),
  /** What the records depend on, as hashes by part; a resume with another value is refused. */
  fingerprint: z.record(z.string(), z.string()),
  /** The same parts as they were, in short, to tell what changed. @see partValues */
  values: z.record(z.string(), z.string()),
  chunk_size: z.int().positive(),
  /** The store that holds the run's ledger: its folder, or its address without the password. */
  store: z.string().nullable(),
  /** The ledger knows the run, and which of its rows are in flight. */
  opened: z.boolean().exactOptional(),
  /** Rows whose records are in the part file. */
  rows: count,
  /**
   * Answers that are paid for and not in the part file, as the process knew it; a store that has lost them cannot say. Those of
   * interim outcomes count as well.
   */
  unwritten: count,
  /** The last row for which calls may have been made; behind `--limit`, where an execution before had a larger one. */
  reach: count.exactOptional(),
  /** The last row that went ahead of the rest, where any did (`limits.canary`). */
  canary: count.exactOptional(),
  /** Bytes of the part file that count; what stands behind them is cut off by a resume. */
  bytes: count,
  /** Hash of the end of these bytes, by which the part file is known from another. */
  seal: z.string(),
  /** The output may replace a file of its name. */
  overwrite: z.boolean(),
  /** Digest of the output whose place this one takes: with the first rows, or with those that are called again. */
  replaces: z.string().optional(),
  /** Every row is written, and the output gets its name now. */
  finishing: z.boolean(),
  /** The rows for review are written, or will be now: what has their name may be replaced. */
  reviewing: z.boolean().exactOptional(),
  /**
   * Only where the output that gets its name is not the part file but was written anew out of it: `bytes`, `seal` and `tally` are
   * then of the output, and these of the part file, out of which the next execution can write it again.
   */
  part: z.object({ bytes: count, seal: z.string(), tally: tallySchema }).exactOptional(),
  /** What the last steps have found. With `require` the output gets the name of `rejectedFiles`. */
  steps: stepFactsSchema,
  /**
   * Only where rows of a finished output are called again: `rows`, `bytes` and `tally` are of these alone, and `replaces` is the
   * digest of that output.
   */
  retry: z
    .object({
      /** Which rows, as the command line says it. */
      asked: z.string(),
      /** The summary of the output as it was. */
      before: finishedSchema.transform((summary): FinishedSummary => summary),
      /** The tally that they are folded into. @see tallyToGoOn */
      rest: tallySchema,
      /** The same with those of them that are written. */
      tally: tallySchema,
    })
    .exactOptional(),
  /** What became of the output since it had its first rows; only where rows were appended to its input. */
  since: summarySchema.pick({ merged_review: true, retried: true }).exactOptional(),
  calls: z.object({
    ...eachOf(CALLS, () => count),
    in_flight: z.int(),
    prompt_tokens: z.int(),
    completion_tokens: z.int(),
  }),
  tally: tallySchema,
  /** How the run went so far; not there before the first commit. */
  timeline: timelineSchema.exactOptional(),
  /**
   * Set when the run has finished with the first rows of its input (`--limit`): the digest of its output, from which
   * the same command goes on.
   */
  finished: z.object({ sha256: z.string() }).exactOptional(),
});

/**
 * What is known of an unfinished run, in `<output>.run.json` beside its part file. It is written after the
 * part file is on disk and before the ledger forgets, so it never says more than the part file holds.
 */
export type Manifest = Readonly<z.output<typeof shape>>;

/** Reads a manifest; null when there is none. @throws UsageError when the file is no manifest */
export function readManifest(path: string): Manifest | null {
  let text: string;
  try {
    text = readOwn(path);
  } catch (error) {
    // ENOTDIR: a file is where the folder should be, so the manifest is not there either.
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error))) return null;
    throw new UsageError(
      'manifest_unreadable',
      `cannot read ${path}: ${errorText(error)}`,
      'It says how far an unfinished run came: make it readable, or name another file with --output.',
    );
  }
  const value = parseJson(text);
  const parsed = shape.safeParse(value);
  if (parsed.success) return parsed.data;
  if (isOfOtherVersion(value)) {
    throw new UsageError(
      'manifest_damaged',
      `${path} was written by another version of Promptmill, and this one cannot go on from it`,
      'Go on with the version that wrote it, or start over with --restart; rows already answered are then called again.',
    );
  }
  throw new UsageError(
    'manifest_damaged',
    `${path} is not as a run wrote it, so the run cannot be continued`,
    'Start over with --restart; rows already answered are then called again.',
  );
}

/** The run as its part file has it, where the output was written anew out of that. */
export function ofPartFile({ part, ...manifest }: Manifest): Manifest {
  return part === undefined ? manifest : { ...manifest, ...part, finishing: false };
}

export function removeManifest(path: string): void {
  rmSync(path, { force: true });
}
