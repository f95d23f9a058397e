import * as z from 'zod';
import { UsageError } from '../errors.js';
import { count } from '../figures.js';
import { isObject, parseJson, valueText } from '../json.js';
import type { Json } from '../model.js';
import { unknownNames } from '../nearest.js';
import { inert, uninert } from '../output/formula.js';
import type { OutputFormat } from '../output/record.js';
import { ABSTAINED, ANSWER_SOURCE, CONFIDENCE, LOGPROBS, ORIGINS } from '../output/result-columns.js';
import { type StandingRecord, standingRecords } from '../output/rewrite.js';
import type { Side } from './matching.js';
import { answerColumns, isResultName, type Said, saidReader } from './said.js';

/** A finished output, or what will be one, to be compared with another. */
export interface OutputToCompare {
  /** How messages call it. */
  readonly name: string;
  readonly format: OutputFormat;
  readonly bytes: () => AsyncIterable<Buffer>;
  /** What its records depend on, by part, as summary and manifest have it; empty where that is not known. */
  readonly settings: Readonly<Record<string, string>>;
}

/** What is known of an output by its first record and its settings. */
export class ComparedOutput {
  readonly #isCsv: boolean;
  readonly #formulas: 'protect' | 'raw';
  /** Columns of the answer in a CSV; `null` where they cannot be told. */
  readonly #answers: readonly string[] | null;

  private constructor(
    readonly output: OutputToCompare,
    /** Its columns in a CSV, its members in JSONL; `null` where it has no record. */
    private readonly columns: readonly string[] | null,
    /** Names of the input in the first record of JSONL; `null` where its row could not be read. */
    private readonly members: readonly string[] | null,
    /** A row may have several labels; `null` where that is not known. */
    readonly several: boolean | null,
  ) {
    const { format, settings } = output;
    const written = parseJson(settings['output'] ?? '');
    this.#isCsv = format.hasHeader;
    this.#formulas = Array.isArray(written) && written.at(-1) === 'raw' ? 'raw' : 'protect';
    this.#answers = answerColumns(columns ?? [], specOf(settings).schema?.properties);
  }

  /** @throws UsageError when it is no output of a run */
  static async open(output: OutputToCompare): Promise<ComparedOutput> {
    const first = await firstRecord(output);
    const columns = first && [...first.keys()];
    if (columns !== null && !columns.includes('status')) throw notOurs(output.name, 'has no column "status"');
    const { multiple, kind } = specOf(output.settings);
    const input = first?.get('input');
    const isList = Array.isArray(first?.get('answer')) && kind === undefined;
    return new ComparedOutput(
      output,
      columns,
      isObject(input) ? Object.keys(input) : null,
      kind === undefined ? (isList ? true : null) : (multiple ?? false),
    );
  }

  get name(): string {
    return this.output.name;
  }

  /** Columns of the input that its records have. */
  get inputColumns(): readonly string[] {
    if (!this.#isCsv) return this.members ?? [];
    const answers = this.#answers ?? [];
    return (this.columns ?? [])
      .filter((name) => !isResultName(name) && !OPTIONAL.has(name) && !answers.includes(name))
      .map((name) => this.#plain(name));
  }

  /**
   * What a column of the input tells rows by.
   * @throws UsageError where the records do not have it
   */
  idBy(column: string): (record: StandingRecord) => string {
    const edited = (record: StandingRecord, what: string) => notAsWritten(this.name, record.number, what);
    if (!this.#isCsv) {
      if (this.members?.includes(column) === false) throw this.#unknown(column);
      return (record) => {
        const input = read(() => record.fields.get('input'));
        if (input === undefined) throw edited(record, 'it has no "input"');
        return isObject(input) && Object.hasOwn(input, column) ? valueText(input[column]) : '';
      };
    }
    const name = this.#headerOf(column);
    if (this.columns !== null && !this.columns.includes(name)) throw this.#unknown(column);
    return (record) => {
      const id = read(() => record.fields.get(name));
      if (id === undefined) throw edited(record, `it has no ${JSON.stringify(column)}`);
      return this.#plain(valueText(id));
    };
  }

  has(column: string): boolean {
    return this.#isCsv
      ? (this.columns ?? []).includes(this.#headerOf(column))
      : this.members?.includes(column) === true;
  }

  /** @throws UsageError when the columns of the answer cannot be told, and from what it returns, for a record that no run wrote */
  saidBy(several: boolean): (record: StandingRecord) => Said {
    const columns = this.#answers;
    if (this.columns !== null && this.#isCsv && columns === null)
      throw notOurs(this.name, 'has no column "answer", and "status" and "text" do not enclose any');
    const reader = saidReader({
      columns: this.#isCsv ? (columns ?? []) : null,
      several,
      formulas: this.#formulas,
    });
    return (record) => {
      const said = read(() => reader(record.fields));
      if (said !== null && said !== undefined) return said;
      throw notAsWritten(this.name, record.number, 'it lacks its status or its answer');
    };
  }

  textOf({ fields }: StandingRecord): string {
    const text = valueText(fields.get('text'));
    return this.#isCsv ? this.#plain(text) : text;
  }

  records(): AsyncGenerator<StandingRecord[]> {
    return standingRecords(this.output.bytes(), this.output.format, this.output.name);
  }

  /** @param by column of the input that tells rows; `null` for their numbers */
  side(by: string | null, records: Side['records'] = this.records()): Side {
    const { name, format } = this.output;
    return { name, format, records, idOf: by === null ? null : this.idBy(by) };
  }

  #plain(text: string): string {
    return this.#formulas === 'protect' ? uninert(text) : text;
  }

  /** What a column of the input is called in the header of a CSV. */
  #headerOf(column: string): string {
    const moved = `input_${column}`;
    const isTaken = isResultName(column) || (this.#answers ?? []).includes(column);
    const mayBe = isTaken || (OPTIONAL.has(column) && (this.columns ?? []).includes(moved));
    const name = mayBe ? moved : column;
    return this.#formulas === 'protect' ? inert(name) : name;
  }

  #unknown(column: string): UsageError {
    const use = { code: 'compare_id_missing', user: '--by names', owner: `the input of ${this.name} has` };
    return unknownNames(use, [column], this.inputColumns);
  }
}

/** Result columns that only some jobs have. */
const OPTIONAL: ReadonlySet<string> = new Set(
  [...Object.values(ORIGINS), ANSWER_SOURCE, CONFIDENCE, ABSTAINED, LOGPROBS].map(({ name }) => name),
);

const spec = z.object({
  kind: z.string(),
  multiple: z.boolean().exactOptional(),
  schema: z.object({ properties: z.record(z.string(), z.unknown()).exactOptional() }).exactOptional(),
});

/** What the settings say of the answers; empty where they do not. */
const specOf = (settings: Readonly<Record<string, string>>): Partial<z.output<typeof spec>> =>
  spec.safeParse(parseJson(settings['answer'] ?? '')).data ?? {};

async function firstRecord({
  format,
  bytes,
  name,
}: OutputToCompare): Promise<ReadonlyMap<string, Json> | null> {
  for await (const [row] of format.readBack(bytes(), name)) {
    if (row === undefined) continue;
    if (row.fault !== undefined) throw notOurs(name, `cannot be read: ${row.fault.message}`);
    return row.fields;
  }
  return null;
}

/** A record that was edited may be anything. */
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
