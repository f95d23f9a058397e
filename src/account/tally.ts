import * as z from 'zod';
import { ABSTAINED } from '../answer/answer.js';
import type { Gold } from '../answer/gold.js';
import { clipped } from '../core/figures.js';
import type {
  Answer,
  AnswerSource,
  FilterResults,
  FilterVerdict,
  Origin,
  Outcome,
  STATUSES,
  Usage,
} from '../core/model.js';
import { completedProblem, sourceOf } from '../output/result-columns.js';
import { GoldCounter, type GoldTally } from './gold-tally.js';
import { type Latency, withLatencies } from './latency.js';

/** `total` is the sum of the others. */
export type RowCounts = { readonly [name in 'total' | (typeof STATUSES)[number]]: number };

/** Category → severity → rows; `filtered`: blocked. Without severities: `detected`, `not_detected`. */
export type FilterCounts = { readonly [category: string]: CountByName };

interface FilterTally {
  readonly prompt: FilterCounts;
  readonly completion: FilterCounts;
}

interface RowsAndUsage {
  readonly rows: number;
  readonly usage: Usage;
}

/** Plain data in the manifest: survives JSON, and does not grow with the input. */
export interface Tally {
  readonly rows: RowCounts;
  readonly finish_reasons: CountByName;
  /** By {@link Answer.counted}; empty for free text. */
  readonly answers: CountByName;
  /** Of answers in JSON: by property with few values, and by value; absent if none. */
  readonly properties?: { readonly [name: string]: CountByName };
  /** Sums over the rows with reported usage, blocked completions included: they are billed. */
  readonly usage: Usage;
  /** By name: the rows that it answered, and the usage of all its calls; absent where the job has only one. */
  readonly endpoints?: { readonly [name: string]: RowsAndUsage };
  /** The same by the name that the service says; absent where no row tells it. */
  readonly tiers?: { readonly [name: string]: RowsAndUsage };
  /** Rows whose usage is our own count or a share of a request's; absent if 0. */
  readonly estimated?: number;
  /** Labels without a confidence although the job asks for it; absent if 0. */
  readonly without_confidence?: number;
  /** Labels left out for low confidence; absent if 0. */
  readonly abstained?: number;
  /** Answers not read unchanged from the first text, by origin; absent if none. */
  readonly sources?: { readonly [source in AnswerSource]?: number };
  readonly filters: FilterTally;
  /** By the output's `error_code`: failed and filtered rows, and unusable answers. */
  readonly errors: CountByName;
  /** Completed rows with an invalid answer, by code; absent if none. */
  readonly invalid?: CountByName;
  /** The first message of each code; absent if none. */
  readonly samples?: Samples;
  /** Of each row's last call. */
  readonly latency: Latency;
  /** Rows not called because their outcome was reused; absent if none. */
  readonly reused?: ReusedCounts & {
    /** Of these, copies of a failed row. */
    readonly failed: number;
    /** What the carried ones cost the runs that asked for them; absent if unknown. */
    readonly usage?: Usage;
  };
  /** Of rows with gold; absent if none. */
  readonly gold?: GoldTally;
}

/** Rows that ended without a call of their own; `rows` counts them with the reused status. */
export interface ReusedCounts {
  /** Identical to an earlier row of the run. */
  readonly copied: number;
  /** Answered by an earlier run of the job. */
  readonly carried: number;
}

/** Not validated: written and read only by this version, in files that detect changes. */
export const tallySchema = z.custom<Tally>((value) => typeof value === 'object' && value !== null);

export interface CountedRow {
  readonly outcome: Outcome;
  /** `null` if there is no completion to read. */
  readonly answer: Answer | null;
  /** `null` if unknown. @default null */
  readonly gold?: Gold | null;
  /** Its number in the output; `null` if unknown. @default rows are counted in the order of the output */
  readonly row?: number | null;
}

type Samples = { readonly [code: string]: string };

/** Distinct names per count; further ones go to `(other)`. */
export const LIMITS = {
  answers: 100,
  /** Further ones are not counted. */
  properties: 100,
  values: 20,
  errors: 100,
  finishReasons: 20,
  categories: 30,
  severities: 10,
  endpoints: 20,
  tiers: 10,
} as const;
/** Number of codes with a sample, and characters of a sample. */
const SAMPLES = { codes: 20, characters: 300 } as const;

