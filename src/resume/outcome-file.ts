import { createHash } from 'node:crypto';
import { closeSync, createReadStream, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { errorText, StopError, UsageError } from '../core/errors.js';
import { parseJson } from '../core/json.js';
import type { CalledOutcome, Completion, Origin, Usage } from '../core/model.js';
import { PartFile } from '../output/writer.js';
import type { Key } from '../prompt/reuse-keys.js';

export interface StoredOutcome {
  /** For rows of later runs, by id or by place; null when none will look for it. */
  readonly row: Key | null;
  /** For rows of the same run; null likewise. */
  readonly request: Key | null;
  readonly number: number;
  readonly run: string;
  readonly outcome: CalledOutcome;
  /** What the run that called the row paid; null if unknown. */
  readonly usage: Usage | null;
}

export type OutcomeSource =
  | {
      readonly kind: 'copied';
      /** Number of the earlier row with the same request. */
      readonly from: number;
      readonly key: Key;
    }
  | {
      readonly kind: 'carried';
      /** Which of the files of other runs, from 1. */
      readonly file: number;
      /** Byte offset in it. */
      readonly at: number;
    };

/** Not called: nothing billed, and no latency. */
export function takenOver(outcome: CalledOutcome, origin: Origin): CalledOutcome {
  return { ...unbilled(outcome), origin };
}

/** Without usage, attempts, endpoint, tier and origin, which belong to the called row. */
function unbilled({
  origin: _,
  endpoint: __,
  endpoints: ___,
  elsewhere: ____,
  ...outcome
}: CalledOutcome): CalledOutcome {
  const free = { attempts: 0, latency_ms: null };
  if (outcome.status === 'failed') {
    const { completion: _, ...failed } = outcome;
    return { ...failed, ...free };
  }
  if (outcome.status === 'completed')
    return { ...outcome, completion: unpriced(outcome.completion), ...free };
  const { completion } = outcome;
  return { ...outcome, completion: completion && unpriced(completion), ...free };
}

function unpriced({ tier: _, tiers: __, ...completion }: Completion): Completion {
  return { ...completion, usage: null };
}

/** By this run, or by the run whose outcome it took over. */
const paidFor = ({ origin, completion }: CalledOutcome): Usage | null =>
  completion?.usage ?? (origin && 'usage' in origin ? (origin.usage ?? null) : null);

function encodeOutcome({ row, request, number, run, outcome }: Omit<StoredOutcome, 'usage'>): string {
  return `${JSON.stringify([row, request, number, run, unbilled(outcome), paidFor(outcome)])}\n`;
}

const key = z.string().length(16).nullable();
const line = z.tuple([
  key,
  key,
  z.int().positive(),
  z.string().min(1),
  z.custom<CalledOutcome>(isOutcome),
  z.custom<Usage | null>((value) => typeof value === 'object'),
]);

/** Null for a foreign or torn line. */
function decodeOutcome(text: string): StoredOutcome | null {
  const parsed = line.safeParse(parseJson(text));
  if (!parsed.success) return null;
  const [row, request, number, run, outcome, usage] = parsed.data;
  return { row, request, number, run, outcome, usage };
}

/** Promptmill wrote it, so checking the members is enough. */
function isOutcome(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('status' in value)) return false;
  const isSet = (name: string): boolean => typeof Reflect.get(value, name) === 'object';
  if (value.status === 'completed') return isSet('completion') && isSet('filters');
  if (value.status === 'filtered') return isSet('completion') && isSet('filters') && isSet('error');
  return value.status === 'failed' && isSet('error');
}

/** Initial buffer for a line, in bytes. */
const LINE = 4096;

const LF = 0x0a;

/** Called for each outcome in order; false stops the scan. */
type OnStoredOutcome = (kept: StoredOutcome, at: number, end: number) => boolean;

/** Skips invalid lines, such as one torn by a crash. */
export async function scan(path: string, onKept: OnStoredOutcome): Promise<void> {
  let rest: Buffer = Buffer.alloc(0);
  let base = 0;
  for await (const piece of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
    const data: Buffer = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    let from = 0;
    for (let end = data.indexOf(LF); end !== -1; end = data.indexOf(LF, from)) {
      const kept = decodeOutcome(data.toString('utf8', from, end));
      if (kept !== null && !onKept(kept, base + from, base + end + 1)) return;
      from = end + 1;
    }
    base += from;
    rest = data.subarray(from);
  }
}

