import type { Register, RegisterReply } from '../register.js';
import type { Sql } from './ledger.js';

const NOW = 'extract(epoch FROM clock_timestamp())::float8 * 1000 AS now';

/** $1 name, $2 before, $3 after */
const SWAP = `
INSERT INTO promptmill.pace AS p (name, text)
SELECT $1, $3 WHERE $2::text IS NULL OR EXISTS (SELECT FROM promptmill.pace WHERE name = $1)
ON CONFLICT (name) DO UPDATE SET text = excluded.text, seen_at = now() WHERE p.text = $2
RETURNING text, ${NOW}
`;

/** $1 name */
const READ = `SELECT (SELECT text FROM promptmill.pace WHERE name = $1) AS text, ${NOW}`;

interface Found {
  readonly text: string | null;
  readonly now: number;
}

/** The register on PostgreSQL. */
export class PostgresRegister implements Register {
  constructor(private readonly sql: Sql) {}

  async read(name: string): Promise<RegisterReply> {
    const { rows } = await this.sql.query<Found>(READ, [name]);
    const [found] = rows;
    if (found === undefined) throw new Error('a SELECT without FROM has one row');
    return { ...found, written: false };
  }

  async swap(name: string, before: string | null, after: string): Promise<RegisterReply> {
    const { rows } = await this.sql.query<Found>(SWAP, [name, before, after]);
    const [found] = rows;
    return found === undefined ? this.read(name) : { ...found, written: true };
  }
}
