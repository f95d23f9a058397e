import type { Row } from '../model.js';

/** What the reader is told about an input. */
export interface InputSpec {
  readonly path: string;
  /** How messages call the input, for example `standard input`. @default the path */
  readonly name?: string;
  /** Name of a format. @default told by the file's name */
  readonly format?: string;
  /** Name of the text's encoding, as iconv-lite knows it. @default the byte-order mark's, else UTF-8 */
  readonly encoding?: string;
  /** What separates two cells; no meaning for JSONL. @default found out; `,` for CSV, a tab for TSV where nothing speaks against it */
  readonly delimiter?: string;
}

/** A format of the input. All of them are in the list of format.ts. */
export interface InputFormat {
  /** As `--format` and `input.format` give it. */
  readonly name: string;
  /** Endings of its files, each also with `.gz`. */
  readonly endings: readonly string[];
  /** Whether the file names its columns before its rows. Else they are the names that its rows have. */
  readonly hasHeader: boolean;
  /** Whether values are any JSON, into which a template may reach. Else they are texts. */
  readonly hasJson: boolean;
  /**
   * The rows, in batches.
   * @param bytes of the file, inflated
   * @throws UsageError for what cannot be read as this format
   */
  read(bytes: AsyncIterable<Buffer>, spec: InputSpec, listener: FindingsListener): AsyncGenerator<Row[]>;
}

/** Who is told what is found out about an input on the way. */
export interface FindingsListener {
  /** Comes once, before the first row, for a format that has a header. */
  readonly onColumns: (columns: readonly string[]) => void;
  /** What a person should know of how the file is read; only where it is read in another way than its name says. */
  readonly onNote: (note: string) => void;
}

export function nameOf(spec: InputSpec): string {
  return spec.name ?? spec.path;
}
