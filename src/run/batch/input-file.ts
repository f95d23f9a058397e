import { type FileHandle, open } from 'node:fs/promises';
import type { Tokens } from '../../core/model.js';
import { PIECE } from '../../output/packing.js';
import { syncFile } from '../../output/plain-file.js';
import { writing } from '../../output/writer.js';
import { NO_TOKENS, plus } from '../../pace/budget.js';

/** A request as a line of an input file. */
export interface RequestLine {
  readonly text: string;
  readonly bytes: number;
  /** Of the prompt, as the service enqueues them; 0 where nobody asks. */
  readonly enqueued: number;
  /** Most that it can be billed, as the budget counts. */
  readonly most: Tokens;
}

/** An input file while its lines are written. */
export class InputFile {
  requests = 0;
  bytes = 0;
  enqueued = 0;
  most: Tokens = NO_TOKENS;
  #lines: string[] = [];
  #held = 0;

  private constructor(
    readonly name: string,
    private readonly path: string,
    private readonly file: FileHandle,
  ) {}

  /** @throws WriteError */
  static async create(path: string, name: string): Promise<InputFile> {
    return await writing(path, async () => new InputFile(name, path, await open(path, 'w', 0o600)));
  }

  /** @throws WriteError */
  async add({ text, bytes, enqueued, most }: RequestLine): Promise<void> {
    this.requests++;
    this.bytes += bytes;
    this.enqueued += enqueued;
    this.most = plus(this.most, most);
    this.#lines.push(text);
    this.#held += bytes;
    if (this.#held >= PIECE) await this.#flush();
  }

  /** On disk when it resolves. @throws WriteError */
  async seal(): Promise<void> {
    try {
      await this.#flush();
      await writing(this.path, () => syncFile(this.file));
    } finally {
      await this.file.close();
    }
  }

  async abandon(): Promise<void> {
    await this.file.close();
  }

  async #flush(): Promise<void> {
    const text = this.#lines.join('');
    [this.#lines, this.#held] = [[], 0];
    await writing(this.path, async () => {
      await this.file.appendFile(text);
    });
  }
}
