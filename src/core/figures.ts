/** Numbers and durations for people. */

/** Made at its first use: the first of all takes as long as a third of the start of Node.js. */
function formatter(options: Intl.NumberFormatOptions): (value: number) => string {
  let format: Intl.NumberFormat | null = null;
  return (value) => {
    format ??= new Intl.NumberFormat('en-US', options);
    return format.format(value);
  };
}

const integer = formatter({ maximumFractionDigits: 0 });
const oneDecimal = formatter({ minimumFractionDigits: 1, maximumFractionDigits: 1 });
const upToOneDecimal = formatter({ maximumFractionDigits: 1 });
const money = formatter({ minimumFractionDigits: 2, maximumFractionDigits: 6 });

/** `12,000` */
export const count = (value: number): string => integer(value);

/** `1 row`, `12,000 rows` */
export const counted = (value: number, what: string): string =>
  `${count(value)} ${what}${value === 1 ? '' : 's'}`;

/** `53.8 %` */
export const percent = (part: number, whole: number): string => `${oneDecimal((part / whole) * 100)} %`;

/** Of a share from 0 to 1. */
export const share = (value: number): string => percent(value, 1);

/** `0.095939 EUR` @param currency as the prices say. @default only the number */
export const cost = (value: number, currency?: string): string =>
  `${money(value)}${currency === undefined ? '' : ` ${currency}`}`;

/** `850/s`, `2.5/s`, and `4.0/min` below 0.1 a second. @param what the unit: `850 rows/s` */
export function rate(perSecond: number, what = ''): string {
  if (perSecond >= 10) return `${integer(perSecond)}${what}/s`;
  if (perSecond >= 0.1 || perSecond === 0) return `${oneDecimal(perSecond)}${what}/s`;
  return `${oneDecimal(perSecond * 60)}${what}/min`;
}

/** `0 s`, `820 ms`, `12.3 s`, `1 min 43 s`, `2 h 5 min`, `3 d 4 h`: never more than two units. */
export function duration(seconds: number): string {
  if (seconds === 0) return '0 s';
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${upToOneDecimal(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  const hours = Math.round(seconds / 3600);
  return `${count(Math.floor(hours / 24))} d ${hours % 24} h`;
}

/** `2026-11-21 02:00:05 UTC` @param iso as `toISOString` has it */
export const moment = (iso: string): string => `${iso.slice(0, 19).replace('T', ' ')} UTC`;

/** `33 rows known, 20 of them written; …` @param known rows written or with an outcome in the store */
export function progressText(known: number, written: number): string {
  if (known === written) return `${counted(written, 'row')} written; none of them will be called again`;
  return `${counted(known, 'row')} known, ${count(written)} of them written; none of them will be called again`;
}

/** Shortens a text without cutting a character in two, and without keeping the long text in memory. */
export const clipped = (text: string, most: number): string =>
  text.length <= most
    ? text
    : `${Buffer.from(text.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, '')).toString()}…`;

/** `200 of 1,000 rows at random, seed 0, each value of stars alike` @param of rows of the input */
export function sampleText(
  { seed, by }: { readonly seed: number; readonly by: string | null },
  rows: number,
  of: number,
): string {
  const alike = by === null ? '' : `, each value of ${by} alike`;
  return `${count(rows)} of ${count(of)} rows at random, seed ${seed}${alike}`;
}
