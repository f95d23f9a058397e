import { definitionsIn, type ReadPrompt, wordsOf } from './read-prompt.js';

export interface Possibility {
  readonly text: string;
  /** Probability at temperature 1. */
  readonly share: number;
}

function inShares(weighed: readonly Possibility[]): Possibility[] {
  const total = weighed.reduce((sum, { share }) => sum + share, 0);
  return weighed.map(({ text, share }) => ({ text, share: share / total }));
}

export function drawn(possible: readonly Possibility[], temperature: number, random: () => number): string {
  const most = Math.max(...possible.map(({ share }) => share));
  // Relative to the largest, so that a very low temperature does not make every share 0.
  const tempered = inShares(
    possible.map(({ text, share }) => ({ text, share: (share / most) ** (1 / temperature) })),
  );
  let left = random();
  for (const { text, share } of tempered) {
    left -= share;
    if (left < 0) return text;
  }
  return tempered.at(-1)?.text ?? '';
}

/** Occasional answers that are none of the labels, each half as likely as the one before it. */
const NO_LABEL = ['mixed', 'unclear', 'It depends.', 'I am not sure.'] as const;

/** Probability of such an answer, of a label in another case, and of other leading white space. */
const NO_LABEL_SHARE = 0.02;
const OTHER_CASE_SHARE = 0.03;
const OTHER_LEAD_SHARE = 0.03;

/** @param lead white space before an answer */
export function spelled(labels: readonly Possibility[], lead: string): Possibility[] {
  const otherLead = lead === ' ' ? '' : ' ';
  return [
    ...labels.flatMap(({ text, share }) => {
      const part = (1 - NO_LABEL_SHARE) * share;
      return [
        { text: lead + text, share: part * (1 - OTHER_CASE_SHARE - OTHER_LEAD_SHARE) },
        { text: lead + inOtherCase(text), share: part * OTHER_CASE_SHARE },
        { text: otherLead + text, share: part * OTHER_LEAD_SHARE },
      ];
    }),
    ...inShares(NO_LABEL.map((text, index) => ({ text: lead + text, share: 0.5 ** index }))).map(
      ({ text, share }) => ({ text, share: NO_LABEL_SHARE * share }),
    ),
  ];
}

function inOtherCase(text: string): string {
  const first = text.charAt(0);
  const upper = first.toUpperCase();
  return (first === upper ? first.toLowerCase() : upper) + text.slice(1);
}

const GOOD =
  /^(?:love|perfect|amazing|awesome|fantastic|excellent|wonderful|great|good|nice|beautiful|lovely|comf|happy|pleas|glad|enjoy|recommend|satisf|helpful|friendly|fast|easy|reliab|best|better|brilliant|superb|delight|favou?rite|impress|quiet|sturdy|solid|durable|warm|bright|flatter|cute|soft|worth|quality|compliment|thank|gorgeous|clever|handy|smooth|finally|works|lasts|survive)/;
const BAD =
  /^(?:terribl|horribl|awful|worst|worse|disappoint|hate|useless|garbage|poor|bad|broke|refund|return|waste|cheap|flimsy|leak|crack|rust|stuck|jam|slip|smell|noisy|loud|slow|late|wrong|problem|issue|fault|fail|damage|defect|ripped|torn|tore|hole|itchy|uncomfort|shapeless|unfortunate|sad|annoy|frustrat|rude|missing|junk|scam|dead|died|stopped|avoid|unhappy|nothing|never|weird|odd|thin|tight|huge|stiff|overpric|expensive|complain|unus|mess|fell|burn|melt|wobbl|squeak|cold|hurt|pain|meh|support|too$)/;
const NEGATION = /^(?:not|no|never|hardly|barely|without|cannot|\p{L}+n't)$/u;

/** Opinion words that leave little doubt, unless they are negated. */
const PLAIN =
  /^(?:love|perfect|amazing|awesome|fantastic|excellent|wonderful|great|beautiful|gorgeous|comf|happy|glad|compliment|recommend|best|superb|enjoy|finally|easy|refund|return|broke|leak|crack|rust|disappoint|worst|awful|terribl|horribl|unfortunate|flimsy|hole|died|burn|waste|useless|poor|stopped|hate|avoid|ripped|torn|smell)/;

/** Weight of the other opinion words, where {@link PLAIN} ones weigh 1. */
const VAGUE = 0.4;

/** A negation reverses the opinion words among the next so many words. */
const NEGATION_REACH = 3;

export interface Opinion {
  /** From −2 to 2. */
  readonly tone: number;
  /** Lean to one side, about −5 to 5. Plain words count more than vague ones; contradictions reduce it. */
  readonly leaning: number;
}

/** Where there are stars, the words do not count. */
const STARS = /^stars?: ([1-5]) (?:of|out of) 5$/im;

/** `null` for a text without stars or an English opinion word. Words after "but" count twice. */
export function opinionOf(text: string): Opinion | null {
  const stars = STARS.exec(text)?.[1];
  if (stars !== undefined) return { tone: Number(stars) - 3, leaning: 0.5 * (Number(stars) - 3) };
  let [isSaid, sum, weight, negated, leaning, evidence] = [false, 0, 1, 0, 0, 0];
  for (const word of wordsOf(text)) {
    if (word === 'but' || word === 'however') weight = 2;
    const side = GOOD.test(word) ? 1 : BAD.test(word) ? -1 : 0;
    const points = negated > 0 ? -side * weight : side * weight;
    const clarity = negated <= 0 && PLAIN.test(word) ? 1 : VAGUE;
    isSaid ||= side !== 0;
    sum += points;
    leaning += clarity * points;
    evidence += clarity * Math.abs(points);
    negated = NEGATION.test(word) ? NEGATION_REACH : negated - 1;
  }
  if (!isSaid) return null;
  return { tone: Math.max(-2, Math.min(2, sum)), leaning: leaning / Math.sqrt(evidence + 0.3) };
}

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

export function termsOf(labels: readonly string[], { instruction }: ReadPrompt): readonly Term[] {
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
