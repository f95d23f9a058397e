import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { GoldCounter, type GoldTally } from '../../src/account/gold-tally.js';
import { binOf, calibrationError, shareOf } from '../../src/account/score.js';
import { type Scores, scoresOf } from '../../src/account/scores.js';
import type { Gold } from '../../src/answer/gold.js';
import type { Answer } from '../../src/core/model.js';

const DIGITS = 10;

/** The answer that a model gave; `null` is none of the labels. */
const answerOf = (label: string | null): Answer =>
  label === null
    ? { values: [null], counted: ['(none)'], problem: { code: 'answer_not_a_label', message: '' } }
    : { values: [label], counted: [label], problem: null };

const gold = (label: unknown): Gold => ({ kind: 'label', label: String(label) });

function tallyOf(right: readonly unknown[], answered: readonly unknown[], cut = right.length): GoldTally {
  let tally: GoldTally | undefined;
  for (const [from, to] of [
    [0, cut],
    [cut, right.length],
  ]) {
    const counter = new GoldCounter(tally);
    for (const [i, label] of right.slice(from, to).entries()) {
      const given = answered[(from ?? 0) + i];
      counter.add(gold(label), answerOf(given === null ? null : String(given)), null);
    }
    tally = JSON.parse(JSON.stringify(counter.toTally()));
  }
  if (tally === undefined) throw new Error('no rows');
  return tally;
}

const scored = (right: readonly unknown[], answered: readonly unknown[]): Scores =>
  scoresOf(tallyOf(right, answered));

describe("the published examples of scikit-learn's documentation", () => {
  it('classification_report: three classes, one of them never found', () => {
    const { labels, accuracy, macro_f1, rows } = scored([0, 1, 2, 2, 2], [0, 0, 2, 2, 1]);
    expect(rows).toBe(5);
    // class 0: 0.50 1.00 0.67 1; class 1: 0.00 0.00 0.00 1; class 2: 1.00 0.67 0.80 3.
    expect(labels['0']).toMatchObject({ precision: 0.5, recall: 1, support: 1 });
    expect(labels['0']?.f1).toBeCloseTo(2 / 3, DIGITS);
    expect(labels['1']).toEqual({ precision: 0, recall: 0, f1: 0, support: 1 });
    expect(labels['2']).toMatchObject({ precision: 1, support: 3 });
    expect(labels['2']?.recall).toBeCloseTo(2 / 3, DIGITS);
    expect(labels['2']?.f1).toBeCloseTo(0.8, DIGITS);
    expect(accuracy?.value).toBeCloseTo(0.6, DIGITS);
    // macro avg: 0.49
    expect(macro_f1).toBeCloseTo((2 / 3 + 0 + 0.8) / 3, DIGITS);
  });

  it('f1_score, precision_score, recall_score: macro 0.26…, by class 0.8, 0 and 0', () => {
    const { labels, macro_f1 } = scored([0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1]);
    expect(macro_f1).toBeCloseTo(0.266666666666666, DIGITS);
    const all = ['0', '1', '2'].map((name) => labels[name]);
    expect(all.map((label) => label?.f1)).toEqual([0.8, 0, 0].map((f1) => expect.closeTo(f1, DIGITS)));
    expect(all.map((label) => label?.precision)).toEqual([2 / 3, 0, 0].map((p) => expect.closeTo(p, DIGITS)));
    expect(all.map((label) => label?.recall)).toEqual([1, 0, 0]);
  });

  it('confusion_matrix: numbers, and words', () => {
    expect(scored([2, 0, 2, 2, 0, 1], [0, 0, 2, 2, 0, 2]).confusion).toEqual({
      '0': { '0': 2 },
      '1': { '2': 1 },
      '2': { '0': 1, '2': 2 },
    });
    const right = ['cat', 'ant', 'cat', 'cat', 'ant', 'bird'];
    const answered = ['ant', 'ant', 'cat', 'cat', 'ant', 'cat'];
    expect(scored(right, answered).confusion).toEqual({
      ant: { ant: 2 },
      bird: { cat: 1 },
      cat: { ant: 1, cat: 2 },
    });
  });

  it('cohen_kappa_score: 0.6875', () => {
    const y1 = ['negative', 'positive', 'negative', 'neutral', 'positive'];
    const y2 = ['negative', 'positive', 'negative', 'neutral', 'negative'];
    expect(scored(y1, y2).kappa).toBeCloseTo(0.6875, DIGITS);
  });

  it('precision_recall_fscore_support: labels that are answered and never right', () => {
    // y_true = cat, dog, pig, cat, dog, pig; macro F1 0.26…
    const { macro_f1 } = scored(
      ['cat', 'dog', 'pig', 'cat', 'dog', 'pig'],
      ['cat', 'pig', 'dog', 'cat', 'cat', 'dog'],
    );
    expect(macro_f1).toBeCloseTo(0.266666666666666, DIGITS);
  });
});