/** Rows with a call of their own, or that failed before it. */
export const rowsCalled = (of: {
  readonly rows: RowCounts;
  readonly reused?: Pick<ReusedCounts, 'copied' | 'carried'>;
  readonly tiers?: { readonly [name: string]: { readonly rows: number } };
}): number =>
  of.rows.total -
  of.rows.skipped -
  (of.reused?.copied ?? 0) -
  (of.reused?.carried ?? 0) -
  (of.tiers?.['done']?.rows ?? 0);

export const NO_USAGE: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

export function emptyTally(): Tally {
  return {
    rows: { total: 0, completed: 0, filtered: 0, failed: 0, skipped: 0 },
    finish_reasons: {},
    answers: {},
    usage: NO_USAGE,
    filters: { prompt: {}, completion: {} },
    errors: {},
    latency: null,
  };
}

/** Takes the rows of a commit at once: decoding and encoding the histogram costs 0.2 ms. */
export function fold(tally: Tally, ended: Iterable<CountedRow>): Tally {
  const rows = { ...tally.rows };
  const finishReasons = new Counter(tally.finish_reasons, LIMITS.finishReasons);
  const answers = new Counter(tally.answers, LIMITS.answers);
  const properties = new Map(
    Object.entries(tally.properties ?? {}).map(([name, counts]) => [
      name,
      new Counter(counts, LIMITS.values),
    ]),
  );
  let { usage } = tally;
  const endpoints = new PaidCounter(tally.endpoints, LIMITS.endpoints);
  const tiers = new PaidCounter(tally.tiers, LIMITS.tiers);
  const prompt = new FilterCounter(tally.filters.prompt);
  const completion = new FilterCounter(tally.filters.completion);
  const errors = new Counter(tally.errors, LIMITS.errors);
  const invalid = new Counter(tally.invalid ?? {}, LIMITS.errors);
  const samples = new Map(Object.entries(tally.samples ?? {}));
  let estimated = tally.estimated ?? 0;
  let withoutConfidence = tally.without_confidence ?? 0;
  let abstained = tally.abstained ?? 0;
  let { sources } = tally;
  const latencies: number[] = [];
  let reused: NonNullable<Tally['reused']> = { copied: 0, carried: 0, failed: 0, ...tally.reused };
  const golds = new GoldCounter(tally.gold);

  for (const { outcome, answer, gold = null, row = rows.total + 1 } of ended) {
    rows.total += 1;
    rows[outcome.status] += 1;
    if (gold !== null) golds.add(gold, outcome.status === 'completed' ? answer : null, row);
    if (outcome.status === 'skipped') continue;

    if (outcome.latency_ms !== null) latencies.push(outcome.latency_ms);
    if (outcome.origin !== undefined) {
      reused = withReused(reused, outcome.origin, outcome.status === 'failed');
    }
    const problem =
      outcome.status === 'completed' ? completedProblem(outcome.completion, answer) : outcome.error;
    if (outcome.status === 'completed' && answer?.problem) invalid.add(answer.problem.code);
    if (problem) {
      errors.add(problem.code);
      const code = problem.code.slice(0, NAME_LENGTH);
      if (problem.message !== '' && samples.size < SAMPLES.codes && !samples.has(code)) {
        samples.set(code, clipped(problem.message, SAMPLES.characters));
      }
    }
    const { completion: answered } = outcome;
    if (answered?.usage) {
      usage = withUsage(usage, answered.usage);
      if (answered.usage.estimated) estimated += 1;
    }
    const isAnswered = outcome.status !== 'failed';
    const used = answered?.usage ?? null;
    if (outcome.endpoint !== undefined)
      endpoints.add(outcome.endpoint, isAnswered, outcome.endpoints ?? { [outcome.endpoint]: used });
    const tier = answered?.tier ?? outcome.elsewhere;
    if (tier !== undefined) tiers.add(tier, isAnswered, answered?.tiers ?? { [tier]: used });
    if (outcome.status === 'failed') continue;

    prompt.add(outcome.filters.prompt);
    completion.add(outcome.filters.completion);
    if (typeof outcome.completion?.finish_reason === 'string') {
      finishReasons.add(outcome.completion.finish_reason);
    }
    for (const name of answer?.counted ?? []) answers.add(name);
    for (const [name, value] of answer?.properties ?? []) {
      if (!properties.has(name) && properties.size < LIMITS.properties)
        properties.set(name, new Counter({}, LIMITS.values));
      properties.get(name)?.add(value);
    }
    if (outcome.status !== 'completed') continue;
    if (answer?.confidence === null && answer.problem === null) withoutConfidence += 1;
    if (answer?.abstained) abstained += 1;
    else if (answer?.problem === null) {
      const source = sourceOf(outcome, answer);
      if (source !== 'read') sources = { ...sources, [source]: (sources?.[source] ?? 0) + 1 };
    }
  }

  return {
    rows,
    finish_reasons: finishReasons.toCounts(),
    answers: answers.toCounts(),
    ...(properties.size > 0 && {
      properties: Object.fromEntries([...properties].map(([name, values]) => [name, values.toCounts()])),
    }),
    usage,
    filters: { prompt: prompt.toCounts(), completion: completion.toCounts() },
    errors: errors.toCounts(),
    ...(endpoints.size > 0 && { endpoints: endpoints.toCounts() }),
    ...(tiers.size > 0 && { tiers: tiers.toCounts() }),
    ...(estimated > 0 && { estimated }),
    ...(invalid.size > 0 && { invalid: invalid.toCounts() }),
    ...(withoutConfidence > 0 && { without_confidence: withoutConfidence }),
    ...(abstained > 0 && { abstained }),
    ...(sources !== undefined && { sources }),
    ...(samples.size > 0 && { samples: Object.fromEntries(samples) }),
    latency: withLatencies(tally.latency, latencies),
    ...(reused.copied + reused.carried > 0 && { reused }),
    ...(golds.all > 0 && { gold: golds.toTally() }),
  };
}

