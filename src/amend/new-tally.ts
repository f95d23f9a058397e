import * as z from 'zod';
import type { GoldTally } from '../account/gold-tally.js';
import { failedCodes } from '../account/retry-command.js';
import type { StoredSummary } from '../account/summary.js';
import {
  type CountByName,
  type CountedRow,
  Counter,
  emptyTally,
  type FilterCounts,
  fold,
  LIMITS,
  type Tally,
} from '../account/tally.js';
import { recordOptions, type Settings } from '../config/settings.js';
import type { AnswerSpec } from '../core/answer-spec.js';
import { UsageError } from '../core/errors.js';
import { parseJson } from '../core/json.js';
import {
  isUnreadable,
  lineReader,
  type Output,
  outputAt,
  type RecordedJob,
  readOutput,
  recordsWithEnds,
} from '../output/reader.js';
import type { RecordFormat } from '../output/record.js';
import { type ChosenRows, columnsMissing, type FailedRows } from './chosen-rows.js';

export interface RetriedOutput {
  /** With the threshold of `answer.abstain` fixed, as the rows are called. */
  readonly settings: Settings;
  readonly before: StoredSummary;
  readonly chosen: ChosenRows;
  readonly format: RecordFormat;
  readonly scored: boolean;
  /** How the answers of the output were read; null when unknown. */
  readonly answer: AnswerSpec | null;
}

/**
 * Starts from the output's tally, because the cost of its calls stays. Failed rows are subtracted; with
 * others among them, {@link recountedTally} recounts in the end.
 * @throws UsageError when the output lacks columns that this needs
 */
export async function initialTally(retried: RetriedOutput): Promise<Tally> {
  const { settings, before, chosen, scored } = retried;
  if (chosen.failed === null) await assertCounted(retried);
  const then = before.details.tally;
  const { gold, ...rest } =
    chosen.failed === null
      ? then
      : withoutFailed(then, { ...chosen.failed, codes: codesOf(chosen.failed, before, settings) });
  return { ...rest, ...(gold && scored && { gold }) };
}

/** Checked before anything is sent. @throws UsageError when the records lack what the tally counts */
async function assertCounted(retried: RetriedOutput): Promise<void> {
  const { settings, before, format, answer } = retried;
  const { path } = settings.output;
  const isMerged = before.merged_review !== undefined;
  if (isMerged && answer === null) throw answerChanged(path);
  const job = recordedJob(retried);
  if (isMerged && job.answer.abstains && !format.parts.has('confidence'))
    throw columnsMissing(path, ['confidence']);
  for await (const [record] of readOutput(outputAt(path), job)) {
    const lacking = record?.lacksForTally(null) ?? [];
    if (lacking.length > 0) throw columnsMissing(path, lacking);
    if (record !== undefined) return;
  }
}

const recordedJob = ({ settings, format, answer }: RetriedOutput): RecordedJob => ({
  ...recordOptions({ ...settings, answer: answer ?? settings.answer }),
  inputs: format.inputs,
});

/** A fold's histogram costs as much as many rows; records may be long. */
const TOGETHER = { rows: 5_000, bytes: 8 * 2 ** 20 };

/**
 * @param then the tally of the old output and the retried rows, for the cost of both
 * @throws the reason of the signal
 */
export async function recountedTally(
  retried: RetriedOutput,
  output: Output,
  then: Tally,
  signal: AbortSignal,
): Promise<Tally> {
  const { settings, before, chosen, format, scored } = retried;
  const gold = scored ? settings.gold : null;
  const isMerged = before.merged_review !== undefined;
  // The job may have changed how it reads answers.
  const recordThen = lineReader(output, recordedJob(retried));
  const recordNow = lineReader(output, recordedJob({ ...retried, answer: settings.answer }));
  let next = 0;
  let tally = emptyTally();
  let ended: CountedRow[] = [];
  let bytes = 0;
  for await (const lines of recordsWithEnds(output.bytes(), output.format)) {
    signal.throwIfAborted();
    for (const line of lines) {
      const [old, fresh] = [recordThen(line), recordNow(line)];
      if (old === null || fresh === null) continue;
      const isNew = old.number === chosen.numbers[next];
      if (isNew) next++;
      const row = isNew ? fresh.countedRow(gold) : old.countedRow(gold, isMerged);
      if (row === null) throw unreadable(output.name, old.number);
      ended.push(row);
      bytes += line.length;
      if (ended.length < TOGETHER.rows && bytes < TOGETHER.bytes) continue;
      tally = fold(tally, ended);
      [ended, bytes] = [[], 0];
    }
  }
  return withUnsaid(fold(tally, ended), then, format, settings);
}

