import type { StoredSummary } from '../account/summary.js';
import { answerReader } from '../answer/answer.js';
import { readJobFile } from '../config/job-file.js';
import type { NamedJob } from '../config/job-schema.js';
import { type AnswerSpec, answerSpecSchema } from '../core/answer-spec.js';
import { UsageError } from '../core/errors.js';
import { count } from '../core/figures.js';
import { isObject, parseJson, valueText } from '../core/json.js';
import { unknownNames } from '../core/nearest.js';
import { unescapeFormula } from '../output/formula.js';
import {
  ANY_JOB,
  type Output,
  type OutputRecord,
  outputAt,
  type RecordedJob,
  readOutput,
} from '../output/reader.js';
import { ABSTAINED, ANSWER_SOURCE, CONFIDENCE, LOGPROBS, ORIGINS } from '../output/result-columns.js';
import type { Side } from './matching.js';
import { answerColumns, answerNormalizer, isResultName, type NormalizedAnswer } from './normalized-answer.js';

export interface OutputToCompare extends Output {
  /** What its records depend on, by part, as in summary and manifest; empty if unknown. */
  readonly settings: Readonly<Record<string, string>>;
  /** @default none, or not finished */
  readonly summary?: StoredSummary | null;
}

/** Characters of a text that people know a row by. */
const LONG = 40;

/** What the first record and the settings tell of an output. */
export class ComparedOutput {
  readonly #isCsv: boolean;
  /** Answer columns of a CSV; `null` if they cannot be decided. */
  readonly #answers: readonly string[] | null;

  private constructor(
    readonly output: OutputToCompare,
    private job: RecordedJob,
    /** Columns of a CSV, members of JSONL; `null` if there is no record. */
    private readonly columns: readonly string[] | null,
    /** Input names in the first record of JSONL; `null` if its row was unreadable. */
    private readonly members: readonly string[] | null,
    /** A row may have several labels; `null` if unknown. */
    readonly several: boolean | null,
    private readonly beginning: readonly OutputRecord[],
  ) {
    this.#isCsv = output.format.hasHeader;
    const spec = specOf(output.settings);
    const properties = spec?.kind === 'json' ? spec.schema['properties'] : undefined;
    this.#answers = answerColumns(columns ?? [], isObject(properties) ? properties : {});
  }

  /** @throws UsageError when it is no output of a run */
  static async open(output: OutputToCompare): Promise<ComparedOutput> {
    const written = parseJson(output.settings['output'] ?? '');
    const isRaw = Array.isArray(written) && written.at(-1) === 'raw';
    const beginning = await firstRecords(output);
    const [first = null] = beginning;
    const columns =
      first?.names().map((name) => (isRaw || !output.format.hasHeader ? name : unescapeFormula(name))) ??
      null;
    if (columns !== null && !columns.includes('status')) throw notOurs(output.name, 'has no column "status"');
    const spec = specOf(output.settings);
    const input = first?.get('input');
    const isList = Array.isArray(first?.get('answer'));
    const isSeveral = spec?.kind === 'labels' && spec.multiple === true;
    return new ComparedOutput(
      output,
      { ...ANY_JOB, formulas: isRaw ? 'raw' : 'protect' },
      columns,
      isObject(input) ? Object.keys(input) : null,
      spec === null ? isList || null : isSeveral,
      beginning,
    );
  }

  get name(): string {
    return this.output.name;
  }

  get summary(): StoredSummary | null {
    return this.output.summary ?? null;
  }

  /** `null` if its file is gone, or another job has its name now. */
  readJob(): NamedJob | null {
    const { job: name, job_file: file, job_set: set } = this.summary ?? {};
    if (file === undefined) return null;
    try {
      const job = readJobFile(file, undefined, set);
      return job.name === name ? job : null;
    } catch (error) {
      if (error instanceof UsageError) return null;
      throw error;
    }
  }

  /** As the run read its answers; `null` if unknown. */
  get spec(): AnswerSpec | null {
    return specOf(this.output.settings);
  }

  /** For records read after this call. */
  readAnswersBy({ spec, gold }: Pick<RecordedJob, 'spec' | 'gold'>): void {
    this.job = { ...this.job, spec, answer: answerReader(spec), gold };
  }

