/** Signs and words of currencies, by ISO 4217 code. */
const CURRENCIES: ReadonlyArray<readonly [code: string, names: string]> = [
  ['USD', String.raw`(?:US)?\$|dollars?|USD`],
  ['EUR', 'EUR|€|euros?|يورو'],
  ['GBP', '£|pounds?|GBP'],
  ['JPY', '¥|円|yen|JPY'],
  ['PLN', 'zł|PLN'],
  ['TRY', '₺|TL|TRY'],
  ['BRL', String.raw`R\$|reais|BRL`],
  ['INR', '₹|rupees?|INR'],
  ['SEK', 'kr|SEK'],
  ...['CHF', 'NOK', 'DKK', 'CZK', 'CAD', 'AUD', 'NZD', 'ZAR', 'CNY', 'HUF'].map(
    (code) => [code, code] as const,
  ),
];

const SIGN = CURRENCIES.map(([, names]) => names).join('|');
/** With a space, a point or a comma between thousands, and up to two decimals. */
const NUMBER = String.raw`(?:\d{1,3}(?:[ .,]\d{3}){1,4}|\d{1,12})(?:[.,]\d{1,2})?(?!\d)`;

const MONEY = new RegExp(
  String.raw`(?<!\p{L})(?:${SIGN})\s?${NUMBER}|(?<![\p{L}\d][-.,]?)${NUMBER}\s?(?:${SIGN})(?!\p{Script=Latin})`,
  'iu',
);
const CODES = CURRENCIES.map(([code, names]) => [code, new RegExp(`(?:${names})`, 'iu')] as const);

/** The first amount of money in a text, as it is written with its currency, or `null`. */
export function moneyIn(text: string): string | null {
  return MONEY.exec(text)?.[0] ?? null;
}

/** ISO 4217 code of the first amount of money in a text, or `null`. */
export function currencyIn(text: string): string | null {
  const money = moneyIn(text);
  return money === null ? null : (CODES.find(([, names]) => names.test(money))?.[0] ?? null);
}

/** The number in a value such as "$1,299.00", "2 149 kr" or "4 stars", or `null`. */
export function numberIn(value: string | number): number | null {
  if (typeof value === 'number') return value;
  const digits = /-?\d[\d.,]*(?: \d{3}(?!\d)[\d.,]*)*/.exec(value)?.[0].replace(/[.,]$/, '');
  if (digits === undefined) return null;
  // The last separator is the decimal one when one or two digits follow it.
  const decimal = /[.,](?=\d{1,2}$)/.exec(digits)?.index ?? digits.length;
  const whole = digits.slice(0, decimal).replace(/[., ]/g, '');
  return Number(`${whole}.${digits.slice(decimal + 1) || '0'}`);
}
