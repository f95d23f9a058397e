/** Month names and their common short forms in the languages that the emulator reads a little of; January first. */
const MONTHS = [
  'january jan januar janvier enero ene gennaio gen janeiro januari stycznia ocak',
  'february feb februar février fevrier févr febrero febbraio fevereiro fev februari lutego şubat',
  'march mar märz maerz mars marzo março maart mrt marca mart',
  'april apr avril avr abril abr aprile kwietnia nisan',
  'may mai mayo mag maggio maio mei maja mayıs',
  'june jun juni juin junio giugno giu junho czerwca haziran',
  'july jul juli juillet julio luglio lug julho lipca temmuz',
  'august aug août agosto ago augustus sierpnia ağustos',
  'september sept sep septembre septiembre settembre setembro września eylül',
  'october oct oktober okt octobre octubre ottobre ott outubro października ekim',
  'november nov novembre noviembre novembro listopada kasım',
  'december dec dezember dez décembre déc diciembre dic dicembre dezembro grudnia aralık',
].map((names) => names.split(' '));

const MONTH_OF = new Map(MONTHS.flatMap((names, index) => names.map((name) => [name, index + 1] as const)));

const MONTH = `(?:${[...MONTH_OF.keys()].sort((a, b) => b.length - a.length).join('|')})`;

/** Each way to write a date, with the order of its groups. Numbers without a year count after a word like "on". */
const FORMS: ReadonlyArray<readonly [order: 'ymd' | 'dmy' | 'mdy', pattern: RegExp]> = [
  ['ymd', /(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)/g],
  ['dmy', /(?<![\d.])(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d\d(?![\d.]))(?!\d)/g],
  ['dmy', /(?<![\d.])(\d{1,2})\.(\d{1,2})\.(?!\d)()/g],
  ['dmy', /(?<=\b(?:on|bought|am|vom|le|el|il|em|op)\s)(\d{1,2})\/(\d{1,2})(?![/\d])()/gi],
  [
    'mdy',
    new RegExp(
      String.raw`(?<!\p{L})(${MONTH})\.?\s(\d{1,2})(?:st|nd|rd|th)?(?!\d|:|[.,]\d)(?:,?\s(\d{4}))?`,
      'giu',
    ),
  ],
  [
    'dmy',
    new RegExp(
      String.raw`(?<![\d.,])(\d{1,2})(?:st|nd|rd|th|er|\.|º)?\s(?:de\s|of\s)?(${MONTH})(?!\p{L})\.?(?:,?\s(?:de\s)?(\d{4}))?`,
      'giu',
    ),
  ],
  ['mdy', /(\d{1,2})月(\d{1,2})日()/g],
];

/** A date in a text. */
interface Mention {
  readonly written: string;
  readonly index: number;
  /** YYYY-MM-DD; `null` when the year is not known. */
  readonly iso: string | null;
}

/** Something was bought, ordered or paid. */
const PAST_DEED =
  /order|bought|buy|purchas|placed|paid|charged|dated|gekauft|bestellt|überwiesen|datum|acheté|command|compr|ped[ií]|acquist|ordin|besteld|gekocht|購入/i;

/** Before the date of a plan or a limit. */
const NOT_A_DEED =
  /(?:until|till|by|before|bis|zum|avant|antes del?|until the|deadline|valid|delivery|leave)\s(?:the\s)?$/i;

/** Characters between a deed and its date. */
const NEAR = 60;

/**
 * A date in a text, or `null`.
 * @param today YYYY-MM-DD: what lacks a year is the last such day before; `null` when nothing tells
 * @param deed whether the date of a purchase or payment is wanted: one that is past, and named near it
 * @param iso whether to give it as YYYY-MM-DD rather than as it is written
 */
export function dateIn(text: string, today: string | null, deed: boolean, iso: boolean): string | null {
  if (!/\d/.test(text)) return null;
  const all = FORMS.flatMap(([order, pattern]) => mentions(text, order, pattern, today)).sort(
    (a, b) => a.index - b.index,
  );
  const possible = deed ? all.filter((mention) => isPast(mention, text, today)) : all;
  const nearDeed = possible.find(({ index, written }) =>
    PAST_DEED.test(text.slice(Math.max(0, index - NEAR), index + written.length + NEAR / 2)),
  );
  const found = (deed ? nearDeed : undefined) ?? possible[0];
  if (found === undefined) return null;
  return iso ? found.iso : found.written;
}

function isPast({ iso, index }: Mention, text: string, today: string | null): boolean {
  if (today !== null && iso !== null && iso > today) return false;
  return !NOT_A_DEED.test(text.slice(Math.max(0, index - 20), index));
}

function mentions(
  text: string,
  order: 'ymd' | 'dmy' | 'mdy',
  pattern: RegExp,
  today: string | null,
): Mention[] {
  return [...text.matchAll(pattern)].flatMap((match) => {
    const [written, first = '', second = '', third = ''] = match;
    const [year, month, day] =
      order === 'ymd'
        ? [first, second, third]
        : order === 'dmy'
          ? [third, second, first]
          : [third, first, second];
    const iso = isoOf(year, MONTH_OF.get(month.toLowerCase()) ?? Number(month), Number(day), today);
    return iso === undefined ? [] : [{ written, index: match.index, iso }];
  });
}

/** `null` without a year; `undefined` when there is no such day. */
function isoOf(year: string, month: number, day: number, today: string | null): string | null | undefined {
  if (month > 12 && day <= 12) return isoOf(year, day, month, today);
  if (!(month >= 1 && month <= 12 && day >= 1 && day <= 31)) return undefined;
  const monthAndDay = `${String(month).padStart(2, '0')}-${String(day).padStart(2, '0')}`;
  if (year !== '') return `${year.padStart(4, '20')}-${monthAndDay}`;
  if (today === null) return null;
  const thisYear = Number(today.slice(0, 4));
  // A plan lies ahead by less than half a year; an older day is of last year.
  const ahead = month - Number(today.slice(5, 7));
  return `${ahead > 5 ? thisYear - 1 : thisYear}-${monthAndDay}`;
}
