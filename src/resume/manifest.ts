import { rmSync } from 'node:fs';
import * as z from 'zod';
import { type FinishedSummary, finishedSchema } from '../account/read-summary.js';
import { stepFactsSchema } from '../account/steps.js';
import { summarySchema } from '../account/summary.js';
import { tallySchema } from '../account/tally.js';
import { timelineSchema } from '../account/timeline.js';
import { CALLS, type Counters, eachOf } from '../core/counters.js';
import { errorCode, errorText, UsageError } from '../core/errors.js';
import { parseJson } from '../core/json.js';
import { isOfOtherVersion, readPlainFile } from '../output/plain-file.js';

const count = z.int().nonnegative();

const shape = z.object({
  /** Incremented with each new form; other versions are refused. */
  v: z.literal(1),
  run: z.string().min(1),
  job: z.string(),
  /** Number of the process working on the run, from 1; each resume increments it. */
  execution: z.int().positive(),
  process: z.object({
    pid: z.int().positive(),
    host: z.string(),
    began: z.string().nullable(),
    space: z.string(),
  }),
  started_at: z.string(),
  /** Milliseconds that earlier executions worked on the run. */
  worked_ms: z.number(),
  /** Hashes of what the records depend on, by part; a resume with other values is refused. */
  fingerprint: z.record(z.string(), z.string()),
  /** The same parts, shortened, to show what changed. @see partValues */
  values: z.record(z.string(), z.string()),
  chunk_size: z.int().positive(),
  /** The store of the run's ledger: its folder, or its address without the password. */
  store: z.string().nullable(),
  /** Whether the ledger knows the run and its rows in flight. */
  opened: z.boolean().exactOptional(),
  rows: count,
  /** Known paid answers outside the part file, including interim ones: a store that lost them cannot tell. */
  unwritten: count,
  /** The last row that may have been called; beyond `--limit` when an earlier execution had a larger one. */
  reach: count.exactOptional(),
  /** The last row of the canary, if there was one (`limits.canary`). */
  canary: count.exactOptional(),
  /** Bytes of the part file that count; a resume cuts off the rest. */
  bytes: count,
  /** Hash of the end of these bytes, which identifies the part file. */
  seal: z.string(),
  /** Whether the output may replace a file of its name. */
  overwrite: z.boolean(),
  /** Digest of the output that this run replaces, because it adds rows to it or calls some of them again. */
  replaces: z.string().optional(),
  /** The sample that this run replaces, by the name of its run: its answers are taken over. */
  sample: z.string().exactOptional(),
  /** `finishing`: every row is written, and the output gets its name. */
  stage: z.enum(['working', 'finishing']),
  /** The rows for review are or will be written: a file of that name may be replaced. */
  reviewing: z.boolean().exactOptional(),
  /**
   * Set when the output is rewritten before the rename. These fields describe the part file, from which the
   * next execution can rewrite it; the outer ones describe the rewritten output.
   */
  part: z.object({ bytes: count, seal: z.string(), tally: tallySchema }).exactOptional(),
  /** Results of the finishing steps. With `require` the output is named as in `rejectedFiles`. */
  steps: stepFactsSchema,
  /** A retry: `rows`, `bytes` and `tally` are those of its rows; `replaces` is the digest of the output. */
  retry: z
    .object({
      /** As on the command line. */
      asked: z.string(),
      before: finishedSchema.transform((summary): FinishedSummary => summary),
      /** The tally without the retried rows. @see initialTally */
      rest: tallySchema,
      /** The same with the retried rows written so far. */
      tally: tallySchema,
    })
    .exactOptional(),
  /** Changes to the finished output to which this run adds rows; absent for any other run. */
  since: summarySchema.pick({ merged_review: true, retried: true }).exactOptional(),
  calls: z
    .object({
      ...eachOf(CALLS, () => count),
      in_flight: z.int(),
      prompt_tokens: z.int(),
      completion_tokens: z.int(),
    })
    // Those of several endpoints.
    .catchall(z.int())
    .transform((calls): Counters => calls),
  /** When the run's first call in the flex tier was, in ms since 1970; absent before it, and in other tiers. */
  flex_since: count.exactOptional(),
  tally: tallySchema,
  /** Absent before the first commit. */
  timeline: timelineSchema.exactOptional(),
});

/**
 * The state of an unfinished run, in `<output>.run.json` beside its part file. Written after the part file is
 * on disk and before the ledger forgets, so it never counts more than the part file holds.
 */
export type Manifest = Readonly<z.output<typeof shape>>;

/** Null when there is none. @throws UsageError when the file is not a manifest */
export function readManifest(path: string): Manifest | null {
  let text: string;
  try {
    text = readPlainFile(path);
  } catch (error) {
    // ENOTDIR: a file is where the folder should be, so there is no manifest either.
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
      'Go on with the version that wrote it, or start over with --restart; rows already known are then called again.',
    );
  }
  throw new UsageError(
    'manifest_damaged',
    `${path} is not as a run wrote it, so the run cannot be continued`,
    'Start over with --restart; rows already known are then called again.',
  );
}

/** What a run takes over from the finished output to which it adds rows. */
export const takenFrom = (summary: FinishedSummary) => ({
  run: summary.run,
  execution: summary.details.state.execution + 1,
  started_at: summary.started_at,
  worked_ms: summary.duration_s * 1000,
  rows: summary.rows.total,
  replaces: summary.details.written.sha256,
  calls: {
    ...summary.calls,
    in_flight: 0,
    prompt_tokens: summary.details.state.prompt_tokens,
    completion_tokens: summary.details.state.completion_tokens,
    ...countersOf(summary.endpoints),
  },
  ...(summary.details.state.flex_since !== undefined && { flex_since: summary.details.state.flex_since }),
  ...(summary.details.state.sample !== undefined && { sample: summary.details.state.sample }),
  tally: summary.details.tally,
  timeline: summary.details.timeline,
  since: {
    ...(summary.merged_review && { merged_review: summary.merged_review }),
    ...(summary.retried && { retried: summary.retried }),
  },
});

const countersOf = (endpoints: FinishedSummary['endpoints'] = {}): Partial<Counters> =>
  Object.fromEntries(
    Object.entries(endpoints).flatMap(([name, { calls, rate_limited }]) => [
      [`sent@${name}`, calls],
      [`rate_limited@${name}`, rate_limited],
    ]),
  );

/** For an output that was rewritten from the part file. */
export function ofPartFile({ part, ...manifest }: Manifest): Manifest {
  return part === undefined ? manifest : { ...manifest, ...part, stage: 'working' };
}

export function removeManifest(path: string): void {
  rmSync(path, { force: true });
}
