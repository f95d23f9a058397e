import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { stringify } from 'csv-stringify/sync';
import { UsageError } from '../core/errors.js';
import { clipped, count, counted } from '../core/figures.js';
import { valueText } from '../core/json.js';
import { escapeFormula } from '../output/formula.js';
import { isEmulated } from '../output/output-name.js';
import { PlainCopies } from '../output/plain-copies.js';
import { assertFree, type RequestedFile, writeRequestedFile } from '../output/requested-file.js';
import { columnsInTags } from '../prompt/template.js';
import { type FinishedOutput, openFinished } from '../resume/finished-output.js';
import { ComparedOutput, onDisk } from './compared-output.js';
import { type Agreement, Comparison, type PartAgreement, type Transitions } from './comparison.js';
import { type Differences, differencesOf } from './differences.js';
import { type Match, Matching } from './matching.js';
import { SideFigures } from './side-figures.js';
import { type Judge, judgeOf, type Verdict } from './verdict.js';

/** `promptmill compare --json`. Shares are from 0 to 1. */
export interface CompareReport extends Differences {
  /** In both outputs. */
  readonly rows: number;
  /** Share of `rows` with the same answer. */
  readonly agreement: number | null;
  /** Cohen's; `null` if undefined: a single answer, or more than 100 different ones. */
  readonly kappa: number | null;
  /**
   * Answer in `a` → answer in `b` → rows. Without an answer: `(invalid)`, `(abstained)`, `(no answer)`,
   * `(filtered)`, `(failed)`, `(skipped)`. `valid`: JSON. `(other)`: beyond 100 different answers.
   */
  readonly transitions: Transitions;
  readonly changed: number;
  readonly only_in_a: number;
  readonly only_in_b: number;
  readonly tokens: { readonly [side in 'a' | 'b']: SideFigures['tokens'] };
  readonly cost: { readonly [side in 'a' | 'b']: number | null };
  readonly latency_ms: { readonly [side in 'a' | 'b']: SideFigures['latency_ms'] };
  /** Which one is better; `null` without right answers. */
  readonly verdict: Verdict | null;
  /** The first ten rows that changed. */
  readonly first_changed: ChangedRows;
  /** Rows neither failed nor skipped in either output. */
  readonly answered: Agreement;
  /** By property of JSON, or by label if there may be several; `null` for answers without parts. */
  readonly parts: { readonly [name: string]: PartAgreement } | null;
  readonly a: OutputFacts;
  readonly b: OutputFacts;
  /** Column that identifies rows; `null`: their number. */
  readonly by: string | null;
  /** What a reader must know first: an output was changed after it was written, or has no summary. */
  readonly notes: readonly string[];
}

interface OutputFacts {
  readonly output: string;
  readonly rows: number;
  /** Of the summary; `null` without one. */
  readonly job: string | null;
  readonly emulated: boolean;
  readonly run: string | null;
  /** Of its prices, where they say it. */
  readonly currency?: string;
}

export interface CompareOptions {
  /** Input column that identifies rows. @default `input.id` of the jobs, else the row number */
  readonly by?: string | undefined;
  /** Files and columns with right answers, as for `score`. @default `answer.gold` of the jobs */
  readonly gold?: readonly string[] | undefined;
  /** CSV of the changed rows; replaces an existing file only with `overwrite`. @default none */
  readonly changed?: { readonly path: string; readonly overwrite?: boolean } | undefined;
  /** HTML page, and its renderer. @default none */
  readonly page?: ComparePage | undefined;
  /** If aborted, nothing is written. @default none */
  readonly signal?: AbortSignal | undefined;
}

/** Columns are those of `--output`: ids, right answer, answers, texts, and what the input says. */
export interface ChangedRows {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export interface ComparePage {
  /** Ends in `.html`. */
  readonly path: string;
  /** @default false */
  readonly overwrite?: boolean;
  /** @param changed the first 1,000 rows */
  readonly render: (report: CompareReport, changed: ChangedRows) => Promise<string>;
}

/**
 * Compares the answers of two finished outputs in one pass over both. Sends nothing.
 * @throws UsageError when they cannot be compared; then nothing is written
 */
export async function compareOutputs(
  pathA: string,
  pathB: string,
  { by, gold = [], changed, page, signal }: CompareOptions = {},
): Promise<CompareReport> {
  const foundA = await openFinished(pathA, 'warn');
  const foundB = await openFinished(pathB, 'warn');
  const read = [...filesOf(foundA), ...filesOf(foundB)];
  const files = {
    changed: changed && { ...requestedFile('--output', '.csv', changed, read), like: [pathA, pathB] },
    page: page && { ...requestedFile('--html', '.html', page, read), like: [pathA, pathB] },
  };
  const copies = new PlainCopies();
  try {
    const a = await ComparedOutput.open(onDisk(pathA, foundA.summary));
    const b = await ComparedOutput.open(onDisk(pathB, foundB.summary));
    const column = by ?? keyOfBoth(a, b);
    const plainA = () => copies.plain(pathA, signal);
    const notes = [...notesOf(foundA, column), ...notesOf(foundB, column)];
    const judge = await judgeOf(a, b, gold);
    const pass = new Pass(a, b, column, notes, judge, plainA, signal);
    const lines = pass.changedLines(files.changed !== undefined);
    if (files.changed === undefined) for await (const _ of lines);
    else await writeRequestedFile(files.changed, lines);
    const report = pass.report();
    if (page && files.page) await writeRequestedFile(files.page, await page.render(report, pass.changed));
    return report;
  } finally {
    await copies.remove();
  }
}

class Pass {
  readonly #comparison = new Comparison();
  readonly #matching: Matching;
  readonly #figuresA: SideFigures;
  readonly #figuresB: SideFigures;
  readonly #changed: (readonly string[])[] = [];
  readonly #inputs: ReturnType<typeof inputCells>;