function withReused(
  { copied, carried, failed, usage }: NonNullable<Tally['reused']>,
  origin: Origin,
  isFailed: boolean,
): NonNullable<Tally['reused']> {
  const isCopy = 'copied_from' in origin;
  const sum = isCopy || !origin.usage ? usage : withUsage(usage ?? NO_USAGE, origin.usage);
  return {
    ...{
      copied: copied + Number(isCopy),
      carried: carried + Number(!isCopy),
      failed: failed + Number(isFailed),
    },
    ...(sum && { usage: sum }),
  };
}

/** Rows by what answered them, and what each was paid. */
class PaidCounter {
  private readonly sums: Map<string, RowsAndUsage>;

  constructor(
    from: { readonly [name: string]: RowsAndUsage } = {},
    private readonly limit: number,
  ) {
    this.sums = new Map(Object.entries(from));
  }

  add(name: string, isRow: boolean, paid: { readonly [name: string]: Usage | null }): void {
    this.#add(name, isRow ? 1 : 0, null);
    for (const [each, usage] of Object.entries(paid)) this.#add(each, 0, usage);
  }

  #add(name: string, more: number, usage: Usage | null): void {
    const key = boundedKey(this.sums, name, this.limit);
    const { rows, usage: sum } = this.sums.get(key) ?? { rows: 0, usage: NO_USAGE };
    this.sums.set(key, { rows: rows + more, usage: usage === null ? sum : withUsage(sum, usage) });
  }

  get size(): number {
    return this.sums.size;
  }

  toCounts(): { readonly [name: string]: RowsAndUsage } {
    return Object.fromEntries(this.sums);
  }
}

export function withUsage(sum: Usage, { estimated: _, ...usage }: Usage): Usage {
  const { cached_tokens: cached, reasoning_tokens: thought } = usage;
  return {
    ...sum,
    prompt_tokens: bounded(sum.prompt_tokens + usage.prompt_tokens),
    completion_tokens: bounded(sum.completion_tokens + usage.completion_tokens),
    total_tokens: bounded(sum.total_tokens + usage.total_tokens),
    ...(cached !== undefined && { cached_tokens: bounded((sum.cached_tokens ?? 0) + cached) }),
    ...(thought !== undefined && { reasoning_tokens: bounded((sum.reasoning_tokens ?? 0) + thought) }),
  };
}

/** A tally in which labels of counted rows are left out afterwards, for low confidence. */
export class AbstainingTally {
  readonly #answers: Counter;
  readonly #sources: Counter;
  readonly #golds: GoldCounter;
  #abstained: number;

  constructor(private readonly tally: Tally) {
    this.#answers = new Counter(tally.answers, LIMITS.answers);
    this.#sources = new Counter(tally.sources ?? {}, Number.POSITIVE_INFINITY);
    this.#golds = new GoldCounter(tally.gold);
    this.#abstained = tally.abstained ?? 0;
  }

