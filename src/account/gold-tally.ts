import { type Gold, type GoldValue, isRight, saysRight } from '../answer/gold.js';
import type { Answer, Confidence } from '../model.js';
import { BINS, binOf, brierOf, type Calibration } from './calibration.js';
import type { Confusion } from './score.js';

/**
 * What is counted of the rows whose right answer is known. Plain data, part of the tally: it survives JSON unchanged, and
 * its size does not grow with the input.
 */
export interface GoldTally {
  /** Rows that are `completed`; the scores are of these. */
  readonly rows: number;
  /** Of these, the rows that have exactly the right answer. */
  readonly right: number;
  /** Rows that were filtered, failed or skipped, and so have no answer. */
  readonly unanswered: number;
  /** Of `rows`, those whose label was left out for want of confidence. Absent while there are none. */
  readonly abstained?: number;
  /** Of `rows`, those whose text is no answer. Absent while there are none. */
  readonly invalid?: number;
  /** Of `rows`, those whose confidence is known, also where the label was left out. Absent while there are none. */
  readonly calibration?: Calibration;
  /** Of answers that are labels. `null`: more labels came than are counted. Absent while there are none. */
  readonly confusion?: LabelPairs | null;
  /** Of answers in JSON, by the name of a property. Absent while there are none. */
  readonly properties?: { readonly [name: string]: PropertyCount };
}

/** Right labels and answers by their places in a list: a label may have 500 characters. */
interface LabelPairs {
  /** In the order in which they came. */
  readonly labels: readonly string[];
  /** `right,answered` → rows; `right,` where the answer is none of the labels, or lacks this one. */
  readonly counts: { readonly [pair: string]: number };
  /** A row may have several labels: `,answered` → rows that got a label without being right. */
  readonly several?: true;
}

interface PropertyCount {
  /** Rows whose gold names the property. */
  readonly rows: number;
  readonly right: number;
}

/**
 * Different labels that are counted by pairs. With more of them a manifest, which is written with every commit, would have
 * more than 10,000 pairs: then only the accuracy is kept.
 */
export const MOST_LABELS = 100;
/** Properties that are counted; the others only count in the accuracy. */
const MOST_PROPERTIES = 100;

/** Counts answers against the right ones. */
export class GoldCounter {
  #rows: number;
  #right: number;
  #unanswered: number;
  #abstained: number;
  #invalid: number;
  #calibration: Calibration | undefined;
  /** `null`: there are too many labels. */
  #pairs: {
    readonly places: Map<string, number>;
    readonly counts: Map<string, number>;
    several: boolean;
  } | null;
  readonly #properties: Map<string, PropertyCount>;

  constructor(from: GoldTally | undefined) {
    const {
      rows = 0,
      right = 0,
      unanswered = 0,
      abstained = 0,
      invalid = 0,
      calibration,
      confusion = EMPTY,
      properties = {},
    } = from ?? {};
    this.#rows = rows;
    this.#right = right;
    this.#unanswered = unanswered;
    this.#abstained = abstained;
    this.#invalid = invalid;
    this.#calibration = calibration;
    this.#pairs = confusion && {
      places: new Map(confusion.labels.map((label, place) => [label, place])),
      counts: new Map(Object.entries(confusion.counts)),
      several: confusion.several ?? false,
    };
    this.#properties = new Map(Object.entries(properties));
  }

  /**
   * @param answer `null` where the row is not completed
   * @param said what the model said, where the answer is that of a person; its confidence is counted by this
   */
  add(gold: Gold, answer: Answer | null, said = answer): void {
    if (answer === null) {
      this.#unanswered += 1;
      return;
    }
    this.#rows += 1;
    if (answer.abstained) this.#abstained += 1;
    if (answer.fault !== null) this.#invalid += 1;
    if (saysRight(gold, answer) && !answer.abstained) this.#right += 1;
    if (said?.confidence) this.#addConfidence(gold, said.confidence, saysRight(gold, said));
    this.#addParts(gold, answer);
  }

  /** The label of a row that was added with it is left out now, for want of confidence. */
  abstain(gold: Gold, label: string): void {
    this.#abstained += 1;
    if (gold.kind !== 'label') return;
    if (label === gold.label) this.#right -= 1;
    this.#addPair(gold.label, label, -1);
    this.#addPair(gold.label, null);
  }

  /** Rows so far. */
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
      ...(pairs !== null &&
        pairs.places.size > 0 && {
          confusion: {
            labels: [...pairs.places.keys()],
            counts: Object.fromEntries(pairs.counts),
            ...(pairs.several && { several: true }),
          },
        }),
      ...(this.#properties.size > 0 && { properties: Object.fromEntries(this.#properties) }),
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

  #addParts(gold: Gold, answer: Answer): void {
    switch (gold.kind) {
      case 'label':
        this.#addLabel(gold.label, answer);
        break;
      case 'labels':
        this.#addLabels(gold.labels, answer);
        break;
      case 'json':
        this.#addProperties(gold.values, answer);
        break;
    }
  }

  #addLabel(right: string, { values, fault }: Answer): void {
    const [value = null] = fault === null ? values : [];
    this.#addPair(right, value === null ? null : String(value));
  }

  #addLabels(right: readonly string[], { values, fault }: Answer): void {
    if (this.#pairs !== null) this.#pairs.several = true;
    const list = fault === null && Array.isArray(values[0]) ? values[0] : [];
    const answered = list.filter((label: unknown) => typeof label === 'string');
    for (const label of right) this.#addPair(label, answered.includes(label) ? label : null);
    for (const label of answered) if (!right.includes(label)) this.#addPair(null, label);
  }

  #addPair(right: string | null, answered: string | null, rows = 1): void {
    if (this.#pairs === null) return;
    const { places, counts } = this.#pairs;
    const placeOf = (label: string | null): number | '' => {
      if (label === null) return '';
      if (!places.has(label)) places.set(label, places.size);
      return places.get(label) ?? '';
    };
    const pair = `${placeOf(right)},${placeOf(answered)}`;
    counts.set(pair, (counts.get(pair) ?? 0) + rows);
    if (places.size > MOST_LABELS) this.#pairs = null;
  }

  #addProperties(values: readonly GoldValue[], answer: Answer): void {
    for (const value of values) {
      const known = this.#properties.get(value.name);
      if (known === undefined && this.#properties.size >= MOST_PROPERTIES) continue;
      this.#properties.set(value.name, {
        rows: (known?.rows ?? 0) + 1,
        right: (known?.right ?? 0) + (isRight(value, answer) ? 1 : 0),
      });
    }
  }
}

const EMPTY: LabelPairs = { labels: [], counts: {} };

const NO_CALIBRATION: Calibration = {
  bins: Array.from({ length: BINS }, () => ({ rows: 0, right: 0, confidence: 0 })),
  forecasts: 0,
  squares: 0,
};

const byName = new Intl.Collator('en', { numeric: true });

/** The counts as a matrix, its labels by name. */
export function confusionOf({ labels, counts, several }: LabelPairs): Confusion {
  // A label whose rows all abstain is none that occurs.
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
