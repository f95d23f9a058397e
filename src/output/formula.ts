/**
 * Cells that a spreadsheet would run. Such a cell gets a leading `'`, which makes it text (fault 54). So does
 * a cell with `'` before such a text, so that `'=1` and `=1` stay distinct when read back (fault 72).
 */

/** With the full-width and small forms that some spreadsheets accept. Source: OWASP, "CSV Injection". */
const SIGNS = new Set('=+-@＝＋－＠﹦﹢﹣﹫');

/** White space, control characters, byte-order marks, zero-width characters. */
const UNSEEN = /[\s\p{Cc}\p{Cf}]/u;

/** No character fits two parts, so there is one way to match, in linear time (fault 69). */
const NUMBER = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/** The text of a CSV cell, made inert. A plain number such as `-5` or `+1e3` is inert already. */
export function escapeFormula(cell: string): string {
  // Nearly every cell begins with a letter or a digit.
  if (LETTER_OR_DIGIT.test(cell)) return cell;
  return wouldRun(cell, quotesBefore(cell)) ? `'${cell}` : cell;
}

/** Undoes {@link escapeFormula}. */
export function unescapeFormula(cell: string): string {
  const quotes = quotesBefore(cell);
  return quotes > 0 && wouldRun(cell, quotes) ? cell.slice(1) : cell;
}

const LETTER_OR_DIGIT = /^[A-Za-z0-9]/;

function quotesBefore(cell: string): number {
  let quotes = 0;
  while (cell[quotes] === "'") quotes++;
  return quotes;
}

const wouldRun = (cell: string, from: number): boolean =>
  beginsAsFormula(cell, from) && !NUMBER.test(cell.slice(from));

/** Whether a sign is the first visible character. A tab or a carriage return before it counts as a sign. */
function beginsAsFormula(cell: string, from: number): boolean {
  // A loop: one pattern over a run of many million characters overflows the stack.
  for (let at = from; at < cell.length; at++) {
    const char = String.fromCodePoint(cell.codePointAt(at) ?? 0);
    if (char === '\t' || char === '\r' || SIGNS.has(char)) return true;
    if (!UNSEEN.test(char)) return false;
    at += char.length - 1;
  }
  return false;
}