  /** `label`: of a row that is already counted. `source`: the row's `answer_source`. */
  abstain(label: string, gold: Gold | null, row: number, source: string): void {
    this.#answers.remove(label);
    this.#answers.add(ABSTAINED);
    if (source !== 'read') this.#sources.remove(source);
    this.#abstained += 1;
    if (gold !== null) this.#golds.abstain(gold, label, row);
  }

  /** For a row that keeps its label. */
  addExample(label: string, gold: Gold | null, row: number): void {
    if (gold !== null) this.#golds.addExample(gold, label, row);
  }

  toTally(): Tally {
    const { sources: _, ...others } = this.tally;
    return {
      ...others,
      answers: this.#answers.toCounts(),
      ...(this.#abstained > 0 && { abstained: this.#abstained }),
      ...(this.#sources.size > 0 && { sources: this.#sources.toCounts() }),
      ...(this.#golds.all > 0 && { gold: this.#golds.toTally() }),
    };
  }
}

/** Beyond this a sum is inexact, and a manifest with it unreadable. */
const bounded = (sum: number): number => Math.min(sum, Number.MAX_SAFE_INTEGER);

class FilterCounter {
  private readonly categories: Map<string, { readonly severities: Counter; filtered: number }>;

  constructor(from: FilterCounts) {
    this.categories = new Map(
      Object.entries(from).map(([category, { filtered = 0, ...severities }]) => [
        category,
        { severities: new Counter(severities, LIMITS.severities), filtered },
      ]),
    );
  }

  add(results: FilterResults | null): void {
    for (const [category, verdict] of Object.entries(results ?? {})) {
      const key = boundedKey(this.categories, category, LIMITS.categories);
      const counts = this.categories.get(key) ?? {
        severities: new Counter({}, LIMITS.severities),
        filtered: 0,
      };
      this.categories.set(key, counts);
      const severity = severityOf(verdict);
      if (severity !== null) counts.severities.add(severity);
      if (verdict.filtered === true) counts.filtered += 1;
    }
  }

  toCounts(): FilterCounts {
    return Object.fromEntries(
      [...this.categories].map(([category, { severities, filtered }]) => [
        category,
        { ...severities.toCounts(), filtered },
      ]),
    );
  }
}

/** A severity of the name under which blocked rows are counted is told apart by brackets. */
function severityOf({ severity, detected }: FilterVerdict): string | null {
  if (severity !== undefined) return severity === 'filtered' ? '(filtered)' : severity;
  if (detected !== undefined) return detected ? 'detected' : 'not_detected';
  return null;
}

export type CountByName = { readonly [name: string]: number };

export const sumOf = (counts: CountByName): number => Object.values(counts).reduce((sum, n) => sum + n, 0);

export const OTHER = '(other)';

/** Characters; some names come from the service, which may send anything. */
export const NAME_LENGTH = 200;

/** Bounded: beyond `limit` distinct names, further ones go to `(other)`. A map, for `__proto__` (fault 9). */
export class Counter {
  private readonly counts: Map<string, number>;

  constructor(
    from: CountByName,
    private readonly limit: number,
  ) {
    this.counts = new Map(Object.entries(from));
  }

  add(name: string, times = 1): void {
    const key = boundedKey(this.counts, name, this.limit);
    this.counts.set(key, (this.counts.get(key) ?? 0) + times);
  }

  /** Undoes `add`; takes from `(other)` if the name has no count of its own. */
  remove(name: string, times = 1): void {
    const known = name.slice(0, NAME_LENGTH);
    const key = this.counts.has(known) ? known : OTHER;
    const left = (this.counts.get(key) ?? 0) - times;
    if (left > 0) this.counts.set(key, left);
    else this.counts.delete(key);
  }

  get size(): number {
    return this.counts.size;
  }

  toCounts(): CountByName {
    return Object.fromEntries(this.counts);
  }
}

/** `(other)` comes on top of `limit` names. */
function boundedKey(map: ReadonlyMap<string, unknown>, name: string, limit: number): string {
  const key = name.slice(0, NAME_LENGTH);
  if (map.has(key)) return key;
  const names = map.has(OTHER) ? map.size - 1 : map.size;
  return names < limit ? key : OTHER;
}
