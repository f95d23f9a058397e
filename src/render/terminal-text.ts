import { styleText } from 'node:util';
import { asStarted } from '../core/started.js';

/**
 * What a terminal would obey, or what hides or reorders text: control characters (so every escape sequence),
 * invisible and direction-changing format characters, line separators and lone surrogates. The two joiners
 * stay: words of several languages and many emoji need them.
 */
const CONTROLS = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

const ZERO_CELLS = /[\p{M}\u200c\u200d]/u;
const TWO_CELLS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60]/u;

/** Shows every character that is not plain text as `\u{1b}`. For texts of a job, a model or a service. */
export function escapeControls(text: string): string {
  return text.replace(CONTROLS, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
}

/** As {@link escapeControls}, but line feeds and tabs stay. */
export const escapeControlsInLines = (text: string): string =>
  text.replace(/\r\n/g, '\n').replace(/[^\n\t]+/g, escapeControls);

/** Plain text, with commands in the form in which this one was started. */
export const terminalText = (text: string): string => asStarted(escapeControlsInLines(text));

/** Width in terminal cells by script: close enough to align columns. */
export function cells(text: string): number {
  let sum = 0;
  for (const char of text) sum += cellsOf(char);
  return sum;
}

/** At most `width` cells, cut with `…`. */
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

export const padEnd = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - cells(text)));

export const padStart = (text: string, width: number): string =>
  ' '.repeat(Math.max(0, width - cells(text))) + text;

/** Lines of at most `width` cells; no item is broken. */
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

/** Breaks between words; no line for an empty text. */
export const words = (text: string, width: number): string[] =>
  text === '' ? [] : flow(text.split(' '), ' ', width);

/** Wraps for a terminal. Lines that begin with a space are commands and stay whole, to be copied. */
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

export function painter(color: boolean): Paint {
  return (style, text) => (color ? styleText(style, text, { validateStream: false }) : text);
}