describe('the majority', () => {
  it('is the most frequent right label, unanswered rows included, and the first by name of equals', () => {
    expect(scored(['b', 'a', 'c', 'b', 'a'], ['c', 'c', 'c', 'c', 'c']).majority).toEqual({
      label: 'a',
      accuracy: 0.4,
    });
  });

  it('is unknown where a row may have several labels', () => {
    const counter = new GoldCounter(undefined);
    const answer = { values: [['a']], counted: ['a'], problem: null };
    counter.add({ kind: 'labels', labels: ['a'] }, answer, null);
    expect(scoresOf(counter.toTally()).majority).toBeNull();
  });
});

/** A forecast of all labels; the label of the answer is the likeliest. */
type Forecast = readonly [right: string, probabilities: Readonly<Record<string, number>>];

function forecastTally(rows: readonly Forecast[], cut = rows.length): GoldTally {
  let tally: GoldTally | undefined;
  for (const part of [rows.slice(0, cut), rows.slice(cut)]) {
    const counter = new GoldCounter(tally);
    for (const [right, probabilities] of part) {
      const [[label, value] = ['', 0]] = Object.entries(probabilities).sort(([, a], [, b]) => b - a);
      const confidence = { value, probabilities: new Map(Object.entries(probabilities)) };
      counter.add(gold(right), { ...answerOf(label), confidence }, null);
    }
    tally = JSON.parse(JSON.stringify(counter.toTally()));
  }
  if (tally === undefined) throw new Error('no rows');
  return tally;
}

const forecast = (names: readonly string[], rows: readonly (readonly [string, readonly number[]])[]) =>
  scoresOf(
    forecastTally(
      rows.map(
        ([right, numbers]): Forecast => [
          right,
          Object.fromEntries(names.map((name, i) => [name, numbers[i] ?? 0])),
        ],
      ),
    ),
  );

describe('the Brier score', () => {
  it("is that of scikit-learn's documentation, whole also with two labels", () => {
    // brier_score_loss([0, 1, 1, 0], [0.1, 0.9, 0.8, 0.3]) is 0.0375, with scale_by_half=False 0.075.
    const two = forecast(
      ['ham', 'spam'],
      [
        ['spam', [0.1, 0.9]],
        ['ham', [0.9, 0.1]],
        ['ham', [0.8, 0.2]],
        ['spam', [0.3, 0.7]],
      ],
    );
    expect(two.brier).toBeCloseTo(2 * 0.0375, DIGITS);
    const three = forecast(
      ['eggs', 'ham', 'spam'],
      [
        ['eggs', [0.8, 0.1, 0.1]],
        ['ham', [0.2, 0.7, 0.1]],
        ['spam', [0.2, 0.2, 0.6]],
      ],
    );
    expect(three.brier).toBeCloseTo(0.44 / 3, DIGITS);
  });

  it("is that of scikit-learn's tests", () => {
    const sure = forecast(
      ['eggs', 'ham', 'spam'],
      [
        ['eggs', [1, 0, 0]],
        ['spam', [0, 1, 0]],
        ['ham', [0, 1, 0]],
      ],
    );
    expect(sure.brier).toBeCloseTo(2 / 3, DIGITS);
    const numbers = forecast(
      ['0', '1', '2'],
      [
        ['1', [0.2, 0.7, 0.1]],
        ['0', [0.6, 0.2, 0.2]],
        ['2', [0.6, 0.1, 0.3]],
      ],
    );
    expect(numbers.brier).toBeCloseTo(1.24 / 3, DIGITS);
  });

  it('takes a label that is not listed for impossible, and gives what is not listed to no label', () => {
    const { brier } = scoresOf(forecastTally([['neutral', { positive: 0.6, negative: 0.1 }]]));
    expect(brier).toBeCloseTo(1 + 0.36 + 0.01, DIGITS);
    expect(scoresOf(forecastTally([['positive', { positive: 0.6 }]])).brier).toBeCloseTo(0.16, DIGITS);
  });
});

