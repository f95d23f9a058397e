import { escapeControlsInLines } from './terminal-text.js';

/** Everything else in a page is escaped text, so a row or a model cannot write markup. */
class Markup {
  constructor(readonly source: string) {}
}

export type Html = Markup;

/** Markup stays, texts and numbers are escaped, `null` is nothing. */
export type Piece = Html | string | number | null | readonly Piece[];

/** A piece may also be the value of an attribute in double quotes. */
export function html(markup: TemplateStringsArray, ...pieces: readonly Piece[]): Html {
  return new Markup(markup.map((text, i) => text + sourceOf(pieces[i] ?? null)).join(''));
}

/** For markup that is not a template here: styles, scripts, charts. */
export const foreignMarkup = (source: string): Html => new Markup(source);

function sourceOf(piece: Piece): string {
  if (piece === null) return '';
  if (piece instanceof Markup) return piece.source;
  if (typeof piece === 'object') return piece.map(sourceOf).join('');
  return escaped(String(piece));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Lines and tabs stay; characters that hide or reorder text are shown as on a terminal. */
export const escaped = (text: string): string =>
  escapeControlsInLines(text).replace(/[&<>"']/g, (char) => ENTITIES[char] ?? '');
