import { closeSync, createReadStream, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { StopError } from '../errors.js';
import { PartFile } from '../output/writer.js';
import { decodeKept, encodeKept, type Kept } from './outcome.js';

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
