import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

/** What a process took, told by itself at its end (`meter.cjs`). */
interface Meter {
  /** CPU of all its threads, user and system. */
  readonly cpu_us: number;
  /** CPU of the main thread; null where the system does not tell. */
  readonly main_us: number | null;
  /** Highest resident memory. */
  readonly peak_bytes: number;
}

interface Timed {
  /** When the process was started, in milliseconds since the epoch. */
  readonly began_ms: number;
  /** From its start to its end. */
  readonly seconds: number;
}

export type Metered = Meter & Timed;

/** What a process did, told by itself at its end (`counter.js`). */
export interface Counts {
  /** Writes to connections, by the port at the other end. */
  readonly writes: Readonly<Record<string, number>>;
  /** Writes to the file of an embedded ledger. */
  readonly changes: number;
  readonly fsyncs: number;
  /** Files of code that were loaded. */
  readonly modules: number;
}

export interface Command {
  /** Arguments of `node`. */
  readonly args: readonly string[];
  /** All of the environment but the PATH. */
  readonly env: Readonly<Record<string, string>>;
}

const METER = join(import.meta.dirname, 'meter.cjs');
const COUNTER = pathToFileURL(join(import.meta.dirname, 'counter.js')).href;

/**
 * Runs a process of Node to its end, and measures it. That costs the process nothing but a look at its end.
 * @throws Error with its last line, and all that it said as the cause, when it ends with a code other than 0
 */
export function metered(command: Command): Promise<Metered> {
  return toTheEnd<Meter>(command, ['--require', METER], 'BENCH_METER');
}

/**
 * Runs a process of Node to its end, and counts what it does.
 * @throws Error as `metered` does
 */
export function counted(command: Command): Promise<Counts> {
  return toTheEnd<Counts>(command, ['--import', COUNTER], 'BENCH_COUNTS');
}

/** Runs a process that writes its figures to the file that a variable of its environment names. */
async function toTheEnd<Figures>(
  { args, env }: Command,
  flags: readonly string[],
  variable: string,
): Promise<Figures & Timed> {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-meter-'));
  const path = join(folder, 'figures.json');
  const began_ms = Date.now();
  const began = performance.now();
  try {
    const child = spawn(process.execPath, [...flags, ...args], {
      cwd: folder,
      env: { PATH: process.env['PATH'], ...env, [variable]: path },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [[code], out, error] = await Promise.all([
      once(child, 'exit'),
      text(child.stdout),
      text(child.stderr),
    ]);
    const seconds = (performance.now() - began) / 1000;
    if (code !== 0) {
      const last = `${out}\n${error}`.trimEnd().split('\n').at(-1);
      throw new Error(`it ended with exit code ${code}: ${last}`, { cause: `${out}\n${error}` });
    }
    const figures: Figures = JSON.parse(readFileSync(path, 'utf8'));
    return { ...figures, began_ms, seconds };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
