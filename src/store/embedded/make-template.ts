import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreHealth } from '../health.js';
import { QUEUE_VERSION } from '../postgres/schema.js';
import { openDatabase } from './database.js';
import { writeTemplate } from './template.js';

/** The databases that new ones are made of; nobody makes one here, and they are two thirds of the files. */
const UNUSED = ['template0', 'template1'];

// Part of `npm run build`: what every new state directory would do is done once.
const folder = mkdtempSync(join(tmpdir(), 'promptmill-template-'));
try {
  const { database, pool, data } = await openDatabase(folder, new StoreHealth(folder, false));
  await pool.query('UPDATE pg_database SET datistemplate = false WHERE datname = ANY($1)', [UNUSED]);
  for (const name of UNUSED) await pool.query(`DROP DATABASE ${name}`);
  await pool.query('CHECKPOINT');
  await pool.end();
  await database.close();
  writeTemplate(data, QUEUE_VERSION);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
