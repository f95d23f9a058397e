import { styleText } from 'node:util';
import { padEnd } from './terminal-text.js';

/** A title and its lines; a section without lines is not shown. */
export type Section = readonly [title: string, lines: readonly string[]];

type Style = Parameters<typeof styleText>[0];
export type Paint = (style: Style, text: string) => string;

/** From this width on titles stand beside their lines, below it above them. */
const TITLES_BESIDE = 72;

/** `finish reasons` and two spaces. */
const TITLE_WIDTH = 16;

/** @param color whether to colour at all */
export function painter(color: boolean): Paint {
  return (style, text) => (color ? styleText(style, text, { validateStream: false }) : text);
}

/** Columns that the lines of a section have on a terminal of a width. */
export function bodyWidth(width: number): number {
  return width - (width >= TITLES_BESIDE ? TITLE_WIDTH : 2);
}

/** The lines of all sections, with their titles. */
export function sectionLines(sections: readonly Section[], width: number, paint: Paint): string[] {
  return sections.flatMap(([title, body]) => {
    if (body.length === 0) return [];
    if (width < TITLES_BESIDE) return [paint('dim', title), ...body.map((line) => `  ${line}`)];
    return body.map((line, index) => paint('dim', padEnd(index === 0 ? title : '', TITLE_WIDTH)) + line);
  });
}
