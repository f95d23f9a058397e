import { type Board, LONGEST_POST, MOST_BYTES, MOST_POSTS, type Posted, type PostKind } from '../board.js';
import type { Sql } from './ledger.js';

/** $1 kind, $2 id, $3 text, $4 ttl in ms. What is over goes with it. */
const POST = `
WITH over AS (DELETE FROM promptmill.board WHERE until <= clock_timestamp() AND (kind, id) <> ($1, $2))
INSERT INTO promptmill.board (kind, id, text, seen_at, until)
VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp() + $4 * interval '1 millisecond')
ON CONFLICT (kind, id) DO UPDATE SET text = excluded.text, seen_at = excluded.seen_at, until = excluded.until
`;

/** $1 kind, $2 age in ms or null, $3 most, $4 longest, $5 bytes */
const POSTS = `
SELECT id, text, age FROM (
  SELECT id, text, seen_at, extract(epoch FROM clock_timestamp() - seen_at)::float8 * 1000 AS age,
    sum(octet_length(text)) OVER (ORDER BY seen_at DESC, id) AS bytes
  FROM promptmill.board
  WHERE kind = $1 AND until > clock_timestamp() AND isfinite(seen_at) AND octet_length(text) <= $4
    AND ($2::float8 IS NULL OR seen_at >= clock_timestamp() - $2 * interval '1 millisecond')
) AS up
WHERE bytes <= $5
ORDER BY seen_at DESC, id
LIMIT $3
`;

const REMOVE = 'DELETE FROM promptmill.board WHERE kind = $1 AND id = $2';

/** The board on PostgreSQL. */
export class PostgresBoard implements Board {
  constructor(private readonly sql: Sql) {}

  async post(kind: PostKind, id: string, text: string, ttlMs: number): Promise<void> {
    await this.sql.query(POST, [kind, id, text, ttlMs]);
  }

  async posts(kind: PostKind, withinMs?: number): Promise<readonly Posted[]> {
    const { rows } = await this.sql.query<{ id: string; text: string; age: number }>(POSTS, [
      kind,
      withinMs ?? null,
      MOST_POSTS,
      LONGEST_POST,
      MOST_BYTES,
    ]);
    return rows.map(({ id, text, age }) => ({ id, text, ageMs: Math.max(0, age) }));
  }

  async remove(kind: PostKind, id: string): Promise<void> {
    await this.sql.query(REMOVE, [kind, id]);
  }
}
