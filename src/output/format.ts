import { extname } from 'node:path';
import { either, UsageError } from '../core/errors.js';
import { batch } from './batch.js';
import { csv } from './csv.js';
import { jsonl } from './jsonl.js';
import { PACKED_ENDINGS, plainName } from './output-bytes.js';
import { type OutputFormat, type RecordFormat, recordLayout } from './record.js';

/** Everything said about output formats elsewhere comes from this list. */
export const OUTPUT_FORMATS: readonly [OutputFormat, ...OutputFormat[]] = [csv, jsonl, batch];

/** `.csv or .jsonl, each also with .gz` */
export const OUTPUT_ENDINGS = `${either([...new Set(OUTPUT_FORMATS.map(({ endings: [first] }) => first))])}, each also with ${either(PACKED_ENDINGS)}`;

/** @param name of one of the formats with this ending. @default the first */
export function knownFormatOf(path: string, name?: string): OutputFormat | null {
  const ending = extname(plainName(path)).toLowerCase();
  const known = OUTPUT_FORMATS.filter(({ endings }) => endings.includes(ending));
  return known.find((format) => format.name === (name ?? format.name)) ?? null;
}

/** @param name `output.format`. @default by the ending. @throws UsageError for another ending */
export function outputFormatOf(path: string, name?: string): OutputFormat {
  const format = knownFormatOf(path, name);
  if (format !== null) return format;
  const named = OUTPUT_FORMATS.find((known) => known.name === name);
  throw new UsageError(
    'bad_output',
    `output${named ? ` with output.format: ${name}` : ''} must end in ${named?.endings[0] ?? OUTPUT_ENDINGS}, got ${path}`,
    'Change output.path in the job file, or give --output.',
  );
}

/** @throws UsageError for an unknown column in `select` */
export function recordFormat(
  options: Parameters<typeof recordLayout>[0] & {
    readonly format: OutputFormat;
    /** `output.formulas`; CSV only. @default 'protect' */
    readonly formulas?: 'protect' | 'raw' | undefined;
  },
): RecordFormat {
  return options.format.records(recordLayout(options), options.formulas ?? 'protect');
}
