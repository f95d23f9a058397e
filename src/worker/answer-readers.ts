import { type AnswerReader, answerReader } from '../answer/answer.js';
import type { AnswerSpec } from '../answer/answer-spec.js';

/** Kinds of answers that a process knows how to read at a time: one for each of its runs, as a rule. */
const MOST = 16;

/** What reads the answers of chunks. To make one takes long where there are thousands of labels, or a large schema. */
export class AnswerReaders {
  /** By the JSON of what is expected; the one that was asked for last is the last. */
  readonly #readers = new Map<string, AnswerReader>();

  /** @throws for what no job can expect of an answer */
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