  constructor(
    private readonly a: ComparedOutput,
    private readonly b: ComparedOutput,
    private readonly by: string | null,
    private readonly notes: string[],
    private readonly judge: Judge | null,
    plainA: () => Promise<string>,
    signal: AbortSignal | undefined,
  ) {
    this.#inputs = inputCells(a, b, by);
    this.#figuresA = new SideFigures(a.summary);
    this.#figuresB = new SideFigures(b.summary);
    this.#matching = new Matching(
      a.side(by, this.#figuresA.over(a.records())),
      b.side(by, this.#figuresB.over(b.records())),
      plainA,
      signal,
    );
  }

  /** Compares; yields the changed rows as CSV. @param wanted false if nobody reads them */
  async *changedLines(wanted: boolean): AsyncGenerator<string> {
    const { a, b } = this;
    const several = a.several ?? b.several ?? false;
    const [normalizeA, normalizeB] = [a.normalizer(several), b.normalizer(several)];
    const idOf = this.by === null ? null : a.cellOf(this.by);
    const rowOf = (match: Match): string[] => [
      ...(idOf === null ? [] : [idOf(match.a)]),
      ...[String(match.a.number), ...(idOf === null ? [] : [String(match.b.number)])],
    ];
    yield line(this.#columns);
    for await (const matches of this.#matching.matches()) {
      const text = matches.flatMap((match) => {
        const [before, after] = [normalizeA(match.a), normalizeB(match.b)];
        const isChanged = this.#comparison.add(before, after);
        const judged = this.judge?.add(match) ?? null;
        const isListed = this.#changed.length < MOST_LISTED;
        if (!isChanged || !(wanted || isListed)) return [];
        const cells = [
          ...rowOf(match),
          ...(this.judge === null ? [] : [judged?.gold ?? '', judged?.now ?? '']),
          ...[before.shown, after.shown, valueText(match.a.text), valueText(match.b.text)],
          ...this.#inputs.map(({ cell }) => cell(match)),
        ];
        if (isListed) this.#changed.push(cells.map((cell) => clipped(cell, MOST_CHARACTERS)));
        return wanted ? [line(cells)] : [];
      });
      if (text.length > 0) yield text.join('');
    }
    if (this.#comparison.result().rows === 0) throw nothingInCommon(a, b, this.by);
    this.notes.push(...(this.judge?.end() ?? []));
  }

  get #columns(): readonly string[] {
    const ids = this.by === null ? ['row'] : ['id', 'row_a', 'row_b'];
    const own = [...ids, ...(this.judge === null ? [] : JUDGED), ...CHANGED];
    return [...own, ...this.#inputs.map(({ name }) => (own.includes(name) ? `input_${name}` : name))];
  }

  get changed(): ChangedRows {
    return { columns: this.#columns, rows: this.#changed };
  }

  report(): CompareReport {
    const { rows, agreement, kappa, transitions, changed, answered, parts } = this.#comparison.result();
    const [figuresA, figuresB] = [this.#figuresA, this.#figuresB];
    const both = <T>(of: (figures: SideFigures) => T): { readonly a: T; readonly b: T } => ({
      a: of(figuresA),
      b: of(figuresB),
    });
    return {
      ...{ rows, agreement, kappa, transitions, changed },
      only_in_a: this.#matching.onlyInA,
      only_in_b: this.#matching.onlyInB,
      tokens: both((figures) => figures.tokens),
      cost: both((figures) => figures.cost),
      latency_ms: both((figures) => figures.latency_ms),
      verdict: this.judge?.verdict ?? null,
      ...{ answered, parts },
      first_changed: { columns: this.#columns, rows: this.#changed.slice(0, MOST_FIRST) },
      ...differencesOf(this.a.summary, this.b.summary),
      a: factsOf(this.a, figuresA),
      b: factsOf(this.b, figuresB),
      by: this.by,
      notes: this.notes,
    };
  }
}

const JUDGED = ['gold', 'b_is'];
const CHANGED = ['answer_a', 'answer_b', 'text_a', 'text_b'];
/** Rows on a page, and characters of their cells. */
const MOST_LISTED = 1000;
const MOST_CHARACTERS = 1000;
const MOST_FIRST = 10;
/** Input columns beside a changed row. */
const MOST_INPUTS = 3;

/** What people know a row by: the first columns that the prompt uses, else the first with long texts. */
function inputCells(a: ComparedOutput, b: ComparedOutput, by: string | null) {
  const template = b.summary?.details.prompt ?? a.summary?.details.prompt ?? '';
  const known = columnsInTags(template).filter((name) => name !== by && (a.has(name) || b.has(name)));
  const long = known.length > 0 ? null : (b.longColumn ?? a.longColumn);
  return [...known, ...(long === null ? [] : [long])].slice(0, MOST_INPUTS).map((name) => {
    const [side, output] = b.has(name) ? (['b', b] as const) : (['a', a] as const);
    const read = output.cellOf(name);
    return { name, cell: (match: Match): string => read(match[side]) };
  });
}

const factsOf = ({ name, summary }: ComparedOutput, { rows }: SideFigures): OutputFacts => ({
  output: name,
  rows,
  job: summary?.job ?? null,
  run: summary?.run ?? null,
  ...(summary?.currency !== undefined && { currency: summary.currency }),
  emulated: summary?.emulated ?? isEmulated(name),
});

const line = (cells: readonly string[]): string =>
  stringify([cells.map(escapeFormula)], { record_delimiter: '\n', quote_record_delimiter: true });

function notesOf({ files, summary, warning }: FinishedOutput, by: string | null): string[] {
  if (warning !== null) return [warning];
  if (summary !== null || by !== null) return [];
  const lacks = existsSync(files.summary)
    ? `${files.summary} is the summary of another output than ${files.output}`
    : `${files.output} has no summary beside it`;
  return [`${lacks}, so nothing says that its rows are all there and in their order`];
}

/**
 * The jobs' id column, else null (row numbers) if both have the same input.
 * @throws UsageError if neither fits
 */
function keyOfBoth(a: ComparedOutput, b: ComparedOutput): string | null {
  const [summaryA, summaryB] = [a.summary, b.summary];
  const [idA, idB] = [a.readJob()?.reuse.id ?? null, b.readJob()?.reuse.id ?? null];
  const id = idA ?? idB;
  if (id !== null && (idB ?? id) === id && a.has(id) && b.has(id)) return id;
  if (summaryA === null || summaryB === null) return null;
  const isSameInput = summaryA.input.sha256 === summaryB.input.sha256;
  if (isSameInput && summaryA.rows.total === summaryB.rows.total) return null;
  const shared = a.inputColumns.filter((name) => b.has(name));
  throw new UsageError(
    'compare_needs_id',
    isSameInput
      ? `${a.name} has ${counted(summaryA.rows.total, 'row')} and ${b.name} ${count(summaryB.rows.total)}, so their rows cannot be matched by row number`
      : `${a.name} and ${b.name} are of different inputs, so their rows cannot be matched by row number`,
    `Name a column of the input that has another value in each row: --by COLUMN. Columns of both: ${shared.slice(0, 20).join(', ') || 'none'}.`,
  );
}

const filesOf = ({ files, summary }: FinishedOutput): (string | undefined)[] => [
  ...Object.values(files),
  ...[summary?.input.path, summary?.job_file],
];

/** @throws UsageError when the file cannot be written there */
export function requestedFile(
  option: '--output' | '--html',
  ending: string,
  { path, overwrite = false }: { readonly path: string; readonly overwrite?: boolean },
  kept: readonly (string | undefined)[],
): RequestedFile {
  const file = { option, path, overwrite };
  if (extname(path).toLowerCase() !== ending)
    throw new UsageError(
      'bad_output',
      `${option} ${path}: what it writes ends in ${ending}`,
      `Name another file with ${option}.`,
    );
  assertFree(file, kept);
  return file;
}

function nothingInCommon(a: ComparedOutput, b: ComparedOutput, by: string | null): UsageError {
  const what = by === null ? 'have no row' : `have no value of ${JSON.stringify(by)} in common`;
  return new UsageError(
    'compare_nothing_in_common',
    `${a.name} and ${b.name} ${what}`,
    'Name a column that has the same value for the same row in both: --by COLUMN.',
  );
}