describe('the expected calibration error', () => {
  const errorOf = (rows: readonly (readonly [confidence: number, right: boolean])[], bins: number) =>
    calibrationError(
      Array.from({ length: bins }, (_, place) => {
        const inside = rows.filter(([confidence]) => binOf(confidence, bins) === place);
        return {
          rows: inside.length,
          right: inside.filter(([, right]) => right).length,
          confidence: inside.reduce((sum, [confidence]) => sum + confidence, 0),
        };
      }),
    );

  it("is that of torchmetrics' documentation and tests", () => {
    // The likeliest of three classes, in three bins: 0.2000.
    const rows = [
      [0.55, false],
      [0.55, false],
      [0.6, true],
      [0.9, true],
    ] as const;
    expect(errorOf(rows, 3)).toBeCloseTo(0.2, DIGITS);
    // test_binary_with_zero_pred: two bins, 0.6.
    const sure = [
      [1, false],
      [1, false],
      [1, true],
      [1, true],
      [0, true],
    ] as const;
    expect(errorOf(sure, 2)).toBeCloseTo(0.6, DIGITS);
  });

  it('has the upper end of a bin in it', () => {
    expect([0, 0.000001, 0.1, 0.100001, 0.3, 0.7, 0.700001, 0.9, 1].map((value) => binOf(value))).toEqual([
      0, 0, 0, 1, 2, 6, 7, 8, 9,
    ]);
  });

  it('is told with its bins, of rows that have a confidence, and the same wherever a run was stopped', () => {
    const rows: readonly Forecast[] = [
      ['a', { a: 0.95, b: 0.05 }],
      ['b', { a: 0.91, b: 0.07 }],
      ['b', { b: 0.55, a: 0.4 }],
    ];
    const scores = scoresOf(forecastTally(rows));
    expect(scores.ece).toBeCloseTo((0.86 + 0.45) / 3, DIGITS);
    expect(scores.calibration).toEqual([
      { from: 0.5, to: 0.6, rows: 1, confidence: 0.55, accuracy: 1 },
      { from: 0.9, to: 1, rows: 2, confidence: expect.closeTo(0.93, DIGITS), accuracy: 0.5 },
    ]);
    for (const cut of [0, 1, 2]) expect(scoresOf(forecastTally(rows, cut))).toEqual(scores);
    expect(scored(['a'], ['a'])).toMatchObject({ brier: null, ece: null, calibration: [] });
  });
});

test('a label that was left out counts as what the model said where its confidence is judged, and nowhere else', () => {
  const counter = new GoldCounter(undefined);
  const confidence = { value: 0.6, probabilities: new Map([['a', 0.6]]) };
  const answer: Answer = {
    values: [null],
    counted: ['(abstained)'],
    problem: null,
    confidence,
    abstained: true,
  };
  counter.add(gold('a'), { ...answer, label: 'a' }, null);
  counter.add(gold('b'), { ...answer, label: 'a' }, null);
  expect(scoresOf(counter.toTally())).toMatchObject({
    accuracy: { value: 0 },
    answered: 0,
    answered_accuracy: null,
    ece: expect.closeTo(0.1, DIGITS),
    brier: expect.closeTo((0.16 + 1.36) / 2, DIGITS),
  });
});

describe('the Wilson score interval', () => {
  // R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
  it.each([
    [81, 263, 0.2553, 0.3662],
    [15, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1, 29, 0.0061, 0.1718],
  ])('of %i of %i rows is that of the literature', (right, rows, low, high) => {
    const share = shareOf(right, rows);
    expect(share?.low).toBeCloseTo(low, 4);
    expect(share?.high).toBeCloseTo(high, 4);
  });

  it('ends where the share is 1.96 standard errors away, and holds the share', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5_000 }), fc.nat(5_000), (rows, n) => {
        const right = n % (rows + 1);
        const { value, low, high } = shareOf(right, rows) ?? { value: -1, low: -1, high: -1 };
        expect(0 <= low && low <= value && value <= high && high <= 1).toBe(true);
        for (const end of [low, high]) {
          if (end === 0 || end === 1) continue;
          const squared = (1.959963984540054 ** 2 * end * (1 - end)) / rows;
          expect((value - end) ** 2).toBeCloseTo(squared, DIGITS);
        }
      }),
    );
  });
});

