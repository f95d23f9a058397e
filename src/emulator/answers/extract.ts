import { dateIn } from './dates.js';
import type { Field } from './fields.js';
import { LANGUAGE_NAMES, languageOf, wordsOf } from './language.js';
import { currencyIn, moneyIn } from './money.js';
import { personIn } from './person.js';
import type { PromptParts } from './prompt-parts.js';
import { summaryOf } from './prose.js';
import { ratingOf } from './rating.js';
import { CLEAR, toneOf } from './sentiment.js';
import { urgencyOf } from './urgency.js';

/** Finds a value in a text, given with single spaces only and as its lines, or `null`. */
type Finder = (text: string, lines: string) => string | number | null;

const CAPITALISED = String.raw`\p{Lu}[\p{L}'’-]{1,30}`;

/** Nouns that a product is called by. */
const PRODUCT = new RegExp(
  String.raw`\b((?:[\p{L}-]{1,20} )?(?:dress|top|shirt|blouse|sweater|skirt|pants|jeans|jacket|coat|shoes|boots|bag|` +
    String.raw`phone|laptop|camera|tablet|headphones|charger|printer|monitor|keyboard|kettle|toaster|chair|table|lamp|book|bike))\b`,
  'iu',
);
const DETERMINER = /^(?:the|a|an|my|your|this|that|these|those|i|of|and|or|is|new|it|our)\s+/i;

/** What a field's name asks for. The first rule whose pattern fits the name decides. */
const FINDERS: ReadonlyArray<readonly [name: RegExp, find: Finder]> = [
  [/sentiment|tone|polarity|mood|stimmung/i, sentimentOf],
  [/e.?mail/i, match(/\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}/)],
  [/phone|mobile|telef|(?:^|_)tel(?:$|_)/i, match(/(?:\+|\(?\b0|\b)\d[\d\s().-]{6,18}\d\b/)],
  [/url|website|link/i, match(/https?:\/\/[^\s"'<>)]{1,500}[^\s"'<>).,]/)],
  [/currency|währung|devise|moneda/i, currencyIn],
  [/amount|price|total|cost|sum$|paid|betrag|preis|montant|prix|importe|precio/i, moneyIn],
  [/rating|stars|score/i, stars],
  [/quantity|count$|number_of|menge|anzahl/i, match(/(?<![#\w.,$€£-])\d{1,3}(?=\s\p{L})/u)],
  [/(?:^|_)age$|alter$/i, match(/\b\d{1,3}(?=[ -]years?[ -]old|\s?y\.?o\b)/i)],
  [
    /order|invoice|reference|ticket|tracking|account|number|nummer|numéro|(?:^|_)id$|_no$/i,
    match(
      /(?<=#\s?)[\w-]{0,20}\d[\w-]{0,20}|\b[A-Z]{1,5}-?\d{3,12}[\d-]{0,12}\b|(?<![\d$€£.,+(-])\b(?!(?:19|20)\d\d\b)\d{4,20}\b(?![.,\s]?\d)/,
    ),
  ],
  [/language|sprache|langue|idioma|lingua|taal/i, (text) => LANGUAGE_NAMES[languageOf(text)]],
  [/urgen|priorit/i, urgencyOf],
  [
    /company|organi[sz]ation|firma|employer|vendor/i,
    match(
      new RegExp(
        String.raw`${CAPITALISED}(?:\s${CAPITALISED}){0,3}\s(?:Inc|Ltd|LLC|GmbH|AG|Corp|Co|SA|BV)\b\.?`,
        'u',
      ),
    ),
  ],
  [/product|item|artikel|produit|producto|prodotto/i, product],
  [
    /city|place|location|country|town|stadt|ville|ciudad/i,
    match(new RegExp(String.raw`(?<=\b(?:in|from|near|to|at)\s)${CAPITALISED}(?:\s${CAPITALISED})?`, 'u')),
  ],
  [/name|customer|person|author|sender|contact|client/i, (_, lines) => personIn(lines)],
  [/summary|title|subject|reason|description|complaint|problem|issue|message|headline|text/i, summaryOf],
];

const DATE = /date|(?:^|_)day|datum|fecha/i;
const ORDERED = /order|placed|paid|pay|bought|purchas|invoice|transaction/i;

/** The value that a field asks for, or `null` when neither the text nor its details have one. */
export function valueFor(
  { name, meaning }: Field,
  { subject, details }: PromptParts,
): string | number | null {
  const known = detailOf(name, details);
  // Patterns expect single spaces; a signature is a line of its own.
  const text = (known ?? subject).replace(/[^\S\n]+/g, ' ').replace(/ ?\n\s*/g, '\n');
  const plain = text.replaceAll('\n', ' ');
  if (DATE.test(name)) {
    const today = /\b\d{4}-\d\d-\d\d/.exec(details)?.[0] ?? null;
    const iso = /YYYY-MM-DD|\bISO\b/i.test(meaning);
    return dateIn(plain, today, known === null && ORDERED.test(name + meaning), iso);
  }
  const like = shapeOf(meaning);
  if (like !== null) return like.exec(plain)?.[0] ?? null;
  const find = FINDERS.find(([pattern]) => pattern.test(name))?.[1];
  return find?.(plain, text) ?? known;
}

/** The value of a detail that shares a word with a field's name: `Known customer: …` for `customer_name`. */
function detailOf(name: string, details: string): string | null {
  if (details === '') return null;
  const wanted = wordsOf(name.replaceAll('_', ' ')).filter((word) => word.length > 3);
  for (const line of details.split('\n')) {
    const [caption = '', ...value] = line.split(':');
    const words = wordsOf(caption);
    if (wanted.some((word) => words.includes(word))) return value.join(':').trim() || null;
  }
  return null;
}

/** What looks like the example in a meaning such as `for example "W-100001"`; `null` without digits in it. */
function shapeOf(meaning: string): RegExp | null {
  const example = /(?:example|e\.g\.|such as|like)[\s:,]*["'“`]([\w-]{0,40}\d[\w-]{0,40})["'”`]/i.exec(
    meaning,
  )?.[1];
  if (example === undefined || !/[A-Z]/i.test(example)) return null;
  const shape = example.replace(/\d+|[A-Z]+|[a-z]+/g, (run) => {
    const letters = run < 'A' ? String.raw`\d` : run < 'a' ? '[A-Z]' : '[a-z]';
    return `${letters}{${Math.max(1, run.length - 2)},${run.length + 2}}`;
  });
  return new RegExp(String.raw`\b${shape}\b`);
}

/** The longer words that a text uses most, at most five. */
export function keywordsOf(text: string): string[] {
  const counts = new Map<string, number>();
  for (const word of wordsOf(text)) if (word.length > 5) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .slice(0, 5)
    .map(([word]) => word);
}

function match(pattern: RegExp): Finder {
  return (text) => pattern.exec(text)?.[0].trim() ?? null;
}

/** A text's tone in one word. */
export function sentimentOf(text: string): string {
  const tone = toneOf(text);
  return Math.abs(tone) < CLEAR ? 'neutral' : tone > 0 ? 'positive' : 'negative';
}

function stars(text: string): number {
  const said = /\b([1-5])(?:\s?(?:\/\s?5|out of 5)|[ -]stars?)/i.exec(text)?.[1];
  return said === undefined ? ratingOf(text, { lowest: 1, highest: 5 }) : Number(said);
}

function product(text: string): string | null {
  return PRODUCT.exec(text)?.[1]?.replace(DETERMINER, '') ?? null;
}
