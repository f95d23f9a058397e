import { extname } from 'node:path';
import { UsageError } from '../core/errors.js';
import { parseJson } from '../core/json.js';

const HEAD_BYTES = 64 * 1024;

export interface Beginning {
  readonly head: Buffer;
  /** Nothing follows. */
  readonly isAll: boolean;
}

interface LookedAt extends Beginning {
  /** The stream without its first bytes. Readable once. */
  from(skippedBytes: number): AsyncGenerator<Buffer>;
  close(): Promise<void>;
}

export async function readBeginning(bytes: AsyncIterable<Buffer>): Promise<LookedAt> {
  const stream = bytes[Symbol.asyncIterator]();
  const parts: Buffer[] = [];
  let size = 0;
  let isAll = false;
  while (size < HEAD_BYTES && !isAll) {
    const next = await stream.next();
    if (next.done) isAll = true;
    else {
      parts.push(next.value);
      size += next.value.length;
    }
  }
  const head = Buffer.concat(parts);
  return {
    head,
    isAll,
    async *from(skippedBytes) {
      yield head.subarray(skippedBytes);
      for (let next = await stream.next(); !next.done; next = await stream.next()) yield next.value;
    },
    close: async () => void (await stream.return?.()),
  };
}

/** What a file is, if not what it is read as. */
interface Kind {
  readonly code: string;
  /** Follows the file's name: `is an Excel workbook (.xlsx)`. */
  readonly is: string;
  readonly remedy: string;
}

const PARQUET: Kind = {
  code: 'input_is_parquet',
  is: 'is a Parquet file',
  remedy:
    "Convert it to JSON lines or to CSV, for example with duckdb -c \"copy (from 'FILE') to 'rows.jsonl'\", or with pandas.",
};
const UNPACK = 'Unpack it, or compress it with gzip: .csv.gz, .tsv.gz and .jsonl.gz are read as they are.';
const WORKBOOK = 'Save the sheet as "CSV UTF-8" in the spreadsheet program, and use that file.';

const archive = (is: string): Kind => ({
  code: 'input_is_archive',
  is,
  remedy: 'Unpack it, and use the file inside it.',
});
const workbook = (is: string): Kind => ({ code: 'input_is_workbook', is, remedy: WORKBOOK });
const compressed = (by: string): Kind => ({
  code: 'input_is_compressed',
  is: `is compressed with ${by}`,
  remedy: UNPACK,
});

const XLSX = workbook('is an Excel workbook (.xlsx)');
const XLS = workbook('is an old Excel workbook (.xls)');
const ODS = workbook('is an OpenDocument spreadsheet (.ods)');

/** Each beginning has bytes that text never has, so that no header matches. */
const BINARY: readonly (readonly [begins: string, kind: Kind])[] = [
  ['PK\x03\x04', archive('is a zip archive')],
  ['\xd0\xcf\x11\xe0', XLS],
  ['PAR1\x15', PARQUET],
  ['BZh91AY&SY', compressed('bzip2')],
  ['\xfd7zXZ\x00', compressed('xz')],
  ['\x28\xb5\x2f\xfd', compressed('zstd')],
  ['7z\xbc\xaf\x27\x1c', archive('is a 7z archive')],
  [
    '%PDF-',
    {
      code: 'input_is_pdf',
      is: 'is a PDF',
      remedy: 'Use the data that it was made of, as CSV or JSON lines.',
    },
  ],
  [
    'SQLite format 3\x00',
    {
      code: 'input_is_database',
      is: 'is an SQLite database',
      remedy: 'Write the table out as CSV, for example with sqlite3 -header -csv FILE "select * from TABLE".',
    },
  ],
];

/** File names inside a zip archive that is a spreadsheet. */
const SHEETS = [
  ['xl/', XLSX],
  ['opendocument.spreadsheet', ODS],
] as const;

const ENDINGS: ReadonlyMap<string, Kind> = new Map([
  ['.parquet', PARQUET],
  ['.xlsx', XLSX],
  ['.xls', XLS],
  ['.ods', ODS],
]);

/** By its name, if no format reads it; else null. */
export const kindOfName = (path: string): Kind | null => ENDINGS.get(extname(path).toLowerCase()) ?? null;

