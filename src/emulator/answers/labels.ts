import { drawn, inShares, type Possibility } from './possible.js';
import { opinionOf, type PromptParts, wordsOf } from './reading.js';

/** A label or a key, and what the prompt says that it means; empty when it does not say. */
export interface Term {
  readonly name: string;
  readonly meaning: string;
}

/** A list is looked for in so many characters behind the words that announce it. */
const REACH = 4_000;

/** What stands before a list of labels. */
const LEAD =
  /\b(?:as|into|one of|either|whether|is|are|from|between|answer|reply|respond|als|comme|como)\b|[:([]/gi;

const DEGREE = /^(?:not|very|strongly|extremely|highly|somewhat|slightly|sehr|très)$/i;

/** Where a label stands between negative and positive. */
const POLES: ReadonlyArray<readonly [pole: number, RegExp]> = [
  [-1, /^(?:neg|bad|unhappy|unfavou?r|dissatisf)/i],
  [0, /^(?:neutr|mixed)/i],
  [1, /^(?:pos|good|happy|favou?rabl|satisf)/i],
];

export const term = (name: string, meaning = ''): Term => ({ name, meaning });

/**
 * The labels that a prompt offers, as it spells them: a line for each, the steps of a scale, a list behind "as", "one of"
 * and the like, or the answers of its examples. Empty when it offers none.
 */
export function labelsIn({ instruction, examples }: PromptParts): readonly Term[] {
  const lines = termsIn(instruction);
  if (lines.length >= 2) return lines;
  const scale = /\b(?:rat(?:e|ing)|scale|stars?|score)\b[^.]*?\b(\d)\s*(?:-|–|to|and)\s*(\d{1,2})\b/i.exec(
    instruction,
  );
  const [lowest, highest] = [Number(scale?.[1]), Number(scale?.[2])];
  if (lowest < highest)
    return Array.from({ length: highest - lowest + 1 }, (_, step) => term(String(lowest + step)));
  const listed = choicesIn(instruction);
  const answers = [...new Set(examples)].filter(isName).map((name) => term(name));
  return listed.length >= 2 ? listed : answers.length >= 2 ? answers : [];
}

/** The terms that a text has on a line each: as bullets, or behind a line that ends with a colon. */
export function termsIn(text: string): Term[] {
  const lines = text.split('\n');
  const bullets = lines.flatMap((line) => /^\s*(?:[-*•]|\d+[.)])\s+(\S.*)$/.exec(line)?.[1] ?? []);
  if (bullets.length > 0) return bullets.flatMap(termOf);
  for (const [at, line] of lines.entries()) {
    if (!line.trimEnd().endsWith(':')) continue;
    const begin = at + (lines[at + 1]?.trim() === '' ? 2 : 1);
    const gap = lines.findIndex((next, index) => index >= begin && next.trim() === '');
    const block = lines.slice(begin, gap < 0 ? undefined : gap);
    const terms = block.flatMap(termOf);
    if (terms.length >= 2 && terms.length === block.length) return terms;
  }
  return [];
}

/** `name`, `name: meaning`, `name - meaning`, `name (meaning)`. */
function termOf(line: string): Term[] {
  const mark = /:|=|\s[-–—]\s|,|\(/.exec(line)?.index ?? line.length;
  const name = bare(line.slice(0, mark));
  const meaning = line
    .slice(mark)
    .replace(/^[\s:=,–—-]+/, '')
    .replace(/^\((.*)\)$/, '$1');
  return isName(name) ? [term(name, meaning)] : [];
}

/** The longest list that a text offers to choose from. */
export function choicesIn(text: string): readonly Term[] {
  return longestList(text, LEAD, /[.:;?!\n)\]]/, withoutNeighbours);
}

/**
 * The longest enumeration such as `a, b (its meaning) or c` in a text.
 * @param lead what stands before it
 * @param end what ends it
 */
export function longestList(
  text: string,
  lead: RegExp,
  end: RegExp,
  trim = (terms: Term[]) => terms,
): readonly Term[] {
  let best: readonly Term[] = [];
  for (const { 0: words, index } of text.matchAll(lead)) {
    const begin = index + words.length;
    const terms = trim(itemsOf(text.slice(begin, begin + REACH).trimStart(), end));
    if (terms.length > best.length && terms.every(({ name }) => isName(name))) best = terms;
  }
  return best;
}

function itemsOf(text: string, end: RegExp): Term[] {
  const meanings: string[] = [];
  const marked = text.replace(
    /\(([^()]*)\)/g,
    (_, meaning: string) => `\u0001${meanings.push(meaning) - 1}\u0001`,
  );
  return marked
    .slice(0, end.exec(marked)?.index)
    .split(/\s?[,/|&]\s?(?:(?:and|or|und|oder|et|ou)\s)?|\s(?:and|or|und|oder|et|ou)\s/i)
    .map((item) => {
      const [name = '', meaning] = item.split('\u0001');
      return term(bare(name).replace(/^(?:an?|the)\s/i, ''), meanings[Number(meaning)]);
    })
    .filter(({ name }) => name !== '');
}

/** The words around a list are cut from its first and last item, by the length of the items between. */
function withoutNeighbours(items: Term[]): Term[] {
  const words = items.map(({ name }) => name.split(/\s+/));
  const width = Math.min(...(words.length > 2 ? words.slice(1, -1) : words).map(({ length }) => length));
  const kept = (edge: string | undefined) => (DEGREE.test(edge ?? '') ? width + 1 : width);
  return items.map(({ name, meaning }, index) => {
    const own = words[index] ?? [];
    if (index === 0) return term(own.slice(-kept(own.at(-width - 1))).join(' '), meaning);
    return index < items.length - 1
      ? term(name, meaning)
      : term(own.slice(0, kept(own[0])).join(' '), meaning);
  });
}

const bare = (text: string): string => text.replace(/["'`“”*<>[\]]/g, '').trim();

/** Whether a text is short enough to be a label or a key. */
function isName(text: string): boolean {
  return text !== '' && text.length <= 40 && text.split(/\s+/).length <= 4;
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
  const fits = terms.map((one, index): { score: number; weight: number } => {
    const place = places[index] ?? null;
    if (!isScale) {
      const score = 3 * overlap(one.name, text) + overlap(one.meaning, text);
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
function overlap(source: string, text: string): number {
  const long = wordsOf(source).filter(({ length }) => length > 3);
  const stems = long.map((word) => word.slice(0, Math.max(4, word.length - 2)));
  return wordsOf(text).filter((word) => stems.some((stem) => word.startsWith(stem))).length;
}
