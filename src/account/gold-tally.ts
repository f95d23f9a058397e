import { type Gold, type GoldValue, isRight, saysRight } from '../answer/gold.js';
import { valueName } from '../answer/json-answer.js';
import type { Answer, Confidence } from '../core/model.js';
import { BINS, binOf, brierOf, type Calibration, type Confusion } from './score.js';

/** Counts of rows with gold. Plain data in the tally: survives JSON, and does not grow with the input. */
export interface GoldTally {
  /** Completed rows, which the scores cover. */
  readonly rows: number;
  /** Of these, rows with exactly the right answer. */
  readonly right: number;
  /** Filtered, failed and skipped rows: no answer. */
  readonly unanswered: number;
  /** Of `rows`, those whose label was left out for low confidence. Absent if 0. */
  readonly abstained?: number;
  /** Of `rows`, those whose text is no answer. Absent if 0. */
  readonly invalid?: number;
  /** Of `rows`, those with a known confidence, even if the label was left out. Absent if none. */
  readonly calibration?: Calibration;
  /** Of answers that are labels. `null`: more labels than are counted. Absent if none. */
  readonly confusion?: LabelPairs | null;
  /** Of answers in JSON, by property name. Absent if none. */
  readonly properties?: { readonly [name: string]: PropertyCount };
}

/** By index, because a label may have 500 characters. */
interface LabelPairs {
  /** In order of appearance. */
  readonly labels: readonly string[];
  /** `right,answered` → rows; `right,` if the answer is none of the labels, or lacks this one. */
  readonly counts: { readonly [pair: string]: number };
  /** A row may have several labels: `,answered` → rows that got a wrong label. */
  readonly several?: true;
  /** Of pairs that differ: their first rows, by number in the output. Absent if none. */
  readonly examples?: { readonly [pair: string]: readonly number[] };
}

interface PropertyCount {
  /** Rows whose gold names the property. */
  readonly rows: number;
  readonly right: number;
  /** If it has few values. `null`: more values than are counted. */
  readonly confusion?: LabelPairs | null;
}

/** With more, a manifest, written with every commit, would exceed 10,000 pairs: only the accuracy is kept. */
export const MOST_LABELS = 100;
/** Further properties count only in the accuracy. */
const MOST_PROPERTIES = 100;
/** Of a property; fewer than labels, because there may be many properties. */
export const MOST_VALUES = 20;
/** Pairs with examples, and the examples of each. */
const EXAMPLES = { pairs: 200, rows: 2 } as const;

interface PropertyCounter extends Pick<PropertyCount, 'rows' | 'right'> {
  readonly pairs: PairCounter | null | undefined;
}

export class GoldCounter {
  #rows: number;
  #right: number;
  #unanswered: number;
  #abstained: number;
  #invalid: number;
  #calibration: Calibration | undefined;
  /** `null`: too many labels. */
  #pairs: PairCounter | null;
  readonly #properties: Map<string, PropertyCounter>;

