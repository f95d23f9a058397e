import * as z from 'zod';
import { ABSTAINED, answerReader, REFUSED } from '../answer/answer.js';
import { type Gold, type GoldColumns, goldCell } from '../answer/gold.js';
import type { AnswerSpec } from '../core/answer-spec.js';
import { UsageError } from '../core/errors.js';
import { exactOr, isObject, valueText } from '../core/json.js';
import {
  type Answer,
  type AnswerSource,
  type Completion,
  type Confidence,
  ELSEWHERE,
  type FilterResults,
  type FilterVerdict,
  type Json,
  type Origin,
  type Outcome,
  STATUSES,
  type Usage,
} from '../core/model.js';
import { outputFormatOf } from './format.js';
import { escapeFormula, unescapeFormula } from './formula.js';
import { outputBytes, readable } from './output-bytes.js';
import { type ByteRange, hasInput, type OutputFormat, type RecordValues, recordLayout } from './record.js';
import { damageOf, type OriginColumn, probabilityColumns, RESULTS } from './result-columns.js';

/*
 * The only reader of finished outputs. A record locates its values in its bytes on demand, so that a pass
 * over a million rows pays only for what it reads. Only the records of one piece of the file are in memory.
 */

/** A finished output, or one in the making. */
export interface Output {
  readonly name: string;
  readonly format: OutputFormat;
  readonly bytes: () => AsyncIterable<Buffer>;
}

/** An output on disk. Reading it throws UsageError if it fails. */
export const outputAt = (path: string): Output => ({
  name: path,
  format: outputFormatOf(path),
  bytes: () => readable(path, outputBytes(path)),
});

export interface RecordedJob extends Omit<Parameters<typeof recordLayout>[0], 'inputColumns'> {
  readonly spec: AnswerSpec;
  /** `protect`: CSV cells were made inert; undone for all values but those of {@link OutputRecord.get}. */
  readonly formulas: 'protect' | 'raw';
  /** Input columns of the records → their names there. @default unknown */
  readonly inputs?: ReadonlyMap<string, string>;
  /** `answer.gold`. @default none */
  readonly gold?: GoldColumns | undefined;
}

const TEXT: AnswerSpec = { kind: 'text' };
/** For readers of what every record has. */
export const ANY_JOB: RecordedJob = { spec: TEXT, answer: answerReader(TEXT), formulas: 'protect' };

/** Records in a batch; more would outlive a garbage collection, whose copying took a quarter of the time. */
const TOGETHER = 64;

/** In order, in batches. @param job that wrote it. @default unknown: values that depend on it are not read */
export async function* readOutput(
  output: Output,
  job: RecordedJob = ANY_JOB,
): AsyncGenerator<readonly OutputRecord[]> {
  const recordOf = lineReader(output, job);
  for await (const lines of recordsWithEnds(output.bytes(), output.format)) {
    for (let i = 0; i < lines.length; i += TOGETHER)
      yield lines.slice(i, i + TOGETHER).flatMap((line) => recordOf(line) ?? []);
  }
}

/** Must see every line once, in order. Returns null for the header and for blank lines. */
export function lineReader(
  output: Output,
  job: RecordedJob = ANY_JOB,
): (line: Buffer) => OutputRecord | null {
  let [number, line, at] = [0, 1, 0];
  let reader = output.format.hasHeader ? null : new RecordReader(output, Buffer.alloc(0), job);
  return (bytes) => {
    const [startLine, start] = [line, at];
    at += bytes.length;
    for (let end = bytes.indexOf(LF); end !== -1; end = bytes.indexOf(LF, end + 1)) line++;
    if (isBlank(bytes)) return null;
    if (reader !== null) return reader.record(bytes, ++number, startLine, start);
    reader = new RecordReader(output, bytes, job);
    return null;
  };
}

