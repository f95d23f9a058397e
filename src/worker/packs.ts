import type { ChunkRow } from '../queue/chunk.js';

/**
 * Rows by the request they share: as many as one request may hold, in input order, all with equal parameters,
 * because a request has one set of them.
 */
export function packs(rows: readonly ChunkRow[], most: number): readonly (readonly ChunkRow[])[] {
  if (most === 1) return rows.map((row) => [row]);
  const open = new Map<string, ChunkRow[]>();
  const all: ChunkRow[][] = [];
  for (const row of rows) {
    const parameters = JSON.stringify(row.parameters);
    const pack = open.get(parameters);
    if (pack !== undefined && pack.length < most) {
      pack.push(row);
    } else {
      const next = [row];
      open.set(parameters, next);
      all.push(next);
    }
  }
  return all;
}

/** The same requests in another order. */
export function shuffled<T>(requests: readonly T[], random: () => number): readonly T[] {
  return requests
    .map((each) => ({ each, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each);
}
