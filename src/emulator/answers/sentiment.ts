import { type Language, likelyLanguages, wordsOf } from './language.js';
import { WORD_LISTS } from './lexicon.js';

/** Between −CLEAR and CLEAR a text's tone counts as neutral. Found on 1,300 reviews with ratings. */
export const CLEAR = 0.15;

/** From here on a tone is strong: "very positive", five stars. */
export const STRONG = 1.2;

/** People are polite: a text that says as much good as bad is a complaint. Found on the same reviews. */
const POLITENESS = 0.1;

/** What "doesn't" alone takes away where no word of opinion follows: mostly it names a fault. */
const BARE_NEGATION = 0.4;

/** "A bit noisy" is a small thing. */
const DIMINISHED = 0.4;

/** How many words a negation reaches. */
const REACH = 4;

/** Reviews name what they like before and what is wrong after "but"; the latter decides. */
const AFTER_CONTRAST = 1.6;

/** Signs that mean the same in every language. */
const GOOD_SIGN = /[😍👍🌞😄🙂😊🎉💯⭐❤]|[:=]-?\)/gu;
const BAD_SIGN = /[😡😞😤👎💔😠]|[:=]-?\(/gu;

/** Of all languages together: none of them carries an opinion in another one. */
const DIMINISHERS: ReadonlySet<string> = new Set(
  'bit little slightly somewhat etwas bisschen peu légèrement poco pochino algo pouco beetje biraz'.split(
    ' ',
  ),
);

/** Written without spaces, or with what belongs to a word before it: their words are found anywhere. */
const UNSPACED: readonly Language[] = ['ja', 'ar'];

interface Lexicon {
  /** Finds the words of a language that does not divide them by spaces. */
  readonly anywhere: RegExp | null;
  /** Whole words, pairs of words, and beginnings of words. */
  readonly exact: ReadonlyMap<string, number>;
  readonly beginnings: ReadonlyMap<string, number>;
  readonly negators: ReadonlySet<string>;
  readonly intensifiers: ReadonlySet<string>;
  readonly diminishers: ReadonlySet<string>;
  readonly contrasts: ReadonlySet<string>;
}

const lexicons = new Map<Language, Lexicon>();

/** The tone of a text, by the words in it, with negation, intensity and "but": above 0 is positive. */
export function toneOf(text: string): number {
  const sentences = text.split(/[.!?;\n]+/);
  let sum = 0;
  // A short text may be of several languages: it is of the one in which it says most.
  for (const language of likelyLanguages(text)) {
    const lexicon = lexiconOf(language);
    const said = sentences.reduce((total, sentence) => total + toneOfSentence(sentence, lexicon), 0);
    if (Math.abs(said) > Math.abs(sum)) sum = said;
  }
  sum += (text.match(GOOD_SIGN)?.length ?? 0) - (text.match(BAD_SIGN)?.length ?? 0);
  // Long texts say more of everything: compare by the root of their length, with 30 words as the unit.
  const words = Math.max(15, text.length / 5.5);
  return sum / Math.sqrt(words / 30) / 2 - POLITENESS;
}

function toneOfSentence(sentence: string, lexicon: Lexicon): number {
  let sum = 0;
  let negated = 0;
  let bare = 0;
  let factor = 1;
  let weight = 1;
  const words = lexicon.anywhere ? (sentence.match(lexicon.anywhere) ?? []) : wordsOf(sentence);
  for (const [index, word] of words.entries()) {
    if (lexicon.contrasts.has(word)) {
      weight = AFTER_CONTRAST;
      negated = 0;
    }
    const points = lexicon.exact.get(`${word}_${words[index + 1]}`) ?? pointsOf(word, lexicon);
    if (points !== 0) {
      // "Not perfect" is less bad than "bad".
      sum += points * factor * weight * (negated > 0 ? -0.6 : 1);
      factor = 1;
      bare = 0;
    }
    if (lexicon.negators.has(word)) {
      negated = REACH;
      bare = BARE_NEGATION;
    } else negated--;
    if (lexicon.intensifiers.has(word)) factor = 1.4;
    if (lexicon.diminishers.has(word)) factor = DIMINISHED;
  }
  return sum - bare;
}

function pointsOf(word: string, { exact, beginnings }: Lexicon): number {
  const whole = exact.get(word);
  if (whole !== undefined) return whole;
  for (let length = Math.min(word.length, 12); length >= 3; length--) {
    const points = beginnings.get(word.slice(0, length));
    if (points !== undefined) return points;
  }
  return 0;
}

function lexiconOf(language: Language): Lexicon {
  const known = lexicons.get(language);
  if (known) return known;
  const list = WORD_LISTS[language];
  const exact = new Map<string, number>();
  const beginnings = new Map<string, number>();
  for (const [sign, entries] of [[1, list.positive] as const, [-1, list.negative] as const]) {
    for (const entry of entries.split(' ')) {
      const points = sign * (entry.startsWith('!') ? 2 : entry.startsWith('~') ? 0.5 : 1);
      const word = entry.replace(/^[!~]/, '');
      if (word.endsWith('*')) beginnings.set(word.slice(0, -1), points);
      else exact.set(word, points);
    }
  }
  const lexicon = {
    anywhere: UNSPACED.includes(language)
      ? new RegExp([...exact.keys(), ...beginnings.keys()].join('|'), 'gu')
      : null,
    exact,
    beginnings,
    negators: new Set(list.negators.split(' ')),
    intensifiers: new Set(list.intensifiers.split(' ')),
    diminishers: DIMINISHERS,
    contrasts: new Set(list.contrasts.split(' ')),
  };
  lexicons.set(language, lexicon);
  return lexicon;
}
