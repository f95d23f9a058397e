import { lstatSync, type Stats } from 'node:fs';
import * as z from 'zod';
import { summaryText } from '../account/summary.js';
import { type RecordSettings, recordOptions } from '../config/settings.js';
import { PromptmillError, UsageError } from '../core/errors.js';
import { parseJson, valueText } from '../core/json.js';
import type { Answer, Json } from '../core/model.js';
import { recordFormat } from '../output/format.js';
import { packedFor } from '../output/output-bytes.js';
import { isTaken, readPlainFile } from '../output/plain-file.js';
import { type OutputRecord, outputAt, readOutput } from '../output/reader.js';
import type { OutputFormat, RecordFormat } from '../output/record.js';
import type { Part } from '../output/result-columns.js';
import { type Change, rewritten } from '../output/rewrite.js';
import { WriteError, writeDurably } from '../output/writer.js';
import { writtenOf } from '../output/written.js';
import { openFinished } from '../resume/finished-output.js';
import { outputFiles } from '../resume/output-files.js';
import { inShort, type Reviewed, ReviewProblems, readReview } from './review-answers.js';

export interface Merged {
  readonly merged: number;
  /** Answers that the output had already. */
  readonly already: number;
  /** Rows of the review without an answer. */
  readonly empty: number;
}

/**
 * Puts a person's answers into a finished output, which is replaced in one step, and updates its summary. All
 * problems of the review are reported together, before anything is written.
 * @param output must be locked by this process
 * @param mayGoOn throws if the lock is lost or the command must end
 * @throws UsageError
 */
export async function mergeReview(
  output: string,
  review: string,
  job: RecordSettings,
  mayGoOn: () => void,
): Promise<Merged> {
  assertNotBegun(output);
  const { files, summary } = await openFinished(output, 'refuse');
  const before = lstatSync(output);
  let now = summary;
  const mode = before.mode & 0o777;
  const problems = new ReviewProblems(review);
  const file = outputAt(output);
  const { format } = file;
  const options = recordOptions(job);
  const layout = recordFormat({ ...options, format, inputColumns: [], select: undefined });
  const columns = [...layout.values(ANSWER, NO_ANSWER).keys()];
  const properties = format.hasHeader && options.answer.shape === 'object' ? columns : [];
  const { answers, empty } = await readReview(review, job.answer, properties, problems);
  problems.end();

  const merge = new Merge(answers, columns, format, layout, problems);
  let records = 0;
  for await (const batch of readOutput(file)) {
    mayGoOn();
    for (const record of batch) merge.compare(record, output);
    records += batch.length;
  }
  merge.end(output, records);

  const { size: merged } = merge.changed;
  if (merged > 0) {
    const checked = async function* (): AsyncGenerator<Buffer> {
      for await (const piece of rewritten(file, (record) => merge.change(record))) {
        mayGoOn();
        yield piece;
      }
    };
    const rows = (summary.merged_review?.rows ?? 0) + merged;
    const merged_review = { rows, at: new Date().toISOString() };
    await writeDurably(output, packedFor(output, checked()), mode, async (path) => {
      const written = await writtenOf(path, output);
      now = { ...summary, merged_review, details: { ...summary.details, written } };
      // If the process is killed after this, the output itself shows whether the answers are in it.
      const next = { written, merged_review };
      await writeDurably(
        files.summary,
        summaryText({ ...summary, details: { ...summary.details, next } }),
        mode,
      );
      mayGoOn();
      if (!isUnchanged(output, before)) throw changedMeanwhile(output);
    }).catch((error: unknown) => {
      throw error instanceof WriteError && error.cause instanceof PromptmillError ? error.cause : error;
    });
  }
  const told = summaryText(now);
  // Also repairs what a killed merge left half done.
  if (readPlainFile(files.summary) !== told) await writeDurably(files.summary, told, mode);
  return { merged, already: answers.size - merged, empty };
}

