import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { Store } from '../../src/store/store.js';
import type { StoreUnderTest } from '../support/stores.js';

const ROWS = `
SELECT 'run' AS left FROM promptmill.run WHERE run = $1
UNION ALL SELECT 'calls' FROM promptmill.calls WHERE run = $1
UNION ALL SELECT 'flight' FROM promptmill.flight WHERE run = $1
UNION ALL SELECT 'first ' || first FROM promptmill.outcome WHERE run = $1
`;

/** What the store itself still has of a run, seen past the ledger. Closes an embedded store, which allows one user. */
export async function leftovers(underTest: StoreUnderTest, store: Store, run: string): Promise<string[]> {
  switch (underTest.kind) {
    case 'redis': {
      const client = new Redis(underTest.target);
      const keys = await client.keys(`promptmill:{${run}}:*`);
      await client.quit();
      return keys;
    }
    case 'postgres': {
      const client = new pg.Client(underTest.target);
      await client.connect();
      const { rows } = await client.query<{ left: string }>(ROWS, [run]);
      await client.end();
      return rows.map((row) => row.left);
    }
    case 'embedded': {
      await store.close();
      const lines = readFileSync(join(store.describe(), 'ledger'), 'utf8').trim().split('\n').slice(1);
      return lines
        .filter((line) => line[8] === ' ')
        .map((line) => JSON.parse(line.slice(9)))
        .filter((change) => change.run === run)
        .map((change) => (change.do === 'keep' ? `first ${change.first}` : change.do));
    }
  }
}
