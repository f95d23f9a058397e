import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { PGlite, type PGliteOptions } from '@electric-sql/pglite';

/**
 * V8 optimises a function of the database after so much work in it. At its default of 1.8 million a run of a few rows spends a second
 * of processor time on that. Optimising a large function takes tens of megabytes for a moment, in a long run again and again; and 300,000
 * rows take as long without (277 µs of processor time a row, and 288 with a budget of 100 million).
 */
const OPTIMISE_AFTER = `--wasm-tiering-budget=${2 ** 31 - 1}`;

/**
 * The code of the database is 9 MB, and read into more than 32 MiB, of which only what is written takes memory. Once the C library
 * gets a smaller piece of memory back, it keeps pieces of that size, and each of its arenas up to twice as much that is free (`mallopt`,
 * M_MMAP_THRESHOLD): 40 MB in a run of 30,000 rows.
 */
const PIECE = 2 ** 25 + 2 ** 16;

/** The types of Node.js leave it out. */
declare const WebAssembly: {
  compile(code: Uint8Array): Promise<NonNullable<PGliteOptions['pgliteWasmModule']>>;
};

/** PGlite without its question for the types of arrays, which only its own `query` needs: 60 ms at each start. */
class Database extends PGlite {
  override async _initArrayTypes(): Promise<void> {}
}

/** Starts the database of a directory, or makes one in it. */
export async function startDatabase(data: string, options: PGliteOptions): Promise<PGlite> {
  setFlagsFromString(OPTIMISE_AFTER);
  const database = new Database(data, { ...options, pgliteWasmModule: await WebAssembly.compile(code()) });
  await database.waitReady;
  return database;
}

function code(): Uint8Array<ArrayBuffer> {
  const folder = dirname(createRequire(import.meta.url).resolve('@electric-sql/pglite'));
  const file = openSync(join(folder, 'pglite.wasm'), 'r');
  try {
    const { size } = fstatSync(file);
    const bytes = new Uint8Array(new ArrayBuffer(Math.max(PIECE, size)), 0, size);
    readSync(file, bytes);
    return bytes;
  } finally {
    closeSync(file);
  }
}
