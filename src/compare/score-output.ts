import { ConfidenceCurve, type Threshold } from '../account/abstention.js';
import { GoldCounter } from '../account/gold-tally.js';
import { LEAST_ANSWERED } from '../account/require.js';
import { type Scores, scoresOf } from '../account/scores.js';
import { saysRight } from '../answer/gold.js';
import { type RecordSettings, recordOptions } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { valueText } from '../core/json.js';
import { type OutputRecord, outputAt, type RecordedJob, readOutput } from '../output/reader.js';
import { BadCells, type GoldParts, goldSources } from './gold-source.js';

/** `promptmill score --json`. */
export interface ScoreReport {
  readonly output: string;
  /** Path of the job file. */
  readonly job: string;
  /** Columns and files with right answers. */
  readonly gold: readonly string[];
  readonly records: number;
  /** As in the summary of a run. */
  readonly scores: Scores;
  /** Effect of confidence thresholds on the rows with gold; `null` if the output has no confidence. */
  readonly abstention: {
    readonly thresholds: readonly Threshold[];
    /**
     * The lowest threshold for each accuracy with enough answered rows; `null` if none, 0 if all labels may
     * stay.
     */
    readonly targets: readonly { readonly accuracy: number; readonly reached: Threshold | null }[];
  } | null;
  /** Identification by row number, scores left out, and warnings. */
  readonly notes: readonly string[];
}

export type ScoredJob = RecordSettings;

const THRESHOLDS = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];
const TARGETS = [0.9, 0.95, 0.99];

/**
 * Scores a finished output in one pass.
 * @param named `--gold`; the first source that has a row's answer counts. @default the column of the job
 * @param warning what a reader must know of the output first
 * @throws UsageError when there is nothing to score
 */
export async function scoreOutput(
  output: string,
  job: ScoredJob & { readonly file: string },
  named: readonly string[],
  warning: string | null,
): Promise<ScoreReport> {
  const { answer, gold } = job;
  const recorded = recordOptions(job);
  const bad = new BadCells();
  const parts: GoldParts = { output, spec: answer, id: job.reuse.id, bad };
  const source = await goldSources(named, gold, parts);
  if (source === null) throw noGold(job.file);
  const asked = gold !== null && named.length === 0 ? [gold] : named;

  const counter = new GoldCounter(undefined);
  let curve: ConfidenceCurve | null = null;
  let notes: readonly string[] = [];
  let records = 0;
  for await (const batch of readOutput(outputAt(output), recorded)) {
    for (const record of batch) {
      if (records === 0) {
        const needed = record.lacksForAnswer();
        if (needed.length > 0) throw notOurs(output, needed);
        notes = leftOut(record, recorded);
        if (record.hasConfidence) curve = new ConfidenceCurve();
      }
      records += 1;
      record.assertWhole();
      const { status } = record;
      if (status === null) throw edited(output, record);
      if (record.isUnreadable) continue;
      const right = source.goldOf(record);
      if (right === null) continue;
      const read = status === 'completed' ? record.answer(right) : null;
      const said = read && record.said(read);
      counter.add(right, read, said);
      if (said !== null)
        curve?.add(said.problem === null ? (said.confidence?.value ?? 0) : null, saysRight(right, said));
    }
  }
  bad.end();
  const strange = source.end();
  if (counter.all === 0) throw noRow(output, asked);
  return {
    output,
    job: job.file,
    gold: asked,
    records,
    scores: scoresOf(counter.toTally()),
    abstention: curve && {
      thresholds: THRESHOLDS.map((threshold) => curve.at(threshold)),
      targets: TARGETS.map((accuracy) => ({ accuracy, reached: curve.lowest(accuracy, LEAST_ANSWERED) })),
    },
    notes: [...(warning === null ? [] : [warning]), ...strange, ...notes],
  };
}

/** Scores left out, with the columns they need. */
function leftOut(record: OutputRecord, { answer }: RecordedJob): string[] {
  if (answer.confidenceOf === undefined) return [];
  const lacking = record.lacksForProbabilities();
  const no = (what: string, names: readonly string[]): string[] =>
    names.length === 0 ? [] : [`${what}: the records have no ${names.join(', ')}`];
  return [
    ...no('no calibration error and no abstention', record.hasConfidence ? [] : ['confidence']),
    // Numbers that voted have no probabilities.
    ...no('no Brier score', answer.confidenceOf.length === 0 ? ['probabilities of numbers'] : lacking),
  ];
}

const notOurs = (output: string, columns: readonly string[]): UsageError =>
  new UsageError(
    'output_column_missing',
    `${output} has no ${columns.join(', ')}, and scores are made of ${columns.length === 1 ? 'this column' : 'these columns'}`,
    'Give an output of `promptmill run`. Where output.columns leaves them out, run the job with them.',
  );

const edited = (output: string, record: OutputRecord): UsageError =>
  new UsageError(
    'output_edited',
    `${output} is not as the run wrote it: line ${record.line}: the status is ${JSON.stringify(valueText(record.get('status')))}`,
    'Put the file of the run back. Right answers of your own can be in a file beside it: --gold FILE.',
  );

const noGold = (job: string): UsageError =>
  new UsageError(
    'no_gold',
    `${job} has no answer.gold, so it is not known where the right answers are`,
    'Name a column of the output, or a file: --gold FILE|COLUMN.',
  );

export const noRow = (output: string, gold: readonly string[]): UsageError =>
  new UsageError(
    'no_gold',
    `no record of ${output} has a right answer in ${gold.join(', ')}`,
    'Fill some in, or name another column or file: --gold FILE|COLUMN.',
  );
