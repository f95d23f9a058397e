/** The languages that the emulator can read a little of. */
export type Language = 'en' | 'de' | 'fr' | 'es' | 'it' | 'pt' | 'nl' | 'pl' | 'tr' | 'ja' | 'ar';

export const LANGUAGE_NAMES: { readonly [language in Language]: string } = {
  en: 'English',
  de: 'German',
  fr: 'French',
  es: 'Spanish',
  it: 'Italian',
  pt: 'Portuguese',
  nl: 'Dutch',
  pl: 'Polish',
  tr: 'Turkish',
  ja: 'Japanese',
  ar: 'Arabic',
};

/** Short frequent words that tell a language; a word that several share counts for each. */
const FREQUENT: ReadonlyArray<readonly [Language, ReadonlySet<string>]> = [
  [
    'en',
    set(
      "the and is was it this that of to i my for with not but have very are you in on so it's i'm don't at be all " +
        'just as they from had me up or out if when than no your we has one after only got what would never good',
    ),
  ],
  [
    'de',
    set(
      'der die das und ist war ich nicht ein eine mit für auf sehr aber den dem habe leider sind es zu wie bei nach ' +
        'aus im von nur noch kein keine sich wird gut endlich mir er sie wer als',
    ),
  ],
  [
    'fr',
    set(
      "le la les et est était je ne pas un une avec pour très mais des du de que c'est j'ai il elle trop ce sans en " +
        'au ma mon mes ça bien on sont dans si peu quand bof',
    ),
  ],
  [
    'es',
    set(
      'el la los las y es era yo no un una con para muy pero que de del lo me mi está fue este esta por se al su le ' +
        'como más ni sin ya hace cumple adiós bien son',
    ),
  ],
  [
    'it',
    set(
      'il la lo gli e è era io non un una con per molto ma che di del della mi sono questo questa le i si ho ha in ' +
        'al nella dopo più anche da come',
    ),
  ],
  [
    'pt',
    set(
      'o a os as e é era eu não um uma com para muito mas que de do da meu minha está foi este esta na no em ao ' +
        'pra só já por à adorei sem nem',
    ),
  ],
  [
    'nl',
    set(
      'de het een en is was ik niet met voor zeer maar van dit dat heel erg zijn mijn ook op te er je na in weer ' +
        'alleen goed lekker toch mooi top prima naar',
    ),
  ],
  ['pl', set('w i na nie się z do po ale jest to jak za za że choć bardzo mój pół od ich są')],
  ['tr', set('ve bir bu çok için ama ile da de göre değil gibi daha kadar iyi sürekli biraz')],
];

/** Scripts and letters that only one of the languages has. */
const SCRIPTS: ReadonlyArray<readonly [Language, RegExp]> = [
  ['ja', /[\p{Script=Hiragana}\p{Script=Katakana}]/u],
  ['ar', /\p{Script=Arabic}{3}/u],
  ['tr', /[ğıİş]/],
  ['pl', /[łżźśęąćń]/],
];

/** The words of a text, in lower case; an apostrophe belongs to its word. */
export function wordsOf(text: string): string[] {
  return (
    text
      .toLowerCase()
      .replaceAll('’', "'")
      .match(/[\p{L}\p{N}]+(?:'\p{L}+)*/gu) ?? []
  );
}

/** The most likely language of a text; English when nothing tells. */
export function languageOf(text: string): Language {
  return likelyLanguages(text)[0] ?? 'en';
}

/** The languages that are equally likely for a text: one mostly, all that share an alphabet when nothing tells. */
export function likelyLanguages(text: string): readonly Language[] {
  // The beginning is enough, and bounds the work.
  const beginning = text.slice(0, 2_000);
  const ownScript = SCRIPTS.find(([, letters]) => letters.test(beginning))?.[0];
  if (ownScript !== undefined) return [ownScript];
  const words = wordsOf(beginning);
  const counts = FREQUENT.map(([, frequent]) => words.filter((word) => frequent.has(word)).length);
  const most = Math.max(...counts);
  return FREQUENT.filter((_, index) => counts[index] === most).map(([language]) => language);
}

function set(words: string): ReadonlySet<string> {
  return new Set(words.split(' '));
}
