import { plainLines } from './terminal-text.js';

/** Markup of a page. Whatever else is put into a page is text, so a row or a model cannot write any. */
class Markup {
  constructor(readonly source: string) {}
}

export type Html = Markup;

/** What a page is put together from: markup as it is, texts and numbers as text, and nothing where there is nothing. */
export type Piece = Html | string | number | null | readonly Piece[];

/** Markup, with pieces between. A piece may also be the value of an attribute in double quotes. */
export function html(markup: TemplateStringsArray, ...pieces: readonly Piece[]): Html {
  return new Markup(markup.map((text, i) => text + sourceOf(pieces[i] ?? null)).join(''));
}

/** Markup that was not written here: styles, scripts, and charts. */
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

/** Lines and tabs stay; what hides or reorders text is shown as on a terminal. */
export const escaped = (text: string): string =>
  plainLines(text).replace(/[&<>"']/g, (char) => ENTITIES[char] ?? '');