export class RecordReader {
  readonly valuesIn: (record: Buffer) => RecordValues;
  readonly isCsv: boolean;
  readonly answers: readonly string[];
  /** An answer, as people write it. */
  readonly goldIn: (cell: Json) => Gold | string | null;
  /** Labels with a recorded confidence, and the CSV columns that hold it. */
  readonly labels: readonly string[];
  readonly probabilities: readonly string[];
  readonly asksConfidence: boolean;
  /** Columns that are counted and that only some jobs have. */
  readonly optional: readonly (OriginColumn | 'answer_source')[];
  readonly #inputs = new Map<string, string | null>();
  #noAnswer: readonly string[] | null = null;

  constructor(
    readonly output: Pick<Output, 'name' | 'format'>,
    header: Buffer,
    readonly job: RecordedJob = ANY_JOB,
  ) {
    const { answer, spec } = job;
    this.valuesIn = output.format.values(header);
    this.isCsv = output.format.hasHeader;
    this.answers = this.isCsv ? answerNames(job) : ['answer'];
    this.goldIn = goldCell(spec);
    this.labels = answer.confidenceOf ?? [];
    this.probabilities = probabilityColumns(this.labels).map(({ name }) => name);
    this.asksConfidence = answer.confidenceOf !== undefined;
    this.optional = [...(job.origins ?? []), ...(job.answerSource ? (['answer_source'] as const) : [])];
  }

  record(bytes: Buffer, number: number, line: number, at: number): OutputRecord {
    return new OutputRecord(number, line, at, bytes, this);
  }

  plain(cell: string): string {
    return this.job.formulas === 'protect' ? unescapeFormula(cell) : cell;
  }

  header(column: string): string {
    return this.isCsv && this.job.formulas === 'protect' ? escapeFormula(column) : column;
  }

  /** Name of an input column in a record, which may be renamed. Null if `output.columns` omits it. */
  input(column: string): string | null {
    const { select, inputs } = this.job;
    let name = inputs === undefined ? this.#inputs.get(column) : (inputs.get(column) ?? null);
    if (name === undefined) {
      const { columns } = recordLayout({ ...this.job, select: undefined, inputColumns: [column] });
      const own = columns[0]?.name ?? column;
      name = select === undefined || hasInput(select, own) ? own : null;
      this.#inputs.set(column, name);
    }
    return name;
  }

  /** The tally's names for a text that is no answer. */
  get noAnswer(): readonly string[] {
    this.#noAnswer ??= this.job.answer.read({ text: '', finish_reason: null }).counted;
    return this.#noAnswer;
  }
}

function answerNames(job: RecordedJob): string[] {
  const { columns } = recordLayout({ ...job, inputColumns: [], select: undefined });
  return columns.filter(({ part }) => part === 'answer').map(({ name }) => name);
}

interface RecordedRow {
  readonly outcome: Outcome;
  readonly answer: Answer | null;
  readonly gold: Gold | null;
}

/** A record of an output. Its values depend neither on the format nor on whether cells were made inert. */
export class OutputRecord {
  #values: RecordValues | null = null;

  constructor(
    /** Row number, from 1. */
    readonly number: number,
    /** First line of the record in the file, from 1. */
    readonly line: number,
    /** Offset in the output, in bytes. */
    readonly at: number,
    /** With its line end. */
    readonly bytes: Buffer,
    private readonly reader: RecordReader,
  ) {}

  /** A raw cell of CSV, or a part of JSONL. @throws UsageError `output_edited` */
  get(name: string): Json | undefined {
    const place = this.#placeOf(name);
    if (place === null) return undefined;
    try {
      return this.reader.output.format.value(this.bytes.toString('utf8', place.start, place.end));
    } catch (error) {
      throw this.#edited(error);
    }
  }

  has(name: string): boolean {
    return this.#placeOf(name) !== null;
  }

  /** A value before its cell was made inert; `undefined` if the record has none of this name. */
  value(name: string): Json | undefined {
    return this.valueAt(this.reader.header(name));
  }

