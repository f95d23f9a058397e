import type { Term } from './labels.js';
import { wordsOf } from './language.js';
import { CLEAR, STRONG, toneOf } from './sentiment.js';
import { topicality } from './topics.js';

/** Where a label stands between very negative (−2) and very positive (2). */
const POLES: ReadonlyArray<readonly [pole: number, RegExp]> = [
  [-1, /^(?:neg|bad|unhappy|unfavou?r|dissatisf|critical|schlecht|mauvais|mal[oa]|ruim|cattiv)/i],
  [0, /^(?:neutr|mixed|none|gemischt|mitigé)/i],
  [1, /^(?:pos|good|happy|favou?rabl|satisf|gut|bon|buen|bom|goed)/i],
];
const STRENGTHENED = /^(?:very|strongly|extremely|highly|sehr|très|muy|molto|muito|zeer)\s+/i;

const THE_THING = /^(?:product|quality|performance|qualität|qualité|calidad|qualità|qualidade|kwaliteit)/i;
const CATCH_ALL = /^(?:other|others|general|misc\w*|none|unknown|sonstiges|autre|otro)\b/i;

/** The label that fits a text best, as it was spelled; empty without labels. `random` decides between equals. */
export function classify(
  text: string,
  terms: readonly Term[],
  question: string,
  random: () => number,
): string {
  const labels = terms.map(({ name }) => name);
  const poles = labels.map(poleOf);
  if (poles.filter((pole) => pole !== null).length >= 2) return byTone(toneOf(text), labels, poles);

  const yesNo = yesAndNo(labels);
  if (yesNo) return isSo(text, question) ? yesNo.yes : yesNo.no;

  const negation = labels.find((label) =>
    labels.some((other) => label.toLowerCase() === `not ${other.toLowerCase()}`),
  );
  const negated = labels.find((label) => negation?.toLowerCase() === `not ${label.toLowerCase()}`);
  if (negation !== undefined && negated !== undefined) return isSo(text, negated) ? negated : negation;

  const words = wordsOf(text);
  const scores = terms.map((term) => fitOf(term, text, words));
  const best = Math.max(...scores);
  const candidates =
    best > 0 ? labels.filter((_, index) => scores[index] === best) : labelsOfTheUnnamed(text, labels);
  const among = candidates.length > 0 ? candidates : labels;
  return among[Math.floor(random() * among.length)] ?? '';
}

/** Labels for a text that names no topic: an opinion is about the thing itself, anything else falls to "other". */
function labelsOfTheUnnamed(text: string, labels: readonly string[]): readonly string[] {
  const ofTheThing = labels.filter((label) => THE_THING.test(label));
  if (ofTheThing.length > 0 && Math.abs(toneOf(text)) >= CLEAR) return ofTheThing;
  return labels.filter((label) => CATCH_ALL.test(label));
}

/** Whether a statement or question about a text holds, as far as tone and words tell. */
export function isSo(text: string, question: string): boolean {
  const tone = toneOf(text);
  if (/negativ|complain|unhappy|dissatisf|angry|problem|issue/i.test(question)) return tone <= -CLEAR;
  if (/positiv|recommend|satisf|happy|like|enjoy|pleased/i.test(question)) return tone >= CLEAR;
  return fitOf({ name: question, meaning: '' }, text, wordsOf(text)) > 0;
}

function poleOf(label: string): number | null {
  const plain = label.replace(STRENGTHENED, '');
  const negated = /^not\s+/i.test(plain);
  const pole = POLES.find(([, pattern]) => pattern.test(plain.replace(/^not\s+/i, '')))?.[0];
  if (pole === undefined) return null;
  return (negated ? -pole : pole) * (plain === label ? 1 : 2);
}

/** The label whose pole is nearest to the tone; without a neutral one, the sign decides. */
function byTone(tone: number, labels: readonly string[], poles: readonly (number | null)[]): string {
  const sign = Math.sign(tone) || 1;
  const hasNeutral = poles.includes(0);
  const target = hasNeutral && Math.abs(tone) < CLEAR ? 0 : Math.abs(tone) >= STRONG ? 2 * sign : sign;
  const distance = (index: number) => {
    const pole = poles[index] ?? null;
    return pole === null ? Number.POSITIVE_INFINITY : Math.abs(pole - target);
  };
  const order = labels.map((_, index) => index).sort((a, b) => distance(a) - distance(b));
  return labels[order[0] ?? 0] ?? '';
}

/** "yes" and "no", in several languages. */
function yesAndNo(labels: readonly string[]): { yes: string; no: string } | null {
  const yes = labels.find((label) => /^(?:yes|true|ja|oui|sí|si|sim)$/i.test(label));
  const no = labels.find((label) => /^(?:no|false|nein|non|nee|não)$/i.test(label));
  return yes !== undefined && no !== undefined ? { yes, no } : null;
}

/** How often a text uses a label's own words (3 points each), words of its meaning and words of its topic (1 each). */
function fitOf({ name, meaning }: Term, text: string, words: readonly string[]): number {
  const stems = wordsOf(name)
    .filter((word) => word.length > 3)
    .map((word) => word.slice(0, Math.max(4, word.length - 2)));
  const own = words.filter((word) => stems.some((stem) => word.startsWith(stem))).length;
  const related = meaning === '' ? [] : wordsOf(meaning).filter((word) => word.length > 4);
  const meant = words.filter((word) => related.includes(word)).length;
  return 3 * own + meant + topicality(`${name} ${meaning}`, text);
}
