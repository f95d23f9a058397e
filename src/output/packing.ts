/** Compresses or converts the records of a finished output. The part file always holds them plain. */
export interface Packing {
  /** Follows the ending of the format: `out.csv.gz`. */
  readonly ending: string;
  /** Deterministic: the same records give the same bytes. */
  pack(records: AsyncIterable<Buffer>): AsyncGenerator<Buffer>;
  /**
   * @param path for errors
   * @throws UsageError `output_damaged` for a file that is cut off, is not sound, or has other data behind it
   */
  unpack(file: AsyncIterable<Buffer>, path: string): AsyncGenerator<Buffer>;
}

/** Bytes read and written at a time. */
export const PIECE = 1024 * 1024;
