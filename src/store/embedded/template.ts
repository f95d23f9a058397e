import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import pLimit from 'p-limit';
import { packageFile } from '../../package-file.js';

/**
 * A new database with its tables, made by `npm run build` with the version of PGlite that is installed with it. Compressed: a line
 * of JSON, the {@link Head}, and behind it the files in the order of its entries.
 */
const TEMPLATE = packageFile('dist/embedded-store.gz');

/** Files that are written at once: as many as Node has threads for. */
const AT_ONCE = 4;

interface Entry {
  /** Relative to the directory of the database. */
  readonly path: string;
  /** Bytes of a file; null for a folder. */
  readonly size: number | null;
}

interface Head {
  /** Of which version the tables are. A process that began before the package was replaced is of another one. */
  readonly tables: string;
  readonly entries: readonly Entry[];
}

/** Keeps the files of a closed database, and of which version its tables are, for the stores to come. */
export function writeTemplate(data: string, tables: string): void {
  const paths = readdirSync(data, { recursive: true, encoding: 'utf8' }).sort();
  const entries = paths.map((path): Entry => {
    const stat = statSync(join(data, path));
    return { path, size: stat.isDirectory() ? null : stat.size };
  });
  const files = entries.filter(({ size }) => size !== null).map(({ path }) => readFileSync(join(data, path)));
  const head: Head = { tables, entries };
  writeFileSync(TEMPLATE, gzipSync(Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), ...files])));
}

/**
 * Puts the files of a new database into an empty directory.
 * @returns of which version its tables are; null where the build has left no template
 */
export async function copyTemplate(data: string): Promise<string | null> {
  const packed = readTemplate();
  if (packed === null) return null;
  const bytes = gunzipSync(packed);
  let at = bytes.indexOf('\n') + 1;
  const { tables, entries }: Head = JSON.parse(bytes.toString('utf8', 0, at));
  const limit = pLimit(AT_ONCE);
  const written = entries.map(({ path, size }) => {
    if (size === null) return mkdirSync(join(data, path), { mode: 0o700 });
    const content = bytes.subarray(at, at + size);
    at += size;
    return limit(() => writeFile(join(data, path), content, { mode: 0o600 }));
  });
  // All of them end before the lock of the store is let go.
  const failed = (await Promise.allSettled(written)).find((each) => each.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return tables;
}

function readTemplate(): Buffer | null {
  try {
    return readFileSync(TEMPLATE);
  } catch {
    return null;
  }
}
