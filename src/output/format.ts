import { extname } from 'node:path';
import type { AnswerReader } from '../answer/answer.js';
import { either, UsageError } from '../errors.js';
import { csv } from './csv.js';
import { jsonl } from './jsonl.js';
import { plainName } from './output-bytes.js';
import { type OutputFormat, type RecordFormat, recordLayout } from './record.js';
import type { OriginColumn } from './result-columns.js';

/** The formats of the output. All that is said of them elsewhere comes from this list. */
export const OUTPUT_FORMATS: readonly [OutputFormat, ...OutputFormat[]] = [csv, jsonl];

/** `.csv or .jsonl, each also with .gz` */
export const OUTPUT_ENDINGS = `${either(OUTPUT_FORMATS.map(({ endings: [first] }) => first))}, each also with .gz`;

/** The format of an output, by its name; null where the ending is of none. */
export function knownFormatOf(path: string): OutputFormat | null {
  const ending = extname(plainName(path)).toLowerCase();
  return OUTPUT_FORMATS.find(({ endings }) => endings.includes(ending)) ?? null;
}

/** @throws UsageError when the ending is of no format */
export function outputFormatOf(path: string): OutputFormat {
  const format = knownFormatOf(path);
  if (format !== null) return format;
  throw new UsageError(
    'bad_output',
    `output must end in ${OUTPUT_ENDINGS}, got ${path}`,
    'Change output.path in the job file, or give --output.',
  );
}

/** @throws UsageError for an unknown column in `select` */
export function recordFormat(options: {
  readonly format: OutputFormat;
  /** The input's columns, in their order; `null` where they are not known: those that `select` names. */
  readonly inputColumns: readonly string[] | null;
  readonly answer: AnswerReader;
  /** `output.columns`. @default all columns */
  readonly select?: readonly string[] | undefined;
  /** `output.formulas`; CSV only. @default 'protect' */
  readonly formulas?: 'protect' | 'raw' | undefined;
  /** Columns that say where an outcome was taken from. @default none */
  readonly origins?: readonly OriginColumn[] | undefined;
  /** Whether the record says where its answer comes from. @default false */
  readonly answerSource?: boolean | undefined;
  /** Whether the job asks for log probabilities. @default false */
  readonly logprobs?: boolean | undefined;
  /** `output.probabilities`. @default false */
  readonly probabilities?: boolean | undefined;
}): RecordFormat {
  return options.format.records(recordLayout(options), options.formulas ?? 'protect');
}
