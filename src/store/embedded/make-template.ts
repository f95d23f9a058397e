import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreHealth } from '../health.js';
import { openDatabase, TEMPLATE } from './database.js';

// Part of `npm run build`: what every new state directory would do is done once.
const folder = mkdtempSync(join(tmpdir(), 'promptmill-template-'));
try {
  rmSync(TEMPLATE, { force: true });
  const { database, pool } = await openDatabase(folder, new StoreHealth(folder, false));
  await pool.query('CHECKPOINT');
  await pool.end();
  const packed = await database.dumpDataDir('gzip');
  await database.close();
  writeFileSync(TEMPLATE, Buffer.from(await packed.arrayBuffer()));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
