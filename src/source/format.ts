import { UsageError } from '../errors.js';

/** What the reader is told about an input. */
export interface InputSpec {
  readonly path: string;
  /** How messages call the input, for example `standard input`. @default the path */
  readonly name?: string;
  /** @default told by the file's name */
  readonly format?: Format;
  /** Name of the text's encoding, as iconv-lite knows it. @default the byte-order mark's, else UTF-8 */
  readonly encoding?: string;
  /** What separates two cells; no meaning for JSONL. @default found out; `,` for CSV, a tab for TSV where nothing speaks against it */
  readonly delimiter?: string;
}

export type Format = 'csv' | 'tsv' | 'jsonl';

const FORMAT_BY_ENDING: ReadonlyMap<string, Format> = new Map([
  ['.csv', 'csv'],
  ['.tsv', 'tsv'],
  ['.jsonl', 'jsonl'],
  ['.ndjson', 'jsonl'],
  ['.json', 'jsonl'],
]);

/**
 * The format an input is read in: the one given, else the one its name tells, with or without `.gz`.
 * @throws UsageError `unknown_format`
 */
export function formatOf(spec: InputSpec): Format {
  if (spec.format !== undefined) return spec.format;
  const plain = spec.path.toLowerCase().replace(/\.gz$/, '');
  const format = FORMAT_BY_ENDING.get(/\.[^./\\]*$/.exec(plain)?.[0] ?? '');
  if (format !== undefined) return format;
  const endings = [...FORMAT_BY_ENDING.keys()].join(', ');
  throw new UsageError(
    'unknown_format',
    spec.path === '-'
      ? 'The format of standard input is unknown: it has no name that tells.'
      : `The format of ${nameOf(spec)} is unknown; known endings are ${endings}, each also with .gz.`,
    'Name the format with --format csv, tsv or jsonl, or with input.format in the job file.',
  );
}

export function nameOf(spec: InputSpec): string {
  return spec.name ?? spec.path;
}