/**
 * @param head the first bytes, inflated
 * @throws UsageError `input_is_archive`, `input_is_workbook`, `input_is_parquet`, `input_is_compressed`,
 *   `input_is_pdf`, `input_is_database`
 */
export function refuseBinary(head: Buffer, name: string): void {
  const start = head.toString('latin1');
  const found = BINARY.find(([begins]) => start.startsWith(begins));
  if (found === undefined) return;
  const sheet = found[0] === 'PK\x03\x04' ? SHEETS.find(([part]) => start.includes(part)) : undefined;
  throw refusal(name, (sheet ?? found)[1]);
}

const ARRAY: Kind = {
  code: 'input_is_json_array',
  is: 'is one JSON array, where one object a line is expected (JSON lines)',
  remedy: "Turn it into lines, for example with jq -c '.[]' FILE.",
};

const CSV: Kind = {
  code: 'input_is_csv',
  is: 'has CSV in it, and is read as JSON lines',
  remedy: 'Use --format csv (or tsv), or input.format: csv in the job file.',
};

/**
 * @throws UsageError `input_is_html`, `input_is_xml`, `input_is_json_array`, `input_is_json`, `input_is_csv`
 */
export function refuseOtherThanLines(beginning: Beginning, name: string): void {
  const { lines, hasMore } = plainLines(beginning, name);
  if (isTable(lines)) throw refusal(name, CSV);
  if (lines[0]?.trim() !== '{' || !hasMore) return;
  throw refusal(name, {
    code: 'input_is_json',
    is: 'is JSON over several lines, where one object a line is expected (JSON lines)',
    remedy: 'Put each object on a line of its own, for example with jq -c . FILE.',
  });
}

/**
 * @param format that it is read as
 * @throws UsageError `input_is_html`, `input_is_xml`, `input_is_json_array`, `input_is_json_lines`
 */
export function refuseOtherThanTable(beginning: Beginning, format: string, name: string): void {
  const [first = ''] = plainLines(beginning, name).lines;
  if (!first.startsWith('{') || typeof parseJson(first) !== 'object') return;
  throw refusal(name, {
    code: 'input_is_json_lines',
    is: `has JSON lines in it, and is read as ${format.toUpperCase()}`,
    remedy: 'Use --format jsonl, or input.format: jsonl in the job file.',
  });
}

/** The first lines, and whether there is more than one; refuses what no text format is. */
function plainLines({ head, isAll }: Beginning, name: string): { lines: string[]; hasMore: boolean } {
  const text = head.toString('utf8').trimStart();
  if (/^<(?:!doctype html|html|head|body)\b/i.test(text)) {
    throw refusal(name, {
      code: 'input_is_html',
      is: 'is a web page (HTML)',
      remedy: 'Fetch the file again: a login or an error page may have been saved in its place.',
    });
  }
  if (text.startsWith('<?xml')) {
    throw refusal(name, {
      code: 'input_is_xml',
      is: 'is XML',
      remedy: 'Convert it to CSV or to JSON lines.',
    });
  }
  const lines = text.split(/\r\n|\n|\r/, 3);
  const [first = '', ...others] = lines;
  const hasMore = !isAll || others.some((line) => line.trim() !== '');
  if (isArray(text, first, hasMore)) throw refusal(name, ARRAY);
  return { lines, hasMore };
}

/** One array over the whole file; an array on a single line is a bad record (fault 11). */
function isArray(text: string, first: string, hasMore: boolean): boolean {
  if (!/^\[\s*(?:\{|\]\s*$)/.test(text)) return false;
  return !(hasMore && Array.isArray(parseJson(first)));
}

/** Several lines with delimiters, none of them JSON. A single bad line is a bad record (fault 11). */
function isTable(lines: readonly string[]): boolean {
  const [header = '', ...records] = lines.filter((line) => line.trim() !== '');
  if (records.length === 0 || !/[,;\t]/.test(header)) return false;
  return [header, ...records].every((line) => !/^\s*[[{]/.test(line) && parseJson(line) === undefined);
}

function refusal(name: string, { code, is, remedy }: Kind): UsageError {
  return new UsageError(code, `${name} ${is}.`, remedy);
}
