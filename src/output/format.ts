import type { AnswerReader } from '../answer/answer.js';
import { csvFormat } from './csv.js';
import { jsonlFormat } from './jsonl.js';
import { type RecordFormat, recordLayout } from './record.js';
import type { OriginColumn } from './result-columns.js';

/** @throws UsageError for an unknown column in `select` */
export function recordFormat(options: {
  readonly kind: 'csv' | 'jsonl';
  /** The input's columns, in their order. */
  readonly inputColumns: readonly string[];
  readonly answer: AnswerReader;
  /** `output.columns`. @default all columns */
  readonly select?: readonly string[] | undefined;
  /** `output.formulas`; CSV only. @default 'protect' */
  readonly formulas?: 'protect' | 'raw' | undefined;
  /** Columns that say where an outcome was taken from. @default none */
  readonly origins?: readonly OriginColumn[] | undefined;
  /** Whether the job asks for log probabilities. @default false */
  readonly logprobs?: boolean | undefined;
}): RecordFormat {
  const layout = recordLayout(options);
  return options.kind === 'csv' ? csvFormat(layout, options.formulas ?? 'protect') : jsonlFormat(layout);
}
