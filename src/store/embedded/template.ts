import {
  closeSync,
  createReadStream,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, gzipSync } from 'node:zlib';
import { packageFile } from '../../package-file.js';

/**
 * A new database with its tables, made by `npm run build` with the version of PGlite that is installed with it. Compressed: a line
 * of JSON, the {@link Head}, and behind it the files in the order of its entries.
 */
const TEMPLATE = packageFile('dist/embedded-store.gz');

/** Bytes that are unpacked at a time. All 18 MB at once would stay with the process, as `engine.ts` says. */
const PIECE = 2 ** 16;

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
  if (statSync(TEMPLATE, { throwIfNoEntry: false }) === undefined) return null;
  return pipeline(createReadStream(TEMPLATE), createGunzip({ chunkSize: PIECE }), (pieces) =>
    unpack(new Bytes(pieces), data),
  );
}

async function unpack(bytes: Bytes, data: string): Promise<string> {
  const { tables, entries }: Head = JSON.parse(await bytes.line());
  for (const { path, size } of entries) {
    if (size === null) mkdirSync(join(data, path), { mode: 0o700 });
    else await writeNext(bytes, size, join(data, path));
  }
  return tables;
}

async function writeNext(bytes: Bytes, size: number, path: string): Promise<void> {
  const file = openSync(path, 'w', 0o600);
  try {
    for (let left = size; left > 0; ) {
      const part = await bytes.next(left);
      writeFileSync(file, part);
      left -= part.length;
    }
  } finally {
    closeSync(file);
  }
}

/** What comes in pieces, taken by length. */
class Bytes {
  readonly #pieces: AsyncIterator<Buffer>;
  #piece: Buffer = Buffer.alloc(0);

  constructor(pieces: AsyncIterable<Buffer>) {
    this.#pieces = pieces[Symbol.asyncIterator]();
  }

  /** The next bytes: one at least, and so many at most. @throws Error at the end */
  async next(most: number): Promise<Buffer> {
    while (this.#piece.length === 0) {
      const { done, value } = await this.#pieces.next();
      if (done) throw new Error('the template of the database is cut');
      this.#piece = value;
    }
    const part = this.#piece.subarray(0, most);
    this.#piece = this.#piece.subarray(part.length);
    return part;
  }

  /** The text up to the end of the line. */
  async line(): Promise<string> {
    const parts: Buffer[] = [];
    for (;;) {
      const part = await this.next(PIECE);
      const end = part.indexOf('\n');
      parts.push(end === -1 ? part : part.subarray(0, end));
      if (end === -1) continue;
      this.#piece = Buffer.concat([part.subarray(end + 1), this.#piece]);
      return Buffer.concat(parts).toString();
    }
  }
}
