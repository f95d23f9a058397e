import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { StopError, UsageError } from '../../core/errors.js';
import { UNKNOWN_TEXT } from '../ledger.js';
import type { Change, OutcomeLocation } from './ledger-state.js';

/** The first line. Raise the number with every change of what the lines mean. */
const HEADER = Buffer.from('promptmill ledger 1\n');
/** Follows the file's name in the names of its drafts. */
const DRAFT = '.new';
/** A line begins with the checksum of the rest, in hexadecimal, and its kind. */
const CHECKSUM = 8;
const UNSIGNED = ' '.repeat(CHECKSUM);
const CHANGE = ' ';
const OUTCOME = '+';
/** Bytes of a line before its text, and the byte that ends it. */
const BEFORE = CHECKSUM + 1;
const LINE_END = 10;
const BLOCK = 2 ** 18;

/**
 * The ledger's changes in order, one line of JSON each, after a line for each outcome that the change brings.
 * All lines of a change are one write: what a killed process leaves of one lacks the last line, and the next
 * process cuts it off. A change survives the death of the process but not of the machine, because it is not
 * synced. A file that replaces another is synced, because the old one may have been on disk for long.
 */
export class LedgerFile {
  /** Null once closed: the system gives the number to another file. */
  #descriptor: number | null;
  #isTorn = false;

  private constructor(
    descriptor: number,
    private readonly path: string,
    /** Bytes written in full. */
    private size: number,
    /** Name while it is a draft. */
    private readonly draftPath = path,
  ) {
    this.#descriptor = descriptor;
  }

  /**
   * Begins a file that takes the place of `path` only with `put`. Until then it has a name of its own: a
   * process that was frozen over its draft, and wakes, cannot touch the file of the one that took over.
   */
  static draft(path: string): LedgerFile {
    const draftPath = `${path}${DRAFT}-${randomBytes(6).toString('hex')}`;
    const file = new LedgerFile(openSync(draftPath, 'w+', 0o600), path, 0, draftPath);
    try {
      file.#write(HEADER);
      return file;
    } catch (error) {
      file.discard();
      throw error;
    }
  }

  static begin(path: string): void {
    const file = LedgerFile.draft(path);
    file.put();
    file.close();
  }