class Merge {
  readonly changed = new Set<number>();

  constructor(
    private readonly answers: ReadonlyMap<number, Reviewed>,
    private readonly columns: readonly string[],
    private readonly format: OutputFormat,
    private readonly records: RecordFormat,
    private readonly problems: ReviewProblems,
  ) {}

  compare(record: OutputRecord, output: string): void {
    const { number } = record;
    const reviewed = this.answers.get(number);
    if (reviewed === undefined) return;
    const { line, text } = reviewed;
    const values = this.#values(record, reviewed);
    const lacking = this.columns.filter((name) => !record.has(name));
    if (lacking.length > 0) {
      throw new UsageError(
        'output_column_missing',
        `${output} has no column ${lacking.join(', ')}, where the answers belong`,
        'Give the output of this job, with its answer among output.columns.',
      );
    }
    const status = valueText(record.get('status'));
    const said = record.get('text');
    if (record.has('status') && status !== 'completed') {
      this.problems.add(
        line,
        `row ${number} of ${output} is ${status || 'no record of a run'}, so it has no answer`,
      );
    } else if (text !== null && said !== undefined && inShort(valueText(said)) !== text) {
      this.problems.add(
        line,
        `its text is not the one of row ${number} of ${output}, so it is about another row; where a spreadsheet has changed the texts, delete the column text, and rows are not compared`,
      );
    } else if (
      [...values].some(([name, value]) => record.has(name) && !this.#isSame(record.get(name), value))
    ) {
      this.changed.add(number);
    }
  }

  end(output: string, records: number): void {
    for (const [row, { line }] of this.answers)
      if (row > records)
        this.problems.add(line, `row ${row} is behind the last of the ${records} rows of ${output}`);
    this.problems.end();
  }

  change(record: OutputRecord): Change {
    const reviewed = this.changed.has(record.number) ? this.answers.get(record.number) : undefined;
    return reviewed === undefined ? null : this.#values(record, reviewed);
  }

  /** The answer, without the marks of an invalid or abstained one. */
  #values(record: OutputRecord, { answer }: Reviewed): ReadonlyMap<string, string> {
    return this.records.values(record.isInvalid ? WITH_ERROR : WITHOUT_ERROR, answer);
  }

  /** @param value in the form of the format */
  #isSame(found: Json | undefined, value: string): boolean {
    return valueText(found) === valueText(this.format.value(value));
  }
}

const ANSWER: ReadonlySet<Part> = new Set(['answer']);
const NO_ANSWER: Answer = { values: [], counted: [], problem: null };
const WITHOUT_ERROR: ReadonlySet<Part> = new Set(['answer', 'abstained']);
const WITH_ERROR: ReadonlySet<Part> = new Set(['answer', 'abstained', 'error']);

const retrying = z.object({ retry: z.object({ asked: z.string() }) });

/** @throws UsageError `run_unfinished` when a run is to go on with the output */
function assertNotBegun(output: string): void {
  const { manifest } = outputFiles(output);
  if (!isTaken(manifest)) return;
  const { data: left } = retrying.safeParse(parseJson(readPlainFile(manifest)));
  throw new UsageError(
    'run_unfinished',
    left === undefined
      ? `${manifest} is a run that is not finished with all rows of its input, and it goes on from ${output}`
      : `${manifest} is an unfinished retry of ${output}`,
    `The command that began it goes on with it: ${left === undefined ? 'promptmill run JOB' : `promptmill retry ${output} ${left.retry.asked}`}. Merge the review then.`,
  );
}

function isUnchanged(output: string, before: Stats): boolean {
  const now = lstatSync(output, { throwIfNoEntry: false });
  return now?.ino === before.ino && now.size === before.size && now.mtimeMs === before.mtimeMs;
}

const changedMeanwhile = (output: string): UsageError =>
  new UsageError(
    'output_changed',
    `${output} was changed meanwhile; nothing was written`,
    'Run the same command again.',
  );
