import {
  type Cell,
  type Folder,
  type KeyValue,
  type Listed,
  LONGEST_TEXT,
  MOST_BYTES,
  MOST_LISTED,
} from '../key-value.js';
import type { Sql } from './ledger.js';

const NOW = 'extract(epoch FROM clock_timestamp())::float8 * 1000 AS now';

/** $1 folder, $2 name */
const GET = `
SELECT (
  SELECT text FROM promptmill.board WHERE kind = $1 AND id = $2 AND until > clock_timestamp()
) AS text, ${NOW}
`;

/** $1 folder, $2 name, $3 text, $4 ttl in ms */
const VALUES = `$1, $2, $3, clock_timestamp(), clock_timestamp() + $4 * interval '1 millisecond'`;
const UPDATE = 'UPDATE SET text = excluded.text, seen_at = excluded.seen_at, until = excluded.until';

/** Also deletes expired texts. */
const PUT = `
WITH over AS (DELETE FROM promptmill.board WHERE until <= clock_timestamp() AND (kind, id) <> ($1, $2))
INSERT INTO promptmill.board (kind, id, text, seen_at, until) VALUES (${VALUES})
ON CONFLICT (kind, id) DO ${UPDATE}
`;

/** No row when the name holds something. */
const BEGIN = `
INSERT INTO promptmill.board AS b (kind, id, text, seen_at, until) VALUES (${VALUES})
ON CONFLICT (kind, id) DO ${UPDATE} WHERE b.until <= clock_timestamp()
RETURNING text, ${NOW}
`;

/** $5 the text expected there. No row when the name holds something else, or nothing any more. */
const REPLACE = `
UPDATE promptmill.board SET (kind, id, text, seen_at, until) = (${VALUES})
WHERE kind = $1 AND id = $2 AND text = $5 AND until > clock_timestamp()
RETURNING text, ${NOW}
`;

/** $1 folder, $2 age in ms or null, $3 most, $4 longest, $5 bytes */
const LIST = `
SELECT name, text, age FROM (
  SELECT id AS name, text, seen_at, extract(epoch FROM clock_timestamp() - seen_at)::float8 * 1000 AS age,
    sum(octet_length(text)) OVER (ORDER BY seen_at DESC, id) AS bytes
  FROM promptmill.board
  WHERE kind = $1 AND until > clock_timestamp() AND isfinite(seen_at) AND octet_length(text) <= $4
    AND ($2::float8 IS NULL OR seen_at >= clock_timestamp() - $2 * interval '1 millisecond')
) AS found
WHERE bytes <= $5
ORDER BY seen_at DESC, name
LIMIT $3
`;

const REMOVE = 'DELETE FROM promptmill.board WHERE kind = $1 AND id = $2';

interface Found {
  readonly text: string | null;
  readonly now: number;
}

export class PostgresKeyValue implements KeyValue {
  constructor(private readonly sql: Sql) {}

  async get(folder: Folder, name: string): Promise<Cell> {
    const { rows } = await this.sql.query<Found>(GET, [folder, name]);
    const [found] = rows;
    if (found === undefined) throw new Error('a SELECT without FROM has one row');
    return { ...found, written: false };
  }

  async put(folder: Folder, name: string, text: string, ttlMs: number): Promise<void> {
    await this.sql.query(PUT, [folder, name, text, ttlMs]);
  }

  async swap(
    folder: Folder,
    name: string,
    before: string | null,
    after: string,
    ttlMs: number,
  ): Promise<Cell> {
    const values = [folder, name, after, ttlMs];
    const { rows } = await (before === null
      ? this.sql.query<Found>(BEGIN, values)
      : this.sql.query<Found>(REPLACE, [...values, before]));
    const [found] = rows;
    return found === undefined ? this.get(folder, name) : { ...found, written: true };
  }

  async list(folder: Folder, withinMs?: number): Promise<readonly Listed[]> {
    const { rows } = await this.sql.query<{ name: string; text: string; age: number }>(LIST, [
      folder,
      withinMs ?? null,
      MOST_LISTED,
      LONGEST_TEXT,
      MOST_BYTES,
    ]);
    return rows.map(({ name, text, age }) => ({ name, text, ageMs: Math.max(0, age) }));
  }

  async remove(folder: Folder, name: string): Promise<void> {
    await this.sql.query(REMOVE, [folder, name]);
  }
}
