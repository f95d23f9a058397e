import { opinionOf } from './opinion.js';
import { drawn, inShares, type Possibility } from './possible.js';
import { definitionsIn, type Reading, wordsOf } from './reading.js';

/** A label and the instruction's words that explain it; `meaning` is empty when there are none. */
export interface Term {
  readonly name: string;
  readonly meaning: string;
}

const POLES: ReadonlyArray<readonly [pole: number, RegExp]> = [
  [-1, /^(?:neg|bad|unhappy|unfavou?r|dissatisf)/i],
  [0, /^(?:neutr|mixed)/i],
  [1, /^(?:pos|good|happy|favou?rabl|satisf)/i],
];

export const term = (name: string, meaning = ''): Term => ({ name, meaning });

export function termsOf(labels: readonly string[], { instruction }: Reading): readonly Term[] {
  const meanings = new Map(
    definitionsIn(instruction).map(([name, meaning]) => [name.toLowerCase(), meaning]),
  );
  return labels.map((name) => term(name, meanings.get(name.toLowerCase())));
}

export function choose(
  text: string,
  terms: readonly Term[],
  random: () => number,
  temperature: number,
): string {
  const shares = sharesOf(text, terms, random);
  return temperature === 0 ? (shares[0]?.text ?? '') : drawn(shares, temperature, random);
}

/** A label that is d places of the scale away from where a text leans weighs e^(−{@link SPREAD} × d²). */
const SPREAD = 0.4;
/** Places of the scale per unit of {@link Opinion.leaning}. */
const STRIDE = 2.5;
/** Probability spread evenly over all labels: the reading is wrong about this often. */
const LAPSE = 0.15;
/** The answer at temperature 0 is likelier than any other label by at least this factor. */
const LEAD_OF_FIRST = 1.05;

/**
 * The probability of each label, the likeliest (the answer at temperature 0) first. Labels on a sentiment or
 * number scale are weighed by the tone of the text, others by shared words, else by chance. The three numbers
 * above were chosen so that ratings of about 1,100 reviews agree with the answers about as often as the
 * shares say.
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

/** Position from −2 to 2 of a label on the sentiment scale, or of a number in its list. */
function placeOf(label: string, share: number): number | null {
  if (/^\d+$/.test(label)) return 4 * share - 2;
  const [, negation, strong, plain = ''] =
    /^(not )?((?:very|strongly|extremely|highly) )?(.*)$/i.exec(label) ?? [];
  const pole = POLES.find(([, pattern]) => pattern.test(plain))?.[0];
  return pole === undefined
    ? null
    : pole * (negation === undefined ? 1 : -1) * (strong === undefined ? 1 : 2);
}

function overlap(source: string, words: readonly string[]): number {
  const long = wordsOf(source).filter(({ length }) => length > 3);
  const stems = long.map((word) => word.slice(0, Math.max(4, word.length - 2)));
  return words.filter((word) => stems.some((stem) => word.startsWith(stem))).length;
}