  /** @param name one of {@link names} */
  valueAt(name: string): Json | undefined {
    const { isCsv } = this.reader;
    const value = this.get(name);
    return isCsv && typeof value === 'string' ? this.reader.plain(value) : value;
  }

  names(): readonly string[] {
    return this.#found.names();
  }

  /** The record with some texts replaced; names that it does not have are ignored. */
  with(values: ReadonlyMap<string, string>): Buffer {
    const changes = [...values]
      .flatMap(([name, text]) => {
        const place = this.#placeOf(name);
        return place === null ? [] : [{ place, text }];
      })
      .sort((a, b) => a.place.start - b.place.start);
    const pieces: Buffer[] = [];
    let at = 0;
    for (const { place, text } of changes) {
      pieces.push(this.bytes.subarray(at, place.start), Buffer.from(text));
      at = place.end;
    }
    return Buffer.concat([...pieces, this.bytes.subarray(at)]);
  }

  /** @throws UsageError `output_edited` if the record lacks values or has too many */
  assertWhole(): void {
    const { flaw = null } = this.#found;
    if (flaw !== null) throw this.#edited(new SyntaxError(flaw));
  }

  /** Null for an unknown status. */
  get status(): Outcome['status'] | null {
    const status = this.get('status');
    return STATUSES.find((known) => known === status) ?? null;
  }

  get text(): Json {
    return this.#value('text');
  }

