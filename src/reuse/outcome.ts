import { createHash } from 'node:crypto';
import { closeSync, createReadStream, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { errorText, StopError, UsageError } from '../errors.js';
import { parseJson } from '../json.js';
import type { CalledOutcome, Origin } from '../model.js';
import { PartFile } from '../output/writer.js';
import type { Key } from './keys.js';

/** An outcome that later rows, or later runs, may take over. */
export interface Kept {
  /** Under which key a row of a later run finds it; `null` where none will look for it. */
  readonly row: Key | null;
  /** Under which key a row of the same run finds it; `null` likewise. */
  readonly request: Key | null;
  /** Number of the row in the run that keeps it. */
  readonly number: number;
  /** The run that called for it. */
  readonly run: string;
  readonly outcome: CalledOutcome;
}

/** What a row takes its outcome over from. */
export type Source =
  | {
      readonly kind: 'copied';
      /** Number of the earlier row that asks the same. */
      readonly from: number;
      readonly key: Key;
    }
  | {
      readonly kind: 'carried';
      /** Place in the file of the job's last run. */
      readonly at: number;
    };

/** The outcome for a row that was not called: nothing was billed for it, and it took no time. */
export function takenOver(outcome: CalledOutcome, origin: Origin): CalledOutcome {
  return { ...unbilled(outcome), origin };
}

/** An outcome without what belongs to the row that was called. */
function unbilled({ origin: _, ...outcome }: CalledOutcome): CalledOutcome {
  const free = { attempts: 0, latency_ms: null };
  if (outcome.status === 'failed') return { ...outcome, ...free };
  if (outcome.status === 'completed')
    return { ...outcome, completion: { ...outcome.completion, usage: null }, ...free };
  const { completion } = outcome;
  return { ...outcome, completion: completion && { ...completion, usage: null }, ...free };
}

/** One line of a file of outcomes. */
function encodeKept({ row, request, number, run, outcome }: Kept): string {
  return `${JSON.stringify([row, request, number, run, unbilled(outcome)])}\n`;
}

const key = z.string().length(16).nullable();
const line = z.tuple([key, key, z.int().positive(), z.string().min(1), z.custom<CalledOutcome>(isOutcome)]);

/** Reads a line; `null` when it is none of ours, for example one that a crash has torn. */
function decodeKept(text: string): Kept | null {
  const parsed = line.safeParse(parseJson(text));
  if (!parsed.success) return null;
  const [row, request, number, run, outcome] = parsed.data;
  return { row, request, number, run, outcome };
}

/** Promptmill wrote it: a whole line is an outcome when it has the members of one. */
function isOutcome(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('status' in value)) return false;
  const isSet = (name: string): boolean => typeof Reflect.get(value, name) === 'object';
  if (value.status === 'completed') return isSet('completion') && isSet('filters');
  if (value.status === 'filtered') return isSet('completion') && isSet('filters') && isSet('error');
  return value.status === 'failed' && isSet('error');
}

/** A line is read with a buffer of this size at first, in bytes. */
const LINE = 4096;

const LF = 0x0a;

/** Told of each outcome of a file, in order. Returns false when what follows is of no interest. */
type OnKept = (kept: Kept, at: number, end: number) => boolean;

/** Reads a file of outcomes from its beginning. Lines that are none, such as one that a crash has torn, are left out. */
export async function scan(path: string, onKept: OnKept): Promise<void> {
  let rest: Buffer = Buffer.alloc(0);
  let base = 0;
  for await (const piece of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
    const data: Buffer = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    let from = 0;
    for (let end = data.indexOf(LF); end !== -1; end = data.indexOf(LF, from)) {
      const kept = decodeKept(data.toString('utf8', from, end));
      if (kept !== null && !onKept(kept, base + from, base + end + 1)) return;
      from = end + 1;
    }
    base += from;
    rest = data.subarray(from);
  }
}

/** Outcomes by their places. What it has opened stays readable when the file is replaced by another. */
export class OutcomeReader {
  readonly #file: number;
  #isOpen = true;
  #buffer = Buffer.alloc(LINE);

  constructor(private readonly path: string) {
    this.#file = openSync(path, 'r');
  }

