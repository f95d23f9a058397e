import type { Parameters } from '../model.js';
import type { ChunkRow } from '../queue/chunk.js';
import { answerBytes, LARGEST_ANSWER } from '../service/answer-size.js';

/**
 * Requests of at most `most` rows, in input order. All rows of a request have equal parameters, and its
 * response fits {@link LARGEST_ANSWER}.
 * @param parameters of the job; those of a row override them
 */
export function packs(
  rows: readonly ChunkRow[],
  most: number,
  parameters: Parameters,
): readonly (readonly ChunkRow[])[] {
  if (most === 1) return rows.map((row) => [row]);
  const open = new Map<string, { readonly rows: ChunkRow[]; bytes: number }>();
  const all: ChunkRow[][] = [];
  for (const row of rows) {
    const own = JSON.stringify(row.parameters);
    const bytes = answerBytes({ ...parameters, ...row.parameters }, row.prompt);
    const pack = open.get(own);
    if (pack !== undefined && pack.rows.length < most && pack.bytes + bytes <= LARGEST_ANSWER) {
      pack.rows.push(row);
      pack.bytes += bytes;
    } else {
      const next = { rows: [row], bytes };
      open.set(own, next);
      all.push(next.rows);
    }
  }
  return all;
}

export function shuffled<T>(requests: readonly T[], random: () => number): readonly T[] {
  return requests
    .map((each) => ({ each, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each);
}