  get label(): string | null {
    return (this.status === 'completed' && this.#string('answer')) || null;
  }

  /** Empty if there is none. */
  get errorCode(): string {
    if (this.reader.isCsv) return valueText(this.value('error_code'));
    const error = this.get('error');
    return isObject(error) ? valueText(error['code']) : '';
  }

  get isInvalid(): boolean {
    return this.errorCode.startsWith('answer_');
  }

  /** The row itself could not be read, so its cells are unknown. */
  get isUnreadable(): boolean {
    return isUnreadable(this.errorCode);
  }

  /** In a CSV of a job that does not abstain, a column of this name is the input's. */
  get isAbstained(): boolean {
    return String(this.get('abstained')) === 'true';
  }

  /** `read` if the record does not say. */
  get answerSource(): AnswerSource {
    const said = this.reader.job.answerSource ? this.#value('answer_source') : null;
    return SOURCES.find((source) => source === said) ?? 'read';
  }

  get hasConfidence(): boolean {
    return this.reader.asksConfidence && this.has('confidence');
  }

  get confidence(): Confidence | null {
    const value = this.reader.asksConfidence ? this.#value('confidence') : null;
    if (value === null) return null;
    const { isCsv, labels, probabilities } = this.reader;
    const listed = isCsv ? null : this.#value('answer_probabilities');
    const known = labels.flatMap((label, i): [string, number][] => {
      const each = isObject(listed) ? (listed[label] ?? null) : this.#value(probabilities[i] ?? '');
      return each === null ? [] : [[label, Number(each)]];
    });
    return { value: Number(value), probabilities: new Map(known) };
  }

  /** Confidence from 0 to 1; 0 if unknown. */
  get sureness(): number {
    return this.reader.asksConfidence ? Number(this.#value('confidence') ?? 0) : 0;
  }

  /** @returns `undefined` if the record lacks the column, or another one may have its name */
  input(column: string): Json | undefined {
    const name = this.reader.input(column);
    if (!this.reader.isCsv) {
      const input = this.get('input');
      if (name === null || input === undefined) return undefined;
      return isObject(input) && Object.hasOwn(input, column) ? (input[column] ?? null) : null;
    }
    // If the input already has this name, the column was renamed further.
    const isOther = name !== column && this.reader.job.inputs === undefined && this.has(`input_${name}`);
    return name === null || isOther ? undefined : this.value(name);
  }

  /** @returns null for an empty cell, `undefined` as {@link input}, a string: what is wrong with the cell */
  gold(column: string): Gold | string | null | undefined {
    if (this.isUnreadable) return null;
    const { goldIn, job } = this.reader;
    if (this.#lacks(column)) return undefined;
    const cellOf = (name: string): Json => this.input(name) ?? null;
    return job.gold?.name === column ? job.gold.read(cellOf) : goldIn(cellOf(column));
  }

  /** @param gold a column with right answers, or the name of the job's */
  #lacks(gold: string): boolean {
    const own = this.reader.job.gold;
    const columns = own?.name === gold ? own.columns : [gold];
    return columns.some((name) => this.input(name) === undefined);
  }

  /** The missing columns without which the answer is unknown. */
  lacksForAnswer(): string[] {
    const { isCsv, answers, job } = this.reader;
    const needed = [
      ...(isCsv && job.spec.kind === 'json' ? ['error_code'] : []),
      // A run that abstains writes them whatever output.columns says.
      ...(job.answer.abstains ? ['abstained', 'text'] : []),
    ];
    const absent = answers.filter((name) => !this.has(this.reader.header(name)));
    return [
      ...(this.has('status') ? [] : ['status']),
      ...absent,
      ...needed.filter((name) => !this.has(name)),
    ];
  }

  /** The missing columns that the tally needs. @param gold column with the right answer; null for none */
  lacksForTally(gold: string | null): string[] {
    const columns = this.reader.isCsv ? COUNTED.map(({ name }) => name) : COUNTED.map(({ part }) => part);
    const absent = [...columns, ...this.reader.optional].filter((name) => !this.has(name));
    const isScored = gold === null || this.isUnreadable || !this.#lacks(gold);
    return [...new Set([...absent, ...this.lacksForAnswer(), ...(isScored ? [] : [gold])])];
  }

  /** Missing values among the probabilities of labels. */
  lacksForProbabilities(): string[] {
    const names = this.reader.isCsv ? this.reader.probabilities : ['answer_probabilities'];
    return names.filter((name) => !this.has(this.reader.header(name)));
  }

  /** @param gold settles whether a CSV cell is a text or a number, which the cell itself does not say */
  answer(gold: Gold | null = null): Answer {
    const { job, isCsv } = this.reader;
    const values = job.spec.kind === 'json' ? this.#properties(gold) : [this.#labelled()];
    const isEmpty = values.every((value) => value === null);
    const abstained = isEmpty && (job.answer.abstains === true || !isCsv) && this.isAbstained;
    // An empty object and `null` may be answers.
    const isFaulty = job.spec.kind !== 'json' || (isCsv || this.has('error') ? this.isInvalid : isEmpty);
    const isInvalid = isEmpty && !abstained && isFaulty;
    return {
      ...{ values, counted: [], abstained },
      problem: isInvalid ? NO_ANSWER : null,
      confidence: isInvalid ? null : this.confidence,
    };
  }

  /**
   * What the model said, which its confidence is about. Read from the record's text, because the answer may
   * be a person's, or left out. The recorded answer if there is no text, or the job asks for no confidence.
   */
  said(recorded: Answer): Answer {
    if (!this.reader.asksConfidence || !this.has('text')) return recorded;
    const said = this.reader.job.answer.read({ text: valueText(this.text), finish_reason: null });
    return { ...said, confidence: said.problem === null ? this.confidence : null };
  }

  /**
   * Null if values contradict each other. CSV has only the four filter categories that the service documents.
   */
  outcome(): Outcome | null {
    const { status } = this;
    if (status === null || status === 'skipped') return status && { status };
    const source = this.answerSource;
    const { origin } = this;
    const endpoint = this.#string('endpoint');
    const latency_ms = this.#number('latency_ms');
    // Answered without a call: taken over from a run that no column names, as a sample.
    const tier = this.#string('tier');
    const elsewhere = ELSEWHERE.find((each) => each === tier) ?? null;
    const isTaken = status !== 'failed' && latency_ms === null && origin === null && elsewhere === null;
    const called = {
      ...{ attempts: 1, latency_ms },
      ...(endpoint !== null && { endpoint }),
      ...(origin && { origin }),
      ...(isTaken && { origin: { carried_from: '' } }),
      ...(elsewhere !== null && { elsewhere }),
      ...(source !== 'read' && source !== 'repaired' && { answer_source: source }),
    };
    const error = this.#error();
    if (status === 'failed') return error && { status, error, ...called };
    const filters = this.#filters();
    const completion: Completion = {
      ...(tier !== null && { tier }),
      ...{ text: this.#string('text'), finish_reason: this.#string('finish_reason'), usage: this.#usage() },
      ...{ model: null, id: null, created: null },
    };
    if (status === 'completed') {
      const damaged = damageOf(error?.code);
      return { status, completion: { ...completion, ...(damaged && { damaged }) }, filters, ...called };
    }
    const { text, finish_reason, usage } = completion;
    const isPromptBlocked = text === null && finish_reason === null && usage === null;
    return error && { status, completion: isPromptBlocked ? null : completion, filters, error, ...called };
  }

  /**
   * The row as the run counted it; null if the record's values contradict each other.
   * @param gold column with the right answer; null for none
   * @param isMerged answers may be a person's: read the model's from the text
   */
  countedRow(gold: string | null, isMerged = false): RecordedRow | null {
    const outcome = this.outcome();
    if (outcome === null) return null;
    const cell = gold === null ? null : this.gold(gold);
    const right = typeof cell === 'object' ? cell : null;
    return { outcome, answer: this.#countedAnswer(outcome, right, isMerged), gold: right };
  }

  #countedAnswer(outcome: Outcome, gold: Gold | null, isMerged: boolean): Answer | null {
    const { job, noAnswer } = this.reader;
    if (outcome.status === 'filtered' && outcome.completion !== null) {
      const { confidence } = this;
      return this.#saidFirst(outcome.completion, this.hasConfidence && confidence ? { confidence } : {});
    }
    if (outcome.status !== 'completed') return null;
    if (job.spec.kind === 'text')
      return { values: [], counted: [], problem: this.errorCode === REFUSED ? this.#error() : null };
    const { confidence, ...read } = this.answer(gold);
    const sure = this.hasConfidence && confidence !== undefined ? { confidence } : {};
    const repaired = this.answerSource === 'repaired' ? { repaired: true as const } : {};
    const answer = { ...read, ...repaired, ...sure };
    if (read.problem !== null)
      return { ...answer, counted: noAnswer, problem: this.#error() ?? read.problem };
    if (read.abstained) {
      const { values, label = values[0] } = this.said(answer);
      return { ...answer, counted: [ABSTAINED], ...(typeof label === 'string' && { label }) };
    }
    if (isMerged) return this.#saidFirst(outcome.completion, sure);
    if (job.spec.kind === 'json')
      return { ...answer, counted: ['valid'], properties: job.answer.named?.(read.values) ?? [] };
    const [value = null] = read.values;
    const named = Array.isArray(value) ? value.map(String) : [valueText(value)];
    return { ...answer, counted: named.length > 0 ? named : job.answer.read(NOTHING_APPLIES).counted };
  }

  #saidFirst(completion: Completion, sure: Pick<Answer, 'confidence'>): Answer {
    const { spec, answer } = this.reader.job;
    const { label, abstained: _, confidence: __, ...read } = answer.read(completion);
    if (read.problem !== null) return read;
    const said = label === undefined ? read : { ...read, values: [label], counted: [String(label)] };
    const below = spec.kind === 'labels' ? spec.abstainBelow : undefined;
    if (below === undefined || (sure.confidence?.value ?? 0) >= below) return { ...said, ...sure };
    const [left] = said.counted;
    return {
      ...{ ...said, ...sure, values: [null], counted: [ABSTAINED], abstained: true },
      ...(left !== undefined && { label: left }),
    };
  }

  #labelled(): Json {
    const value = this.#value(this.reader.answers[0] ?? 'answer');
    const known = value === null ? null : this.reader.goldIn(value);
    // A person may have put a text there that is no answer of the job.
    if (known === null || typeof known === 'string') return value;
    return known.kind === 'label' ? known.label : known.kind === 'labels' ? known.labels : value;
  }

  #properties(gold: Gold | null): Json[] {
    const { isCsv, answers, job } = this.reader;
    if (!isCsv) {
      const answer = this.get('answer') ?? null;
      if (job.answer.shape !== 'object') return [answer];
      return job.answer.columns.map((name) =>
        isObject(answer) && Object.hasOwn(answer, name) ? (answer[name] ?? null) : null,
      );
    }
    return answers.map((name, place) => {
      const rights = gold?.kind === 'json' ? gold.values : [];
      const right = rights.find((value) => value.place === place)?.right;
      const value = this.#value(name);
      if (value === null) return right === '' ? '' : null;
      const text = valueText(value);
      return typeof right === 'string' ? value : exactOr(text, text);
    });
  }

  /** Null for a row that was called, and if the record does not say. */
  get origin(): Origin | null {
    const { optional } = this.reader;
    const copied = optional.includes('copied_from') ? this.#number('copied_from') : null;
    if (copied !== null) return { copied_from: copied };
    const carried_from = optional.includes('carried_from') ? this.#string('carried_from') : null;
    return carried_from === null ? null : { carried_from };
  }

  #error(): { readonly code: string; readonly message: string } | null {
    const code = this.errorCode;
    if (code === '') return null;
    const error = this.reader.isCsv ? null : this.get('error');
    const message = isObject(error) ? error['message'] : this.#value('error_message');
    return { code, message: valueText(message) };
  }

  #usage(): Usage | null {
    const usage = this.reader.isCsv ? null : this.#value('usage');
    const numbers = isObject(usage)
      ? usage
      : Object.fromEntries(
          ['prompt_tokens', 'completion_tokens', 'total_tokens'].map((n) => [n, this.#number(n)]),
        );
    return sums.safeParse(numbers).data ?? null;
  }

  #filters(): { readonly prompt: FilterResults | null; readonly completion: FilterResults | null } {
    if (this.reader.isCsv)
      return { prompt: this.#verdicts('prompt'), completion: this.#verdicts('completion') };
    const said = this.#value('filters');
    const side = (name: string): FilterResults | null =>
      (isObject(said) && verdicts.safeParse(said[name]).data) || null;
    return { prompt: side('prompt'), completion: side('completion') };
  }

  /** Null if the service said nothing about this side. */
  #verdicts(side: 'prompt' | 'completion'): FilterResults | null {
    const results: { [category: string]: FilterVerdict } = {};
    for (const { name, category, isFiltered } of FILTER_COLUMNS[side]) {
      const value = this.#string(name);
      if (value === null) continue;
      const verdict = isFiltered ? { filtered: value === 'true' } : { severity: value };
      results[category] = { ...results[category], ...verdict };
    }
    return Object.keys(results).length === 0 ? null : results;
  }

  #number(name: string): number | null {
    const value = this.#value(name);
    return value === null || Number.isNaN(Number(value)) ? null : Number(value);
  }

