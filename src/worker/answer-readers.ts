import { type AnswerReader, answerReader } from '../answer/answer.js';
import type { AnswerSpec } from '../answer/answer-spec.js';

/** Readers cached at a time: usually one for each run. */
const MOST = 16;

/** Readers by answer spec, cached because one for thousands of labels or a large schema is slow to build. */
export class AnswerReaders {
  /** By the JSON of the spec, least recently used first. */
  readonly #readers = new Map<string, AnswerReader>();

  /** @throws for a spec of unknown kind */
  of(spec: AnswerSpec): AnswerReader {
    const key = JSON.stringify(spec);
    const reader: AnswerReader | undefined = this.#readers.get(key) ?? answerReader(spec);
    if (reader === undefined) throw new Error(`no answer is of the kind ${key.slice(0, 100)}`);
    this.#readers.delete(key);
    this.#readers.set(key, reader);
    const [oldest = ''] = this.#readers.keys();
    if (this.#readers.size > MOST) this.#readers.delete(oldest);
    return reader;
  }
}
