/** What a spreadsheet takes for a formula, white space before it ignored. Source: OWASP, "CSV Injection". */
const FORMULA = /^\s*[=+\-@\t\r]/;

const NUMBER = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/**
 * The text of a CSV cell, made inert: one that a spreadsheet would run gets a leading `'`, a plain number such as
 * `-5` or `+1e3` does not (fault 54).
 */
export function inert(cell: string): string {
  return FORMULA.test(cell) && !NUMBER.test(cell) ? `'${cell}` : cell;
}