/** Keeps what was paid, and what records do not contain. */
function withUnsaid(now: Tally, then: Tally, format: RecordFormat, { output }: Settings): Tally {
  const { usage, latency, estimated, without_confidence, endpoints, tiers, reused } = then;
  // A CSV may have no column for messages.
  const untold = Object.entries(then.samples ?? {}).filter(
    ([code]) => Object.hasOwn(now.errors, code) && !Object.hasOwn(now.samples ?? {}, code),
  );
  const { parts, names } = format;
  // A CSV has columns for some categories only.
  const filtersOf = (side: 'prompt' | 'completion'): FilterCounts => {
    const others = Object.entries(then.filters[side]).filter(
      ([category]) => output.format.hasHeader && !names.includes(`${side}_${category}_filtered`),
    );
    return { ...Object.fromEntries(others), ...now.filters[side] };
  };
  return {
    ...now,
    ...{ usage, latency },
    ...(reused?.usage && { reused: { ...NONE_REUSED, ...now.reused, usage: reused.usage } }),
    ...(endpoints && {
      endpoints: parts.has('endpoint') ? withRows(endpoints, now.endpoints) : endpoints,
    }),
    ...(tiers && { tiers: parts.has('tier') ? withRows(tiers, now.tiers) : tiers }),
    ...(untold.length > 0 && { samples: { ...Object.fromEntries(untold), ...now.samples } }),
    filters: { prompt: filtersOf('prompt'), completion: filtersOf('completion') },
    ...(estimated !== undefined && { estimated }),
    ...(!parts.has('confidence') && without_confidence !== undefined && { without_confidence }),
    ...(now.gold && { gold: { ...now.gold, ...calibrated(now.gold, then.gold, parts) } }),
  };
}

const NONE_REUSED = { copied: 0, carried: 0, failed: 0 };

/** The usage of some, and the rows of others. */
const withRows = (
  used: NonNullable<Tally['endpoints' | 'tiers']>,
  now: Tally['endpoints' | 'tiers'] = {},
): NonNullable<Tally['endpoints' | 'tiers']> =>
  Object.fromEntries(
    Object.entries(used).map(([name, { usage }]) => [name, { rows: now[name]?.rows ?? 0, usage }]),
  );

function calibrated(
  { calibration: now }: GoldTally,
  { calibration: then }: Partial<GoldTally> = {},
  parts: RecordFormat['parts'],
): Pick<GoldTally, 'calibration'> {
  if (then === undefined || parts.has('answer_probabilities')) return {};
  if (!parts.has('confidence') || now === undefined) return { calibration: then };
  return { calibration: { ...now, forecasts: then.forecasts, squares: then.squares } };
}

function withoutFailed(tally: Tally, { rows, codes, copied, carried, gold }: FailedRows): Tally {
  const { reused, samples, ...others } = tally;
  const counter = new Counter(tally.errors, LIMITS.errors);
  for (const [code, times] of codes) counter.remove(code, times);
  const errors = counter.toCounts();
  // The first message of a code without rows is dropped.
  const told = Object.entries(samples ?? {}).filter(([code]) => Object.hasOwn(errors, code));
  return {
    ...others,
    rows: { ...tally.rows, total: tally.rows.total - rows, failed: tally.rows.failed - rows },
    errors,
    ...(told.length > 0 && { samples: Object.fromEntries(told) }),
    ...(reused && {
      reused: {
        copied: reused.copied - copied,
        carried: reused.carried - carried,
        failed: reused.failed - copied - carried,
        ...(reused.usage && { usage: reused.usage }),
      },
    }),
    ...(tally.gold && { gold: { ...tally.gold, unanswered: tally.gold.unanswered - gold } }),
  };
}

/**
 * Without codes in the records, the summary must count only these failed rows, or only one code.
 * @throws UsageError when it does not
 */
function codesOf(
  { codes }: FailedRows,
  before: StoredSummary,
  { gold, output }: Settings,
): ReadonlyMap<string, number> {
  const untold = codes.get('') ?? 0;
  if (untold === 0) return codes;
  const known: CountByName | null = failedCodes(before);
  const names = Object.keys(known ?? {});
  const isAll = untold === before.rows.failed;
  // The right answer of an unreadable row is not counted.
  if (known === null || (!isAll && names.length > 1) || (gold !== null && names.some(isUnreadable)))
    throw columnsMissing(output.path, ['error_code']);
  return new Map(names.map((code) => [code, (codes.get(code) ?? 0) + (isAll ? (known[code] ?? 0) : untold)]));
}

/** Null when the summary contains only a part of it. */
export const answerThen = ({ details }: StoredSummary): AnswerSpec | null =>
  answerSpec.safeParse(parseJson(details.settings['answer'] ?? '')).data ?? null;

const answerSpec = z.custom<AnswerSpec>((value) => z.object({ kind: z.string() }).safeParse(value).success);

const answerChanged = (output: string): UsageError =>
  new UsageError(
    'answer_changed',
    `answers of ${output} may be those of people (merge-review), and the summary counts what the model said; the job reads answers in another way now, so that cannot be counted again`,
    'Choose rows that failed, or put answer back as it was.',
  );

const unreadable = (output: string, number: number): UsageError =>
  new UsageError(
    'output_edited',
    `row ${number} of ${output} cannot be read back: its values do not go together`,
    'Choose rows that failed, or run the job again with --overwrite.',
  );
