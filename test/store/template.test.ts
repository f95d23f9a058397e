import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it, vi } from 'vitest';
import { openDatabase } from '../../src/store/embedded/database.js';
import { writeTemplate } from '../../src/store/embedded/template.js';
import { StoreHealth } from '../../src/store/health.js';
import { QUEUE_VERSION } from '../../src/store/postgres/schema.js';

/** The template of these tests is in a folder of its own, with the stores. */
const folder = await vi.hoisted(async () => {
  const [{ mkdtempSync }, { tmpdir }] = [await import('node:fs'), await import('node:os')];
  return mkdtempSync(`${tmpdir()}/promptmill-template-`);
});
vi.mock('../../src/package-file.js', () => ({ packageFile: () => join(folder, 'template.gz') }));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Opens a store, runs a statement in it, and closes it. @returns its database */
async function used(name: string, statement: string): Promise<string> {
  const directory = join(folder, name);
  const { database, pool, data } = await openDatabase(directory, new StoreHealth(directory, false));
  await pool.query(statement);
  await pool.end();
  await database.close();
  return data;
}

it('the tables of a template of another version are brought up to date before a store is ready', async () => {
  const made = await used('made', 'DROP SCHEMA bullmq CASCADE');
  writeTemplate(made, 'another');
  // Fails where the table is missing.
  await used('new', 'SELECT FROM bullmq.job');
  expect(readFileSync(join(folder, 'new', 'ready'), 'utf8')).toBe(QUEUE_VERSION);
});
