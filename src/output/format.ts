import { extname } from 'node:path';
import type { AnswerReader } from '../answer/answer.js';
import { either, UsageError } from '../core/errors.js';
import { csv } from './csv.js';
import { jsonl } from './jsonl.js';
import { PACKED_ENDINGS, plainName } from './output-bytes.js';
import { type OutputFormat, type RecordFormat, recordLayout } from './record.js';
import type { OriginColumn } from './result-columns.js';

/** Everything said about output formats elsewhere comes from this list. */
export const OUTPUT_FORMATS: readonly [OutputFormat, ...OutputFormat[]] = [csv, jsonl];

/** `.csv or .jsonl, each also with .gz` */
export const OUTPUT_ENDINGS = `${either(OUTPUT_FORMATS.map(({ endings: [first] }) => first))}, each also with ${either(PACKED_ENDINGS)}`;

export function knownFormatOf(path: string): OutputFormat | null {
  const ending = extname(plainName(path)).toLowerCase();
  return OUTPUT_FORMATS.find(({ endings }) => endings.includes(ending)) ?? null;
}

/** @throws UsageError for an unknown ending */
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
}): RecordFormat {
  return options.format.records(recordLayout(options), options.formulas ?? 'protect');
}
