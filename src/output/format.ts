import { extname } from 'node:path';
import type { AnswerReader } from '../answer/answer.js';
import { either, UsageError } from '../core/errors.js';
import { batch } from './batch.js';
import { csv } from './csv.js';
import { jsonl } from './jsonl.js';
import { PACKED_ENDINGS, plainName } from './output-bytes.js';
import { type OutputFormat, type RecordFormat, type RecordLayout, recordLayout } from './record.js';
import type { OriginColumn } from './result-columns.js';

/** Everything said about output formats elsewhere comes from this list. */
export const OUTPUT_FORMATS: readonly [OutputFormat, ...OutputFormat[]] = [csv, jsonl, batch];

const endingsOf = (formats: readonly OutputFormat[]): string =>
  `${either([...new Set(formats.map(({ endings: [first] }) => first))])}, ${formats.length > 1 ? 'each ' : ''}also with ${either(PACKED_ENDINGS)}`;

/** `.csv or .jsonl, each also with .gz` */
export const OUTPUT_ENDINGS = endingsOf(OUTPUT_FORMATS);

/** @param name of one of the formats with this ending. @default the first */
export function knownFormatOf(path: string, name?: string): OutputFormat | null {
  const ending = extname(plainName(path)).toLowerCase();
  const isMeant = (format: OutputFormat): boolean => name === undefined || format.name === name;
  return OUTPUT_FORMATS.find((format) => isMeant(format) && format.endings.includes(ending)) ?? null;
}

/** @param name `output.format`. @default by the ending. @throws UsageError for another ending */
export function outputFormatOf(path: string, name?: string): OutputFormat {
  const format = knownFormatOf(path, name);
  if (format !== null) return format;
  const named = OUTPUT_FORMATS.filter((known) => known.name === name);
  throw new UsageError(
    'bad_output',
    named.length === 0
      ? `output must end in ${OUTPUT_ENDINGS}, got ${path}`
      : `output.format: ${name} must end in ${endingsOf(named)}, got ${path}`,
    'Change output.path in the job file, or give --output.',
  );
}

/** @throws UsageError for an unknown column in `select` */
export function recordFormat(options: {
  readonly format: OutputFormat;
  /** In input order; `null` if unknown: then those that `select` names. */
  readonly inputColumns: readonly string[] | null;
  readonly answer: AnswerReader;
  /** `output.columns`. @default all columns */
  readonly select?: readonly string[] | undefined;
  /** `output.formulas`; CSV only. @default 'protect' */
  readonly formulas?: 'protect' | 'raw' | undefined;
  /** @default none */
  readonly origins?: readonly OriginColumn[] | undefined;
  /** Whether the record has `answer_source`. @default false */
  readonly answerSource?: boolean | undefined;
  /** @default false */
  readonly logprobs?: boolean | undefined;
  /** `output.probabilities`. @default false */
  readonly probabilities?: boolean | undefined;
  readonly formOf?: RecordLayout['formOf'];
}): RecordFormat {
  return options.format.records(recordLayout(options), options.formulas ?? 'protect');
}