  constructor(from: GoldTally | undefined) {
    const {
      rows = 0,
      right = 0,
      unanswered = 0,
      abstained = 0,
      invalid = 0,
      calibration,
      confusion = NO_PAIRS,
      properties = {},
    } = from ?? {};
    this.#rows = rows;
    this.#right = right;
    this.#unanswered = unanswered;
    this.#abstained = abstained;
    this.#invalid = invalid;
    this.#calibration = calibration;
    this.#pairs = confusion && new PairCounter(confusion);
    this.#properties = new Map(
      Object.entries(properties).map(([name, { confusion: pairs, ...counts }]) => [
        name,
        { ...counts, pairs: pairs && new PairCounter(pairs) },
      ]),
    );
  }

  /**
   * @param answer `null` if the row is not completed
   * @param row its number in the output, for examples; `null` if unknown
   * @param said the model's answer if `answer` is a person's; its confidence is counted with it
   */
  add(gold: Gold, answer: Answer | null, row: number | null, said = answer): void {
    if (answer === null) {
      this.#unanswered += 1;
      return;
    }
    this.#rows += 1;
    if (answer.abstained) this.#abstained += 1;
    if (answer.problem !== null) this.#invalid += 1;
    if (saysRight(gold, answer) && !answer.abstained) this.#right += 1;
    if (said?.confidence) this.#addConfidence(gold, said.confidence, saysRight(gold, said));
    this.#addParts(gold, answer, row);
  }

  /** Moves a row that was added with its label to abstained. */
  abstain(gold: Gold, label: string, row: number): void {
    this.#abstained += 1;
    if (gold.kind !== 'label') return;
    if (label === gold.label) this.#right -= 1;
    this.#pairs?.remove(gold.label, label, row);
    this.#addPair(gold.label, null, row);
  }

  /** For a row that was added with its label: examples before it may have been moved to abstained. */
  addExample(gold: Gold, label: string, row: number): void {
    if (gold.kind === 'label') this.#pairs?.addExample(gold.label, label, row);
  }

  get all(): number {
    return this.#rows + this.#unanswered;
  }

  toTally(): GoldTally {
    const pairs = this.#pairs;
    return {
      rows: this.#rows,
      right: this.#right,
      unanswered: this.#unanswered,
      ...(this.#abstained > 0 && { abstained: this.#abstained }),
      ...(this.#invalid > 0 && { invalid: this.#invalid }),
      ...(this.#calibration && { calibration: this.#calibration }),
      ...(pairs === null && { confusion: null }),
      ...(pairs !== null && pairs.size > 0 && { confusion: pairs.toPairs() }),
      ...(this.#properties.size > 0 && {
        properties: Object.fromEntries(
          [...this.#properties].map(([name, { pairs, ...counts }]) => [
            name,
            { ...counts, ...(pairs !== undefined && { confusion: pairs?.toPairs() ?? null }) },
          ]),
        ),
      }),
    };
  }

  #addConfidence(gold: Gold, { value, probabilities }: Confidence, right: boolean): void {
    const { bins, forecasts, squares } = this.#calibration ?? NO_CALIBRATION;
    const place = binOf(value);
    const isForecast = gold.kind === 'label' && probabilities.size > 0;
    this.#calibration = {
      bins: bins.map((bin, i) =>
        i === place
          ? { rows: bin.rows + 1, right: bin.right + (right ? 1 : 0), confidence: bin.confidence + value }
          : bin,
      ),
      forecasts: forecasts + (isForecast ? 1 : 0),
      squares: squares + (isForecast ? brierOf(probabilities, gold.label) : 0),
    };
  }

  #addParts(gold: Gold, answer: Answer, row: number | null): void {
    switch (gold.kind) {
      case 'label':
        this.#addLabel(gold.label, answer, row);
        break;
      case 'labels':
        this.#addLabels(gold.labels, answer, row);
        break;
      case 'json':
        this.#addProperties(gold.values, answer, row);
        break;
    }
  }

  #addLabel(right: string, { values, problem }: Answer, row: number | null): void {
    const [value = null] = problem === null ? values : [];
    this.#addPair(right, value === null ? null : String(value), row);
  }

  #addLabels(right: readonly string[], { values, problem }: Answer, row: number | null): void {
    if (this.#pairs !== null) this.#pairs.several = true;
    const list = problem === null && Array.isArray(values[0]) ? values[0] : [];
    const answered = list.filter((label: unknown) => typeof label === 'string');
    for (const label of right) this.#addPair(label, answered.includes(label) ? label : null, row);
    for (const label of answered) if (!right.includes(label)) this.#addPair(null, label, row);
  }

  #addPair(right: string | null, answered: string | null, row: number | null): void {
    this.#pairs?.add(right, answered, row);
    if (this.#pairs !== null && this.#pairs.size > MOST_LABELS) this.#pairs = null;
  }

  #addProperties(values: readonly GoldValue[], answer: Answer, row: number | null): void {
    for (const value of values) {
      const known = this.#properties.get(value.name);
      if (known === undefined && this.#properties.size >= MOST_PROPERTIES) continue;
      const { rows, right, pairs } = known ?? {
        rows: 0,
        right: 0,
        pairs: value.isNamed ? new PairCounter(NO_PAIRS) : undefined,
      };
      const answered = answer.problem === null ? valueName(answer.values[value.place]) : null;
      pairs?.add(valueName(value.right), answered, row);
      this.#properties.set(value.name, {
        rows: rows + 1,
        right: right + (isRight(value, answer) ? 1 : 0),
        pairs: pairs && pairs.size > MOST_VALUES ? null : pairs,
      });
    }
  }
}

const NO_PAIRS: LabelPairs = { labels: [], counts: {} };