  #string(name: string): string | null {
    const value = this.#value(name);
    return typeof value === 'string' ? value : null;
  }

  /** Null if absent, or an empty cell of CSV. */
  #value(name: string): Json {
    const value = this.value(name) ?? null;
    return value === '' && this.reader.isCsv ? null : value;
  }

  #placeOf(name: string): ByteRange | null {
    return this.#found.placeOf(name);
  }

  get #found(): RecordValues {
    if (this.#values !== null) return this.#values;
    try {
      this.#values = this.reader.valuesIn(this.bytes);
      return this.#values;
    } catch (error) {
      throw this.#edited(error);
    }
  }

  #edited(error: unknown): unknown {
    if (!(error instanceof SyntaxError)) return error;
    return new UsageError(
      'output_edited',
      `row ${this.number} of ${this.reader.output.name} is not as the run wrote it: ${error.message}`,
      'Put the file of the run back.',
    );
  }
}

/** Whether an error code says that the row itself could not be read. */
export const isUnreadable = (code: string): boolean => code === 'ragged_record' || code === 'bad_json';

const NO_ANSWER = { code: 'answer_invalid', message: '' };
const NOTHING_APPLIES = { text: 'none', finish_reason: null };

const SOURCES: readonly AnswerSource[] = ['read', 'repaired', 'asked_again', 'voted', 'escalated'];