  get inputColumns(): readonly string[] {
    if (!this.#isCsv) return this.members ?? [];
    const answers = this.#answers ?? [];
    return (this.columns ?? []).filter(
      (name) => !isResultName(name) && !OPTIONAL.has(name) && !answers.includes(name),
    );
  }

  /** The first input column with a long text. */
  get longColumn(): string | null {
    const isLong = (name: string): boolean => {
      const cell = this.cellOf(name);
      return this.beginning.some((record) => cell(record).length >= LONG);
    };
    return this.inputColumns.find(isLong) ?? null;
  }

  /** Reads an input column. @throws UsageError when the records lack it */
  cellOf(column: string): (record: OutputRecord) => string {
    const edited = (record: OutputRecord, what: string) => notAsWritten(this.name, record.number, what);
    if (!this.#isCsv) {
      if (this.members?.includes(column) === false) throw this.#unknown(column);
      return (record) => {
        const input = read(() => record.get('input'));
        if (input === undefined) throw edited(record, 'it has no "input"');
        return isObject(input) && Object.hasOwn(input, column) ? valueText(input[column]) : '';
      };
    }
    const name = this.#headerOf(column);
    if (this.columns !== null && !this.columns.includes(name)) throw this.#unknown(column);
    return (record) => {
      const id = read(() => record.value(name));
      if (id === undefined) throw edited(record, `it has no ${JSON.stringify(column)}`);
      return valueText(id);
    };
  }

  has(column: string): boolean {
    return this.#isCsv
      ? (this.columns ?? []).includes(this.#headerOf(column))
      : this.members?.includes(column) === true;
  }

  /** @throws UsageError without answer columns; the returned function, for a record that no run wrote */
  normalizer(several: boolean): (record: OutputRecord) => NormalizedAnswer {
    const columns = this.#answers;
    if (this.columns !== null && this.#isCsv && columns === null)
      throw notOurs(this.name, 'has no column "answer", and "status" and "text" do not enclose any');
    const normalize = answerNormalizer({ columns: this.#isCsv ? (columns ?? []) : null, several });
    return (record) => {
      const said = read(() => normalize(record));
      if (said !== null && said !== undefined) return said;
      throw notAsWritten(this.name, record.number, 'it lacks its status or its answer');
    };
  }

  records(): AsyncGenerator<readonly OutputRecord[]> {
    return readOutput(this.output, this.job);
  }

  /** @param by input column that identifies rows; `null`: their numbers */
  side(by: string | null, records: Side['records'] = this.records()): Side {
    return { output: this.output, job: this.job, records, idOf: by === null ? null : this.cellOf(by) };
  }

  #headerOf(column: string): string {
    const moved = `input_${column}`;
    const isTaken = isResultName(column) || (this.#answers ?? []).includes(column);
    const mayBe = isTaken || (OPTIONAL.has(column) && (this.columns ?? []).includes(moved));
    return mayBe ? moved : column;
  }

  #unknown(column: string): UsageError {
    const use = { code: 'compare_id_missing', user: '--by names', owner: `the input of ${this.name} has` };
    return unknownNames(use, [column], this.inputColumns);
  }
}

const OPTIONAL: ReadonlySet<string> = new Set(
  [...Object.values(ORIGINS), ANSWER_SOURCE, CONFIDENCE, ABSTAINED, LOGPROBS].map(({ name }) => name),
);

/** `null` if the settings do not describe the answers. */
const specOf = (settings: OutputToCompare['settings']): AnswerSpec | null =>
  answerSpecSchema.safeParse(parseJson(settings['answer'] ?? '')).data ?? null;

async function firstRecords(output: OutputToCompare): Promise<readonly OutputRecord[]> {
  for await (const records of readOutput(output)) {
    const [record] = records;
    if (record === undefined) continue;
    if (read(() => record.names()) === undefined)
      throw notOurs(output.name, 'cannot be read: its first record is none');
    return records;
  }
  return [];
}

/** Undefined for an edited record that cannot be read. */
function read<T>(value: () => T): T | undefined {
  try {
    return value();
  } catch {
    return undefined;
  }
}

const notOurs = (name: string, why: string): UsageError =>
  new UsageError(
    'output_foreign',
    `${name} is no output of a run: it ${why}`,
    'Give the output of `promptmill run`.',
  );

const notAsWritten = (name: string, row: number, what: string): UsageError =>
  new UsageError(
    'output_edited',
    `${name}, row ${count(row)}, is not as a run wrote it: ${what}`,
    'Put the file of the run back.',
  );

export const onDisk = (path: string, summary: StoredSummary | null): OutputToCompare => ({
  ...outputAt(path),
  settings: summary?.details.settings ?? {},
  summary,
});