  put(): void {
    fsyncSync(this.#open);
    renameSync(this.draftPath, this.path);
  }

  discard(): void {
    this.close();
    rmSync(this.draftPath, { force: true });
  }

  /** Removes drafts of processes that were killed or have lost the folder to this one. */
  static sweep(path: string): void {
    const folder = dirname(path);
    for (const name of readdirSync(folder)) {
      if (name.startsWith(`${basename(path)}${DRAFT}`)) rmSync(join(folder, name), { force: true });
    }
  }

  /** @throws UsageError when it is damaged, or of another version */
  static open(
    path: string,
    onChange: (change: Change, places: readonly OutcomeLocation[]) => void,
  ): LedgerFile {
    const descriptor = openSync(path, 'r+');
    try {
      const file = new LedgerFile(descriptor, path, 0);
      file.size = file.#replay(onChange);
      ftruncateSync(descriptor, file.size);
      return file;
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
  }

  get bytes(): number {
    return this.size;
  }

  /** All or nothing. @param outcomes JSON without line breaks */
  append(change: Change, outcomes: readonly string[] = []): OutcomeLocation[] {
    const texts = outcomes.map((outcome) => lineOf(OUTCOME, outcome));
    texts.push(lineOf(CHANGE, JSON.stringify(change)));
    const bytes = signed(Buffer.from(texts.join('')));
    const places = this.#placesIn(
      bytes,
      outcomes.length,
      (i) => outcomes[i]?.includes(UNKNOWN_TEXT) ?? false,
    );
    this.#write(bytes);
    return places;
  }

  /** The same with outcomes of another file. */
  copy(change: Change, from: LedgerFile, outcomes: readonly OutcomeLocation[]): OutcomeLocation[] {
    const last = signed(Buffer.from(lineOf(CHANGE, JSON.stringify(change))));
    const bytes = Buffer.concat([...outcomes.map((place) => from.#lineAt(place)), last]);
    const places = this.#placesIn(bytes, outcomes.length, (i) => outcomes[i]?.isUnknown ?? false);
    this.#write(bytes);
    return places;
  }

  /** @throws StopError when the outcome is not there as written */
  read(place: OutcomeLocation): string {
    return this.#lineAt(place).toString('utf8', BEFORE, BEFORE + place.bytes);
  }

  close(): void {
    const descriptor = this.#descriptor;
    this.#descriptor = null;
    if (descriptor !== null) closeSync(descriptor);
  }

  get #open(): number {
    if (this.#descriptor === null) throw new Error('the ledger is closed');
    return this.#descriptor;
  }

  #placesIn(bytes: Buffer, lines: number, isUnknown: (i: number) => boolean): OutcomeLocation[] {
    const places: OutcomeLocation[] = [];
    let begin = 0;
    for (let i = 0; i < lines; i++) {
      const end = bytes.indexOf(LINE_END, begin);
      const offset = this.size + begin + BEFORE;
      places.push({ offset, bytes: end - begin - BEFORE, isUnknown: isUnknown(i), own: null });
      begin = end + 1;
    }
    return places;
  }

  #write(bytes: Buffer): void {
    if (this.#isTorn) this.#takeBack();
    this.#isTorn = true;
    try {
      for (let at = 0; at < bytes.length; ) {
        at += writeSync(this.#open, bytes, at, bytes.length - at, this.size + at);
      }
    } catch (error) {
      this.#takeBack();
      throw error;
    }
    this.#isTorn = false;
    this.size += bytes.length;
  }

  /** Cuts off what was written of an incomplete change. */
  #takeBack(): void {
    ftruncateSync(this.#open, this.size);
    this.#isTorn = false;
  }

  #lineAt({ offset, bytes }: OutcomeLocation): Buffer {
    const line = Buffer.alloc(BEFORE + bytes + 1);
    let at = 0;
    for (let read = -1; at < line.length && read !== 0; at += read) {
      read = readSync(this.#open, line, at, line.length - at, offset - BEFORE + at);
    }
    if (at < line.length || textOf(line.subarray(0, -1)) === null) {
      const message = `${this.path}, in which the queue keeps answers, was damaged while the run went on.`;
      throw new StopError('queue_damaged', message, 'Run the same command: it says what to do.');
    }
    return line;
  }

  /** @returns where the last whole change ends */
  #replay(onChange: (change: Change, places: readonly OutcomeLocation[]) => void): number {
    const block = Buffer.allocUnsafe(BLOCK);
    let places: OutcomeLocation[] = [];
    /** The incomplete line read so far, which begins at `offset`. */
    let rest: Buffer = Buffer.alloc(0);
    let offset = 0;
    let whole = 0;
    for (;;) {
      const read = readSync(this.#open, block, 0, BLOCK, offset + rest.length);
      if (read === 0) break;
      const bytes = Buffer.concat([rest, block.subarray(0, read)]);
      let begin = 0;
      let end = bytes.indexOf(LINE_END, rest.length);
      for (; end >= 0; end = bytes.indexOf(LINE_END, begin)) {
        const line = bytes.subarray(begin, end);
        if (offset + begin === 0) assertHeader(this.path, line);
        else {
          const text = textOf(line);
          if (text === null) throw damaged(this.path, offset + begin, 'a checksum is wrong');
          if (line[CHECKSUM] === OUTCOME.charCodeAt(0)) {
            const place = { offset: offset + begin + BEFORE, bytes: text.length };
            places.push({ ...place, isUnknown: text.includes(UNKNOWN_TEXT), own: null });
          } else {
            onChange(JSON.parse(text.toString('utf8')), places);
            places = [];
          }
        }
        begin = end + 1;
        if (places.length === 0) whole = offset + begin;
      }
      rest = bytes.subarray(begin);
      offset += begin;
    }
    if (offset === 0) assertHeader(this.path, rest);
    return whole;
  }
}

const lineOf = (kind: string, text: string): string => `${UNSIGNED}${kind}${text}\n`;

/** Writes the checksum of each line into its start. */
function signed(lines: Buffer): Buffer {
  for (let begin = 0; begin < lines.length; ) {
    const end = lines.indexOf(LINE_END, begin);
    lines.write(checksumOf(lines.subarray(begin + CHECKSUM, end)), begin, 'latin1');
    begin = end + 1;
  }
  return lines;
}

/** Null when the checksum does not match. */
function textOf(line: Buffer): Buffer | null {
  const checksum = line.toString('latin1', 0, CHECKSUM);
  return checksum === checksumOf(line.subarray(CHECKSUM)) ? line.subarray(BEFORE) : null;
}

const checksumOf = (bytes: Buffer): string => crc32(bytes).toString(16).padStart(CHECKSUM, '0');

function assertHeader(path: string, line: Buffer): void {
  if (line.equals(HEADER.subarray(0, -1))) return;
  if (!line.toString('latin1').startsWith('promptmill ledger ')) throw damaged(path, 0, 'it has no header');
  throw new UsageError(
    'bad_state_dir',
    `${path} is of another version of Promptmill`,
    'Finish its runs with that version, or name another directory with PROMPTMILL_STATE_DIR.',
  );
}

const damaged = (path: string, offset: number, what: string): UsageError =>
  new UsageError(
    'bad_state_dir',
    `cannot keep the queue in ${path}: it is damaged at byte ${offset}; ${what}`,
    'Put it back from a copy. Without one, remove the folder that it is in: what is in the output stays, and answers that are not are called again.',
  );
