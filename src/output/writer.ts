import { type FileHandle, open } from 'node:fs/promises';

/** Appends text whose bytes are on disk when a commit returns. */
export interface RecordWriter {
  /** Bytes committed so far. */
  readonly bytes: number;
  /** Appends, and returns when the text is durable (a file) or handed over (a stream). */
  commit(text: string): Promise<void>;
  close(): Promise<void>;
}

/** The part file of an output. What a crash left behind the last commit is cut off when it is opened. */
export class PartFile implements RecordWriter {
  private constructor(
    private readonly file: FileHandle,
    private position: number,
  ) {}

  /** @param bytes what the manifest says of the file: everything behind is not trusted (fault 50) */
  static async open(path: string, bytes: number): Promise<PartFile> {
    const file = await open(path, bytes === 0 ? 'w' : 'r+');
    await file.truncate(bytes);
    return new PartFile(file, bytes);
  }

  get bytes(): number {
    return this.position;
  }

  async commit(text: string): Promise<void> {
    const data = Buffer.from(text);
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
    this.position += data.length;
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}

/** Standard output as the output of a run: nothing to resume, nothing to rename. */
export class StreamWriter implements RecordWriter {
  #bytes = 0;

  constructor(private readonly stream: NodeJS.WritableStream) {
    // A closed reader is told to whoever writes; without a listener it would end the process as well (fault 51).
    stream.on('error', () => {});
  }

  get bytes(): number {
    return this.#bytes;
  }

  async commit(text: string): Promise<void> {
    if (text === '') return;
    await new Promise<void>((resolve, reject) => {
      this.stream.write(text, (error) => (error ? reject(error) : resolve()));
    });
    this.#bytes += Buffer.byteLength(text);
  }

  async close(): Promise<void> {}
}