/** What is open stays readable when the file is replaced. */
export class OutcomeReader {
  readonly #file: number;
  #isOpen = true;
  #buffer = Buffer.alloc(LINE);

  constructor(private readonly path: string) {
    this.#file = openSync(path, 'r');
  }

  /**
   * Synchronous: mostly cached by the system, some 10 µs.
   * @throws StopError when the file has changed
   */
  at(place: number): StoredOutcome {
    for (;;) {
      const bytes = readSync(this.#file, this.#buffer, 0, this.#buffer.length, place);
      const end = this.#buffer.subarray(0, bytes).indexOf(LF);
      const kept = end === -1 ? null : decodeOutcome(this.#buffer.toString('utf8', 0, end));
      if (kept !== null) return kept;
      if (end !== -1 || bytes < this.#buffer.length) throw this.#damaged(place);
      this.#buffer = Buffer.alloc(this.#buffer.length * 2);
    }
  }

  #damaged(place: number): StopError {
    return new StopError(
      'outcomes_damaged',
      `${this.path} has no outcome at byte ${place}, and it had one when the run began.`,
      'Run the same command again: it calls the missing rows.',
    );
  }

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

export class OutcomeFile {
  #isOpen = true;

  private constructor(
    private readonly file: PartFile,
    private readonly reader: OutcomeReader,
  ) {}

  /**
   * Cuts off rows that were not committed.
   * @param rows committed rows
   * @param onKept called for each remaining outcome
   * @throws WriteError
   */
  static async open(
    path: string,
    rows: number,
    onKept: (kept: StoredOutcome, at: number) => void,
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
   * @returns the place of each, once they are durable
   * @throws WriteError; then none of them counts
   */
  async append(kept: readonly Omit<StoredOutcome, 'usage'>[]): Promise<readonly number[]> {
    if (kept.length === 0) return [];
    let end = this.file.bytes;
    const lines = kept.map(encodeOutcome);
    const places = lines.map((line) => {
      const at = end;
      end += Buffer.byteLength(line);
      return at;
    });
    await this.file.commit(lines.join(''));
    return places;
  }

  at(place: number): StoredOutcome {
    return this.reader.at(place);
  }

  /** Marks the file with its run, for whoever finds it under its final name. */
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

export const isFinishedBy = (reader: OutcomeReader, run: string): boolean => {
  const line = finishedLine(run);
  return reader.tail(line.length) === line;
};

const folderOf = (stateDir: string): string => join(stateDir, 'reuse');

/** @param run from a file that anyone may have edited: as a path it would lead elsewhere */
export const outcomesPath = (stateDir: string, run: string): string =>
  join(folderOf(stateDir), `${run.replace(/[^\w-]/g, '_')}.jsonl`);

/** Suffix of {@link answeredPath}; other files belong to unfinished runs. */
export const ANSWERED = '.answered.jsonl';

/**
 * What the job's last finished run answered.
 * @param where the service's address; null for a rehearsal, which must not replace real answers
 */
export function answeredPath(stateDir: string, job: string, where: string | null): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([job, where]))
    .digest('hex');
  return join(folderOf(stateDir), `${job.replace(/[^\w.-]/g, '_')}-${hash.slice(0, 8)}${ANSWERED}`);
}

/** @throws UsageError when the state directory is not writable */
export async function dropOutcomes(stateDir: string, run: string): Promise<void> {
  try {
    await rm(outcomesPath(stateDir, run), { force: true });
  } catch (error) {
    throw cannotStore(stateDir, error);
  }
}

export const cannotStore = (stateDir: string, error: unknown): UsageError =>
  new UsageError(
    'bad_state_dir',
    `cannot keep outcomes in the state directory ${stateDir}: ${errorText(error)}`,
    'Make it writable, or name another one with PROMPTMILL_STATE_DIR.',
    { cause: error },
  );