class PairCounter {
  readonly #places: Map<string, number>;
  readonly #counts: Map<string, number>;
  readonly #examples: Map<string, readonly number[]>;
  several: boolean;

  constructor({ labels, counts, several, examples = {} }: LabelPairs) {
    this.#places = new Map(labels.map((label, place) => [label, place]));
    this.#counts = new Map(Object.entries(counts));
    this.#examples = new Map(Object.entries(examples));
    this.several = several === true;
  }

  /** Labels. */
  get size(): number {
    return this.#places.size;
  }

  add(right: string | null, answered: string | null, row: number | null): void {
    const pair = this.#pair(right, answered);
    this.#counts.set(pair, (this.#counts.get(pair) ?? 0) + 1);
    if (row !== null) this.addExample(right, answered, row);
  }

  remove(right: string, answered: string, row: number): void {
    const pair = this.#pair(right, answered);
    this.#counts.set(pair, (this.#counts.get(pair) ?? 0) - 1);
    const others = this.#examples.get(pair)?.filter((each) => each !== row) ?? [];
    if (others.length > 0) this.#examples.set(pair, others);
    else this.#examples.delete(pair);
  }

  /** Keeps the first rows. They may come in any order, and more than once. */
  addExample(right: string | null, answered: string | null, row: number): void {
    if (right === answered) return;
    const pair = this.#pair(right, answered);
    const known = this.#examples.get(pair) ?? [];
    if (known.includes(row) || (known.length === 0 && this.#examples.size >= EXAMPLES.pairs)) return;
    const sorted = [...known, row].sort((a, b) => a - b);
    this.#examples.set(pair, sorted.slice(0, EXAMPLES.rows));
  }

  toPairs(): LabelPairs {
    return {
      labels: [...this.#places.keys()],
      counts: Object.fromEntries(this.#counts),
      ...(this.several && { several: true }),
      ...(this.#examples.size > 0 && { examples: Object.fromEntries(this.#examples) }),
    };
  }

  #pair(right: string | null, answered: string | null): string {
    const [down, across] = [right, answered].map((label) => {
      if (label !== null && !this.#places.has(label)) this.#places.set(label, this.#places.size);
      return label === null ? '' : this.#places.get(label);
    });
    return `${down},${across}`;
  }
}

const NO_CALIBRATION: Calibration = {
  bins: Array.from({ length: BINS }, () => ({ rows: 0, right: 0, confidence: 0 })),
  forecasts: 0,
  squares: 0,
};

export const byName = new Intl.Collator('en', { numeric: true });

/** As a matrix, labels sorted by name. */
export function confusionOf({ labels, counts, several }: LabelPairs): Confusion {
  // A label whose rows all abstain does not occur.
  const occurs = new Set(Object.entries(counts).flatMap(([pair, rows]) => (rows > 0 ? pair.split(',') : [])));
  const order = [...labels.entries()]
    .filter(([place]) => occurs.has(String(place)))
    .sort(([, a], [, b]) => byName.compare(a, b));
  const places = order.map(([place]) => place);
  return {
    labels: order.map(([, label]) => label),
    counts: places.map((right) => places.map((answered) => counts[`${right},${answered}`] ?? 0)),
    none: places.map((right) => counts[`${right},`] ?? 0),
    ...(several && { extra: places.map((answered) => counts[`,${answered}`] ?? 0) }),
  };
}

const NONE = '(none)';

/** `((none))` if a label has this name. */
export const noneNameFor = (labels: readonly string[]): string =>
  labels.includes(NONE) ? `(${NONE})` : NONE;

/** The most frequent pairs that differ; ties by name. */
export function confusionsOf({ labels, counts, examples = {} }: LabelPairs) {
  const nameOf = (place: string): string =>
    place === '' ? noneNameFor(labels) : (labels[Number(place)] ?? '');
  return Object.entries(counts)
    .map(([pair, rows]) => {
      const [right = '', answered = ''] = pair.split(',');
      return { gold: nameOf(right), answer: nameOf(answered), rows, examples: examples[pair] ?? [] };
    })
    .filter(({ gold, answer, rows }) => gold !== answer && rows > 0)
    .sort((a, b) => b.rows - a.rows || byName.compare(a.gold, b.gold) || byName.compare(a.answer, b.answer))
    .slice(0, MOST_CONFUSIONS);
}

const MOST_CONFUSIONS = 5;
