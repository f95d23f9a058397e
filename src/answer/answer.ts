import type { Answer, AnswerSpec } from '../model.js';
import { jsonReader } from './json-answer.js';
import { labelReader } from './label-answer.js';
import { numberReader } from './number-answer.js';
import { cleaned } from './text.js';

/** Reads the answer of a row out of the text of its completion. */
export interface AnswerReader {
  /** Names of the answer's values: `answer`, or the top-level properties of the JSON Schema in its order. */
  readonly columns: readonly string[];
  /** `value`: the answer is the one value. `labels`: it is a list of labels. `object`: it is an object with the columns as members. */
  readonly shape: 'value' | 'labels' | 'object';
  read(text: string | null): Answer;
}

/** @throws UsageError when the schema is no JSON Schema */
export function answerReader(spec: AnswerSpec): AnswerReader {
  switch (spec.kind) {
    case 'text': {
      const read = (text: string | null): Answer => ({ values: [cleaned(text)], counted: [], fault: null });
      return { columns: ['answer'], shape: 'value', read };
    }
    case 'labels':
      return { columns: ['answer'], shape: spec.multiple ? 'labels' : 'value', read: labelReader(spec) };
    case 'number':
      return { columns: ['answer'], shape: 'value', read: numberReader(spec) };
    case 'json': {
      const { properties, read } = jsonReader(spec.schema);
      if (properties.length === 0) return { columns: ['answer'], shape: 'value', read };
      return { columns: properties, shape: 'object', read };
    }
  }
}
