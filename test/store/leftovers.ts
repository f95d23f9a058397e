import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import type { Store } from '../../src/store/store.js';
import type { StoreUnderTest } from '../support/stores.js';

/** What the store itself still has of a run, seen past the ledger. Closes an embedded store, which allows one user. */
export async function leftovers(underTest: StoreUnderTest, store: Store, run: string): Promise<string[]> {
  switch (underTest.kind) {
    case 'redis': {
      const client = new Redis(underTest.target);
      const keys = await client.keys(`promptmill:{${run}}:*`);
      await client.quit();
      return keys;
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
