import { opinionOf } from './opinion.js';
import { drawn, inShares, type Possibility } from './possible.js';
import { definitionsIn, type Reading, wordsOf } from './reading.js';

/** A label, and the words that say what it means; empty where there are none. */
export interface Term {
  readonly name: string;
  readonly meaning: string;
}

/** Where a label stands between negative and positive. */
const POLES: ReadonlyArray<readonly [pole: number, RegExp]> = [
  [-1, /^(?:neg|bad|unhappy|unfavou?r|dissatisf)/i],
  [0, /^(?:neutr|mixed)/i],
  [1, /^(?:pos|good|happy|favou?rabl|satisf)/i],
];

export const term = (name: string, meaning = ''): Term => ({ name, meaning });

/** Labels with what the instruction says that they mean. */
export function termsOf(labels: readonly string[], { instruction }: Reading): readonly Term[] {
  const meanings = new Map(
    definitionsIn(instruction).map(([name, meaning]) => [name.toLowerCase(), meaning]),
  );
  return labels.map((name) => term(name, meanings.get(name.toLowerCase())));
}

/** One of the labels: the likeliest at temperature 0, drawn by what they are likely above it. */
export function choose(
  text: string,
  terms: readonly Term[],
  random: () => number,
  temperature: number,
): string {
  const shares = sharesOf(text, terms, random);
  return temperature === 0 ? (shares[0]?.text ?? '') : drawn(shares, temperature, random);
}

/** What a label weighs that is one place of the scale away from where a text leans to: e to the power of −{@link SPREAD}. */
const SPREAD = 0.4;
/** Places of the scale in one unit of {@link Opinion.leaning}. */
const STRIDE = 2.5;
/** The share that all labels have alike, whatever the text says: the reading is that often beside the point. */
const LAPSE = 0.15;
/** The label that is answered at temperature 0 is likelier than any other by this factor at least. */
const LEAD_OF_FIRST = 1.05;

/**
 * How likely each label is, the likeliest first: it is the answer at temperature 0. That is: by the tone of the text where they
 * are poles of a sentiment or steps of a scale, by the words that they and their meanings share with it otherwise, and by
 * chance where neither tells. The three numbers above were chosen so that the ratings of some 1,100 reviews agree with the
 * answers about as often as the shares say.
 */
export function sharesOf(text: string, terms: readonly Term[], random: () => number): Possibility[] {
  const places = terms.map(({ name }, index) => placeOf(name, index / (terms.length - 1)));
  const isScale = places.filter((place) => place !== null).length >= 2;
  const opinion = isScale ? opinionOf(text) : null;
  const words = isScale ? [] : wordsOf(text);
  const fits = terms.map((one, index): { score: number; weight: number } => {
    const place = places[index] ?? null;
    if (!isScale) {
      const score = 3 * overlap(one.name, words) + overlap(one.meaning, words);
      return { score, weight: Math.exp(Math.min(score, 20)) };
    }
    if (place === null) return { score: Number.NEGATIVE_INFINITY, weight: 0 };
    if (opinion === null) return { score: 0, weight: 1 };
    const away = place - STRIDE * opinion.leaning;
    return { score: -Math.abs(place - opinion.tone), weight: Math.exp(-SPREAD * away ** 2) };
  });
  const best = Math.max(...fits.map(({ score }) => score));
  const among = fits.flatMap(({ score }, index) => (score === best ? index : []));
  const first = among[Math.floor(random() * among.length)] ?? 0;

  const total = fits.reduce((sum, { weight }) => sum + weight, 0);
  const shares = fits.map(({ weight }) => ((1 - LAPSE) * weight) / total + LAPSE / fits.length);
  const least = LEAD_OF_FIRST * Math.max(...shares.filter((_, index) => index !== first), 0);
  const weighed = terms.map(({ name }, index) => {
    const share = shares[index] ?? 0;
    return { text: name, share: index === first ? Math.max(share, least) : share };
  });
  return inShares(weighed).sort((a, b) => b.share - a.share);
}

/** From −2 to 2: where a label stands on a scale of sentiment, or a number on that of its list. */
function placeOf(label: string, share: number): number | null {
  if (/^\d+$/.test(label)) return 4 * share - 2;
  const [, negation, strong, plain = ''] =
    /^(not )?((?:very|strongly|extremely|highly) )?(.*)$/i.exec(label) ?? [];
  const pole = POLES.find(([, pattern]) => pattern.test(plain))?.[0];
  return pole === undefined
    ? null
    : pole * (negation === undefined ? 1 : -1) * (strong === undefined ? 1 : 2);
}

/** How many words of a text begin like one of a label or of its meaning. */
function overlap(source: string, words: readonly string[]): number {
  const long = wordsOf(source).filter(({ length }) => length > 3);
  const stems = long.map((word) => word.slice(0, Math.max(4, word.length - 2)));
  return words.filter((word) => stems.some((stem) => word.startsWith(stem))).length;
}
