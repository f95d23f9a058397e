import type { Json } from '../model.js';

/**
 * A value of a row as text, for prompts and for CSV cells: a string as it is, `null` and a missing value as
 * nothing, anything else as compact JSON.
 */
export function valueText(value: Json | undefined): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}