const UNCOUNTED = new Set([
  'prompt_filtered',
  'completion_filtered',
  'model',
  'completion_id',
  'created',
  'attempts',
  'error_message',
]);
const COUNTED = RESULTS.filter(({ name }) => !UNCOUNTED.has(name));

const filterColumns = (side: 'prompt' | 'completion') =>
  RESULTS.flatMap(({ name }) => {
    const [, of, category, field] = /^(prompt|completion)_(.+)_(filtered|severity)$/.exec(name) ?? [];
    return of === side && category !== undefined
      ? [{ name, category, isFiltered: field === 'filtered' }]
      : [];
  });
const FILTER_COLUMNS = { prompt: filterColumns('prompt'), completion: filterColumns('completion') };

const sums = z.object({ prompt_tokens: z.number(), completion_tokens: z.number(), total_tokens: z.number() });
const verdicts = z.record(
  z.string(),
  z.object({
    filtered: z.boolean().exactOptional(),
    severity: z.string().exactOptional(),
    detected: z.boolean().exactOptional(),
  }),
);

const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;

export const isBlank = (line: Buffer): boolean =>
  (line.length === 1 && line[0] === LF) || (line.length === 2 && line[0] === CR && line[1] === LF);

/**
 * Cuts an output into records with their line ends; the last may have none. A record ends at a line feed
 * outside quotes, if the format has quotes. Neither byte is ever part of another UTF-8 character.
 */