describe('the scores of any rows', () => {
  const LABELS = ['positive', 'negative', 'neutral', '__proto__', '(none)', '7'];
  const rows = fc.array(fc.tuple(fc.constantFrom(...LABELS), fc.option(fc.constantFrom(...LABELS))), {
    minLength: 1,
    maxLength: 40,
  });

  test('are those of a second computation, row by row', () => {
    fc.assert(
      fc.property(rows, fc.nat(40), (pairs, cut) => {
        const right = pairs.map(([label]) => label);
        const answered = pairs.map(([, label]) => label);
        const scores = scoresOf(tallyOf(right, answered, Math.min(cut, pairs.length)));
        const among = (wanted: (pair: (typeof pairs)[number]) => boolean): number =>
          pairs.filter(wanted).length;
        const n = pairs.length;
        const agreed = among(([a, b]) => a === b);
        expect(scores.accuracy?.value).toBeCloseTo(agreed / n, DIGITS);

        const occurring = LABELS.filter((label) => right.includes(label) || answered.includes(label));
        expect(Object.keys(scores.labels).sort()).toEqual([...occurring].sort());
        const f1s = occurring.map((label) => {
          const both = among(([a, b]) => a === label && b === label);
          const precision = both / (among(([, b]) => b === label) || 1);
          const recall = both / (among(([a]) => a === label) || 1);
          const f1 = precision + recall === 0 ? 0 : (2 * precision * recall) / (precision + recall);
          expect(Object.getOwnPropertyDescriptor(scores.labels, label)?.value).toEqual({
            precision: expect.closeTo(precision, DIGITS),
            recall: expect.closeTo(recall, DIGITS),
            f1: expect.closeTo(f1, DIGITS),
            support: among(([a]) => a === label),
          });
          return f1;
        });
        expect(scores.macro_f1).toBeCloseTo(f1s.reduce((sum, f1) => sum + f1, 0) / f1s.length, DIGITS);

        let byChance = 0;
        for (const a of right) for (const b of answered) if (a === b) byChance += 1 / n ** 2;
        if (right.every((a) => a === right[0]) && answered.every((b) => b === right[0])) {
          expect(scores.kappa).toBeNull();
        } else {
          expect(scores.kappa).toBeCloseTo((agreed / n - byChance) / (1 - byChance), 8);
        }

        const counted = Object.entries(scores.confusion).flatMap(([a, row]) =>
          Object.entries(row).map(([b, count]) => [a, b, count] as const),
        );
        expect(counted.reduce((sum, [, , count]) => sum + count, 0)).toBe(n);
        const none = occurring.includes('(none)') ? '((none))' : '(none)';
        for (const [a, b, count] of counted) {
          expect(count).toBe(among(([x, y]) => x === a && (y ?? none) === b));
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('rows with several labels', () => {
  const LABELS = ['price', 'delivery', 'quality'];
  const list = fc.subarray(LABELS);
  const rows = fc.array(fc.tuple(list, fc.option(list)), { minLength: 1, maxLength: 30 });

  test('are scored by label, and right as a whole', () => {
    fc.assert(
      fc.property(rows, (pairs) => {
        const counter = new GoldCounter(undefined);
        for (const [right, answered] of pairs) {
          const answer: Answer =
            answered === null ? answerOf(null) : { values: [answered], counted: answered, problem: null };
          counter.add({ kind: 'labels', labels: right }, answer, null);
        }
        const scores = scoresOf(JSON.parse(JSON.stringify(counter.toTally())));
        const whole = pairs.filter(([right, answered]) => answered?.join() === right.join());
        expect(scores.accuracy?.value).toBeCloseTo(whole.length / pairs.length, DIGITS);
        expect([scores.kappa, scores.confusion]).toEqual([null, {}]);
        const f1s = LABELS.filter((label) => pairs.flat(2).includes(label)).map((label) => {
          const support = pairs.filter(([right]) => right.includes(label)).length;
          const got = pairs.filter(([, answered]) => answered?.includes(label)).length;
          const both = pairs.filter(
            ([right, answered]) => right.includes(label) && answered?.includes(label),
          ).length;
          const f1 = (2 * both) / (support + got);
          expect(scores.labels[label]).toEqual({
            precision: expect.closeTo(got === 0 ? 0 : both / got, DIGITS),
            recall: expect.closeTo(support === 0 ? 0 : both / support, DIGITS),
            f1: expect.closeTo(f1, DIGITS),
            support,
          });
          return f1;
        });
        if (f1s.length === 0) expect(scores.macro_f1).toBeNull();
        else expect(scores.macro_f1).toBeCloseTo(f1s.reduce((sum, f1) => sum + f1, 0) / f1s.length, DIGITS);
      }),
      { numRuns: 200 },
    );
  });
});
