import { styleText } from 'node:util';
import { asStarted } from '../started.js';

/** Text on a terminal: made harmless, measured in cells, fitted into columns. */

/**
 * Everything that a terminal would obey or that would hide or reorder what is read: control characters (with
 * them every escape sequence), invisible and direction-changing format characters, line separators and lone
 * surrogates. The two joiners stay: words of several languages and many emoji need them.
 */
const NOT_PLAIN = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

const ZERO_CELLS = /[\p{M}\u200c\u200d]/u;
const TWO_CELLS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]/u;

/** Text from a job, a model or a service, with everything that is no plain text shown as `\u{1b}`. */
export function plain(text: string): string {
  return text.replace(NOT_PLAIN, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
}

/** The same of a text of several lines: line feeds and tabs stay. */
export const plainLines = (text: string): string => text.replace(/\r\n/g, '\n').replace(/[^\n\t]+/g, plain);

/** What is said to a person who has a terminal: names of files and the like made plain, commands as they can be typed. */
export const told = (text: string): string => asStarted(plainLines(text));

/** Terminal cells that a plain text takes: by script, near enough to align columns. */
export function cells(text: string): number {
  let sum = 0;
  for (const char of text) sum += cellsOf(char);
  return sum;
}

/** The text in at most `width` cells, cut with `…` where it is longer. */
export function clip(text: string, width: number): string {
  if (cells(text) <= width) return text;
  let kept = '';
  let left = width - 1;
  for (const char of text) {
    left -= cellsOf(char);
    if (left < 0) break;
    kept += char;
  }
  return `${kept}…`;
}

/** The text, then spaces up to `width` cells. */
export const padEnd = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - cells(text)));

export const padStart = (text: string, width: number): string =>
  ' '.repeat(Math.max(0, width - cells(text))) + text;

/** Items with a separator between them, in lines of at most `width` cells; no item is broken. */
export function flow(items: readonly string[], separator: string, width: number): string[] {
  const lines: string[] = [];
  let line: string | null = null;
  const behind = cells(separator.trimEnd());
  for (const [i, item] of items.entries()) {
    if (line === null) {
      line = item;
    } else if (cells(line + separator + item) + (i < items.length - 1 ? behind : 0) <= width) {
      line += separator + item;
    } else {
      lines.push(line + separator.trimEnd());
      line = item;
    }
  }
  return line === null ? lines : [...lines, line];
}

/** A plain text in lines of at most `width` cells that break between words; no line where there is no text. */
export const words = (text: string, width: number): string[] =>
  text === '' ? [] : flow(text.split(' '), ' ', width);

/**
 * What is said to a person, in lines that a terminal need not break within a word. Lines that begin with a space are commands:
 * they stay whole, to be copied.
 */
export function wrapped(text: string, { isTTY = false, columns }: Partial<TerminalSize>): string {
  if (!isTTY) return text;
  return text
    .split('\n')
    .flatMap((line) => (/^ |^$/.test(line) ? [line] : words(line, columns || 80)))
    .join('\n');
}

type TerminalSize = Pick<NodeJS.WriteStream, 'isTTY' | 'columns'>;

function cellsOf(char: string): number {
  if (ZERO_CELLS.test(char)) return 0;
  return TWO_CELLS.test(char) ? 2 : 1;
}

type Style = Parameters<typeof styleText>[0];
export type Paint = (style: Style, text: string) => string;

/** @param color whether to colour at all */
export function painter(color: boolean): Paint {
  return (style, text) => (color ? styleText(style, text, { validateStream: false }) : text);
}
