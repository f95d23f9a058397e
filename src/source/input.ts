import type { Row } from '../core/model.js';

export interface InputSpec {
  readonly path: string;
  /** For messages, such as `standard input`. @default the path */
  readonly name?: string;
  /** Name of a format. @default by the file's name */
  readonly format?: string;
  /** As iconv-lite names it. @default the byte-order mark's, else UTF-8 */
  readonly encoding?: string;
  /** Between cells; ignored for JSONL. @default detected; prefers `,` for CSV and a tab for TSV */
  readonly delimiter?: string;
}

export interface InputFormat {
  /** As in `--format` and `input.format`. */
  readonly name: string;
  /** Each also with `.gz`. */
  readonly endings: readonly string[];
  /** Whether columns are named before the rows. Otherwise they are the keys of the rows. */
  readonly hasHeader: boolean;
  /** Whether values are any JSON, which a template may reach into. Otherwise they are texts. */
  readonly hasJson: boolean;
  /** In batches. @param bytes inflated. @throws UsageError for what is not of this format */
  read(bytes: AsyncIterable<Buffer>, spec: InputSpec, listener: FindingsListener): AsyncGenerator<Row[]>;
}

export interface FindingsListener {
  /** Once, before the first row, if the format has a header. */
  onColumns(columns: readonly string[]): void;
  /** For people; only if the file is read differently than its name says. */
  onNote(note: string): void;
}

export function nameOf(spec: InputSpec): string {
  return spec.name ?? spec.path;
}
