import { type Language, languageOf } from './language.js';
import type { PromptParts } from './prompt-parts.js';

/** "and" and "or", by language of the instruction. */
const CONJUNCTIONS: { readonly [language in Language]: string } = {
  en: 'and|or',
  de: 'und|oder',
  fr: 'et|ou',
  es: 'y|e|o|u',
  it: 'e|ed|o',
  pt: 'e|ou',
  nl: 'en|of',
  pl: 'i|lub|albo',
  tr: 've|veya',
  ja: 'と|または',
  ar: 'و|أو',
};

/** What stands before a list of labels. */
const LEADS =
  /\b(?:as|into|one of|either|whether|is|are|from|between|answer|reply|respond|als|in|comme|en|como|come)\b|[:([]/giu;

/** Words that belong to the label after them: "very negative", "not spam". */
const DEGREE =
  /^(?:not|non|very|strongly|extremely|highly|somewhat|slightly|mostly|sehr|eher|très|muy|molto|muito|zeer)$/i;

/** Most words in a label, and most characters. */
const MOST_WORDS = 4;
const MOST_CHARACTERS = 40;

/** A label or a key, and what the prompt says that it means. */
export interface Term {
  readonly name: string;
  /** Empty when the prompt does not say. */
  readonly meaning: string;
}

/**
 * The labels that a prompt offers, as it spells them: a list after "as", "one of", a colon and the like, a line for
 * each, or the answers of its examples. Empty when it offers none.
 */
export function labelsIn({ instruction, examples }: PromptParts): readonly Term[] {
  const terms = termsIn(instruction);
  if (terms.length >= 2) return terms;

  const offered = choicesIn(instruction);
  if (offered.length >= 2) return offered.map(withoutMeaning);

  const answers = [...new Set(examples)].filter((answer) => answer !== '' && isLabel(answer));
  return answers.length >= 2 ? answers.map(withoutMeaning) : [];
}

/** The longest list that a text offers to choose from. */
export function choicesIn(text: string): readonly string[] {
  const language = languageOf(text);
  let best: readonly string[] = [];
  for (const lead of text.matchAll(LEADS)) {
    const labels = listAtStart(text.slice(lead.index + lead[0].length), language);
    if (labels.length > best.length) best = labels;
  }
  return best;
}

/** A label as a term. */
export function withoutMeaning(name: string): Term {
  return { name, meaning: '' };
}

/** The terms that a prompt defines, each on a line: as bullets, as `name - meaning`, or after a colon as `name: meaning`. */
export function termsIn(instruction: string): Term[] {
  const bullets = termsOf(
    instruction,
    /^[ \t]*(?:[-*•]|\d+[.)])[ \t]+(\W*[^\n:–(]+?)(?:\s*[:–]| - |\s*(?=\()|$)(.*)/gm,
  );
  if (bullets.length > 0) return bullets;
  const dashed = termsOf(instruction, /^([^\n:–(]{1,40}?)[ \t]+[-–=][ \t]+(\S.*)$/gm);
  if (dashed.length >= 2) return dashed;
  const block = /:[ \t]*\n((?:[^\n:–(]{1,40}:[ \t]+\S[^\n]*(?:\n|$)){2,})/.exec(instruction)?.[1] ?? '';
  return termsOf(block, /^([^\n:]+):[ \t]+(.*)$/gm);
}

function termsOf(text: string, line: RegExp): Term[] {
  return [...text.matchAll(line)]
    .map(([, name = '', meaning = '']) => ({
      name: name.replace(/["'`*]/g, '').trim(),
      meaning: meaning.trim(),
    }))
    .filter(({ name }) => isLabel(name));
}

/**
 * The items of an enumeration such as `"a", b or c` at the start of a text. The words around the list are
 * cut from its first and last item by the length of the items between.
 */
function listAtStart(text: string, language: Language): string[] {
  const items = itemsOf(/^[^.:;?!\n)\]]*/.exec(text.trimStart())?.[0] ?? '', language);
  if (items.length < 2) return [];

  const middle = items.length > 2 ? items.slice(1, -1) : items;
  const width = Math.min(...middle.map((item) => item.split(/\s+/).length));
  const firstWords = items[0]?.split(/\s+/) ?? [];
  const lastWords = items.at(-1)?.split(/\s+/) ?? [];
  const first = firstWords
    .slice(DEGREE.test(firstWords.at(-width - 1) ?? '') ? -width - 1 : -width)
    .join(' ');
  const last = lastWords.slice(0, DEGREE.test(lastWords[0] ?? '') ? width + 1 : width).join(' ');
  const labels = [first, ...items.slice(1, -1), last];
  return labels.every(isLabel) ? [...new Set(labels)] : [];
}

/** The items of an enumeration, without articles and quotes. */
export function itemsOf(enumeration: string, language: Language): string[] {
  const conjunction = `(?:${CONJUNCTIONS[language]})`;
  const separator = new RegExp(String.raw`\s?[,/|]\s?(?:${conjunction}\s)?|\s${conjunction}\s`, 'iu');
  return enumeration
    .split(separator)
    .map((item) =>
      item
        .trim()
        .replace(/^(?:an?|the)\s/i, '')
        .replace(/["'`“”*]/g, '')
        .trim(),
    )
    .filter((item) => item !== '');
}

/** Whether a text is short enough to be a label or a name. */
export function isLabel(text: string): boolean {
  return text.length <= MOST_CHARACTERS && text.split(/\s+/).length <= MOST_WORDS;
}