export async function* recordsWithEnds(
  bytes: AsyncIterable<Buffer>,
  { hasQuotes }: OutputFormat,
): AsyncGenerator<Buffer[]> {
  let begun: Buffer[] = [];
  let quoted = false;
  for await (const chunk of bytes) {
    const records: Buffer[] = [];
    let start = 0;
    let counted = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, end + 1)) {
      if (hasQuotes) quoted = quoted !== isOdd(chunk, counted, end);
      counted = end;
      if (quoted) continue;
      const rest = chunk.subarray(start, end + 1);
      records.push(begun.length === 0 ? rest : Buffer.concat([...begun, rest]));
      begun = [];
      start = end + 1;
    }
    if (hasQuotes) quoted = quoted !== isOdd(chunk, counted, chunk.length);
    if (start < chunk.length) begun.push(chunk.subarray(start));
    yield records;
  }
  if (begun.length > 0) yield [Buffer.concat(begun)];
}

/** Where a record that begins with the bytes ends; null if that is behind them. */
export function recordEnd(bytes: Buffer, { hasQuotes }: OutputFormat): number | null {
  let quoted = false;
  let counted = 0;
  for (let end = bytes.indexOf(LF); end !== -1; end = bytes.indexOf(LF, end + 1)) {
    if (hasQuotes) quoted = quoted !== isOdd(bytes, counted, end);
    counted = end;
    if (!quoted) return end + 1;
  }
  return null;
}

/** Whether the last record is complete; all others are. */
export const isWhole = (record: Buffer, { hasQuotes }: OutputFormat): boolean =>
  record.at(-1) === LF && !(hasQuotes && isOdd(record, 0, record.length));

function isOdd(chunk: Buffer, from: number, to: number): boolean {
  let odd = false;
  for (let at = from; at < to; at++) if (chunk[at] === QUOTE) odd = !odd;
  return odd;
}
