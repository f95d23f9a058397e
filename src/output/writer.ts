import { type FileHandle, open } from 'node:fs/promises';
import { WriteError, writing } from './write-error.js';

/** Appends text whose bytes are on disk when a commit returns. */
export interface RecordWriter {
  /** Bytes committed so far. */
  readonly bytes: number;
  /**
   * Appends, and returns when the text is durable (a file) or handed over (a stream).
   * @throws WriteError; then none of the text counts
   */
  commit(text: string): Promise<void>;
  close(): Promise<void>;
}

/** The part file of an output. What a crash left behind the last commit is cut off when it is opened. */
export class PartFile implements RecordWriter {
  private constructor(
    private readonly path: string,
    private readonly file: FileHandle,
    private position: number,
  ) {}

  /**
   * @param bytes what the manifest says of the file: everything behind is not trusted (fault 50)
   * @throws WriteError
   */
  static async open(path: string, bytes: number): Promise<PartFile> {
    return await writing(path, async () => {
      const file = await open(path, bytes === 0 ? 'w' : 'r+');
      await file.truncate(bytes);
      return new PartFile(path, file, bytes);
    });
  }

  get bytes(): number {
    return this.position;
  }

  async commit(text: string): Promise<void> {
    const data = Buffer.from(text);
    await writing(this.path, async () => {
      let written = 0;
      while (written < data.length) {
        const { bytesWritten } = await this.file.write(
          data,
          written,
          data.length - written,
          this.position + written,
        );
        written += bytesWritten;
      }
      await this.file.datasync();
    });
    this.position += data.length;
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}

/** Standard output as the output of a run: nothing to resume, nothing to rename. */
export class StreamWriter implements RecordWriter {
  #bytes = 0;

  /** @param header goes out with the first commit, so that a reader who is gone already is met there (fault 51) */
  constructor(
    private readonly stream: NodeJS.WritableStream,
    private header: string,
  ) {
    // A closed reader is told to whoever writes; without a listener it would end the process as well (fault 51).
    stream.on('error', () => {});
  }

  get bytes(): number {
    return this.#bytes;
  }

  async commit(text: string): Promise<void> {
    const data = this.header + text;
    if (data === '') return;
    await new Promise<void>((resolve, reject) => {
      this.stream.write(data, (error) =>
        error ? reject(new WriteError('standard output', error)) : resolve(),
      );
    });
    this.header = '';
    this.#bytes += Buffer.byteLength(data);
  }

  async close(): Promise<void> {}
}