  /**
   * The outcome at a place. Synchronous: mostly it is in the system's cache, where a look takes some 10 µs.
   * @throws StopError when the file does not hold what it held
   */
  at(place: number): Kept {
    for (;;) {
      const bytes = readSync(this.#file, this.#buffer, 0, this.#buffer.length, place);
      const end = this.#buffer.subarray(0, bytes).indexOf(LF);
      const kept = end === -1 ? null : decodeKept(this.#buffer.toString('utf8', 0, end));
      if (kept !== null) return kept;
      if (end !== -1 || bytes < this.#buffer.length) throw this.#damaged(place);
      this.#buffer = Buffer.alloc(this.#buffer.length * 2);
    }
  }

  #damaged(place: number): StopError {
    return new StopError(
      'outcomes_damaged',
      `${this.path} has no outcome at byte ${place}, and it had one when the run began.`,
      'Run the same command again: what is missing is called.',
    );
  }

  /** The last bytes of the file, as text. */
  tail(bytes: number): string {
    const { size } = fstatSync(this.#file);
    const buffer = Buffer.alloc(Math.min(bytes, size));
    readSync(this.#file, buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString('utf8');
  }

  close(): void {
    if (this.#isOpen) closeSync(this.#file);
    this.#isOpen = false;
  }
}

/** The outcomes that a run keeps, appended commit by commit. */
export class OutcomeFile {
  #isOpen = true;

  private constructor(
    private readonly file: PartFile,
    private readonly reader: OutcomeReader,
  ) {}

  /**
   * Opens the file of a run, or begins it. What it has of rows that were not committed is cut off.
   * @param rows rows that are committed
   * @param onKept told of each outcome that stays, with its place
   * @throws WriteError
   */
  static async open(
    path: string,
    rows: number,
    onKept: (kept: Kept, at: number) => void,
  ): Promise<OutcomeFile> {
    let bytes = 0;
    if (rows > 0 && existsSync(path)) {
      await scan(path, (kept, at, end) => {
        if (kept.number > rows) return false;
        onKept(kept, at);
        bytes = end;
        return true;
      });
    }
    const file = await PartFile.open(path, bytes);
    return new OutcomeFile(file, new OutcomeReader(path));
  }

  /**
   * Returns when the outcomes are durable.
   * @returns the place of each
   * @throws WriteError; then none of them counts
   */
  async append(kept: readonly Kept[]): Promise<readonly number[]> {
    if (kept.length === 0) return [];
    let end = this.file.bytes;
    const lines = kept.map(encodeKept);
    const places = lines.map((line) => {
      const at = end;
      end += Buffer.byteLength(line);
      return at;
    });
    await this.file.commit(lines.join(''));
    return places;
  }

  at(place: number): Kept {
    return this.reader.at(place);
  }

  /** Writes that the run has finished: whoever finds the file under its final name knows whose it is. */
  async finish(run: string): Promise<void> {
    await this.file.commit(finishedLine(run));
    await this.close();
  }

  async close(): Promise<void> {
    this.reader.close();
    if (this.#isOpen) await this.file.close();
    this.#isOpen = false;
  }
}

const finishedLine = (run: string): string => `${JSON.stringify({ finished: run })}\n`;

/** True when a file of outcomes was finished by a run. */
export const isFinishedBy = (reader: OutcomeReader, run: string): boolean => {
  const line = finishedLine(run);
  return reader.tail(line.length) === line;
};

const folderOf = (stateDir: string): string => join(stateDir, 'reuse');

/** The outcomes that a run keeps while it goes on. */
export const outcomesPath = (stateDir: string, run: string): string =>
  join(folderOf(stateDir), `${run}.jsonl`);

/** How the name of {@link answeredPath} ends; other files of the folder belong to a run that has not finished. */
export const ANSWERED = '.answered.jsonl';

/**
 * What the last finished run of a job answered.
 * @param where the address of the service; `null` for a rehearsal, which must not take the place of the real answers
 */
export function answeredPath(stateDir: string, job: string, where: string | null): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([job, where]))
    .digest('hex');
  return join(folderOf(stateDir), `${job.replace(/[^\w.-]/g, '_')}-${hash.slice(0, 8)}${ANSWERED}`);
}

/** A run that is given up takes its outcomes with it. @throws UsageError when the state directory cannot be written */
export async function dropOutcomes(stateDir: string, run: string): Promise<void> {
  try {
    await rm(outcomesPath(stateDir, run), { force: true });
  } catch (error) {
    throw unkept(stateDir, error);
  }
}

/** What is told to the user when outcomes cannot be kept. */
export const unkept = (stateDir: string, error: unknown): UsageError =>
  new UsageError(
    'bad_state_dir',
    `cannot keep outcomes in the state directory ${stateDir}: ${errorText(error)}`,
    'Make it writable, or name another one with PROMPTMILL_STATE_DIR.',
    { cause: error },
  );
