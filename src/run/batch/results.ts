import { closeSync, createReadStream, existsSync, openSync, readSync } from 'node:fs';
import { parseResultLine } from '../../batch/result-line.js';
import { parseJson } from '../../core/json.js';
import type { Tokens } from '../../core/model.js';

type BatchUsage = Tokens & { readonly cached_tokens: number };

const NO_USAGE: BatchUsage = { prompt_tokens: 0, completion_tokens: 0, cached_tokens: 0 };

/** Where the line of a row is: 13 bytes a row. */
interface Places {
  readonly offsets: Float64Array;
  readonly lengths: Uint32Array;
  /** Number of the file from 1; 0: the row has no line. */
  readonly files: Uint8Array;
}

const NEWLINE = 0x0a;

/** The lines of a batch's output and error files, by row. The order of the lines says nothing. */
export class BatchResults {
  private constructor(
    private readonly first: number,
    private readonly places: Places,
    private readonly open: readonly (number | null)[],
    /** Rows with an answer. */
    readonly answered: number,
    /** What the answers were billed. */
    readonly billed: BatchUsage,
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
    let billed: BatchUsage = NO_USAGE;
    for (const [i, path] of paths.entries()) {
      if (!existsSync(path)) continue;
      for await (const { text, at, length } of linesIn(path)) {
        const line = parseResultLine(text);
        const place = line === null || !/^\d+$/.test(line.customId) ? -1 : Number(line.customId) - first;
        if (line === null || place < 0 || place >= size) continue;
        const isOk = line.response !== null && line.response.status < 300;
        if (isOk && line.response !== null) billed = added(billed, usageIn(line.response.body));
        // An answer wins over an error, and the first over a second.
        if (places.files[place] !== 0 && (!isOk || isAnswer[place] === 1)) continue;
        if (isOk) {
          isAnswer[place] = 1;
          answered++;
        }
        places.offsets[place] = at;
        places.lengths[place] = length;
        places.files[place] = i + 1;
      }
    }
    const open = paths.map((path) => (existsSync(path) ? openSync(path, 'r') : null));
    return new BatchResults(first, places, open, answered, billed);
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

async function* linesIn(
  path: string,
): AsyncGenerator<{ readonly text: string; readonly at: number; readonly length: number }> {
  let rest: Buffer[] = [];
  let at = 0;
  let held = 0;
  const take = function* (end: Buffer) {
    const bytes = rest.length === 0 ? end : Buffer.concat([...rest, end]);
    if (bytes.length > 0) yield { text: bytes.toString('utf8'), at, length: bytes.length };
    at += bytes.length + 1;
    [rest, held] = [[], 0];
  };
  for await (const chunk of createReadStream(path, { highWaterMark: 256 * 1024 }) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let to = chunk.indexOf(NEWLINE); to !== -1; to = chunk.indexOf(NEWLINE, from)) {
      yield* take(chunk.subarray(from, to));
      from = to + 1;
    }
    if (from < chunk.length) {
      rest.push(chunk.subarray(from));
      held += chunk.length - from;
    }
  }
  if (held > 0) yield* take(Buffer.alloc(0));
}

const added = (a: BatchUsage, b: BatchUsage): BatchUsage => ({
  prompt_tokens: a.prompt_tokens + b.prompt_tokens,
  completion_tokens: a.completion_tokens + b.completion_tokens,
  cached_tokens: a.cached_tokens + b.cached_tokens,
});

function usageIn(body: string): BatchUsage {
  const answer = parseJson(body);
  const usage = isObject(answer) ? answer['usage'] : null;
  if (!isObject(usage)) return NO_USAGE;
  const { prompt_tokens: prompt, completion_tokens: completion = 0, prompt_tokens_details: details } = usage;
  if (!Number.isSafeInteger(prompt) || !Number.isSafeInteger(completion)) return NO_USAGE;
  const cached = isObject(details) ? details['cached_tokens'] : null;
  return {
    ...{ prompt_tokens: Number(prompt), completion_tokens: Number(completion) },
    cached_tokens: Number.isSafeInteger(cached) ? Number(cached) : 0,
  };
}

const isObject = (value: unknown): value is { readonly [name: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
