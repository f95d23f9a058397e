import { closeSync, createReadStream, existsSync, openSync, readSync } from 'node:fs';
import { NO_USAGE, withUsage } from '../../account/tally.js';
import { parseResultLine } from '../../batch/result-line.js';
import { isObject, parseJson } from '../../core/json.js';
import type { Usage } from '../../core/model.js';
import { jsonl } from '../../output/jsonl.js';
import { recordsWithEnds } from '../../output/reader.js';
import { usageOf } from '../../service/response.js';

/** Where the line of a row is: 13 bytes a row. */
interface Places {
  readonly offsets: Float64Array;
  readonly lengths: Uint32Array;
  /** Number of the file from 1; 0: the row has no line. */
  readonly files: Uint8Array;
}

/** The lines of a batch's output and error files, by row. The order of the lines says nothing. */
export class BatchResults {
  private constructor(
    private readonly first: number,
    private readonly places: Places,
    private readonly open: readonly (number | null)[],
    /** Rows with an answer. */
    readonly answered: number,
    /** What the answers were billed, as far as they say it. */
    readonly billed: Usage,
    /** Whether all of them say it. */
    readonly isMetered: boolean,
  ) {}

  /**
   * @param paths those that exist
   * @param rows the first and the last that may be in them
   */
  static async of(paths: readonly string[], [first, last]: readonly [number, number]): Promise<BatchResults> {
    const size = last - first + 1;
    const places = {
      ...{ offsets: new Float64Array(size), lengths: new Uint32Array(size), files: new Uint8Array(size) },
    };
    const isAnswer = new Uint8Array(size);
    let answered = 0;
    let billed = NO_USAGE;
    let isMetered = true;
    for (const [i, path] of paths.entries()) {
      if (!existsSync(path)) continue;
      let end = 0;
      for await (const bytes of recordsIn(path)) {
        const at = end;
        end += bytes.length;
        const line = parseResultLine(bytes.toString());
        const place = line === null || !/^\d+$/.test(line.customId) ? -1 : Number(line.customId) - first;
        if (line === null || place < 0 || place >= size) continue;
        const isOk = line.response !== null && line.response.status < 300;
        if (isOk && line.response !== null) {
          const usage = usageIn(line.response.body);
          if (usage === null) isMetered = false;
          else billed = withUsage(billed, usage);
        }
        // An answer wins over an error, and the first over a second.
        if (places.files[place] !== 0 && (!isOk || isAnswer[place] === 1)) continue;
        if (isOk) {
          isAnswer[place] = 1;
          answered++;
        }
        places.offsets[place] = at;
        places.lengths[place] = bytes.length;
        places.files[place] = i + 1;
      }
    }
    const open = paths.map((path) => (existsSync(path) ? openSync(path, 'r') : null));
    return new BatchResults(first, places, open, answered, billed, isMetered);
  }

  /** Null when there is none. */
  lineOf(row: number): string | null {
    const place = row - this.first;
    const file = this.open[(this.places.files[place] ?? 0) - 1] ?? null;
    if (file === null) return null;
    const bytes = Buffer.alloc(this.places.lengths[place] ?? 0);
    readSync(file, bytes, 0, bytes.length, this.places.offsets[place] ?? 0);
    return bytes.toString('utf8');
  }

  close(): void {
    for (const file of this.open) if (file !== null) closeSync(file);
  }
}

async function* recordsIn(path: string): AsyncGenerator<Buffer> {
  for await (const records of recordsWithEnds(createReadStream(path), jsonl)) yield* records;
}

function usageIn(body: string): Usage | null {
  const answer = parseJson(body);
  const usage = isObject(answer) ? usageOf(answer['usage'], false, true) : null;
  return usage === 'odd' ? null : usage;
}
