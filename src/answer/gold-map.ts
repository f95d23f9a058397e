import type { Json } from '../core/model.js';

/** `answer.gold.map`: values of the cells, each with the answer that they stand for. */
export type GoldMap = readonly (readonly [cell: string, answer: string])[];

/** Finds the answer of a cell: numbers by their value, texts in any case. */
export function answersIn<T>(map: GoldMap, read: (answer: string) => T): (cell: string) => T | undefined {
  const answers = new Map(map.map(([cell, answer]) => [keyOf(cell), read(answer)]));
  return (cell) => answers.get(keyOf(cell));
}

/** `4`, `4.0` and ` 4 ` are the same. */
export function keyOf(cell: string): string {
  const text = cell.trim();
  return text === '' || Number.isNaN(Number(text)) ? text.toLowerCase() : String(Number(text));
}

/** @param map as the job has it: an answer with one value, or a list of them */
export const goldMapOf = (map: { readonly [answer: string]: Json }): GoldMap =>
  Object.entries(map).flatMap(([answer, cells]) =>
    [cells].flat().map((cell) => [String(cell), answer] as const),
  );
