import type { Answer, AnswerSpec } from '../model.js';
import { confidenceReader } from './confidence.js';
import { jsonReader } from './json-answer.js';
import { labelReader, namesOf } from './label-answer.js';
import { numberReader } from './number-answer.js';
import { cleaned, type ReadFrom } from './text.js';

/** Reads the answer of a row out of its completion. */
export interface AnswerReader {
  /** Names of the answer's values: `answer`, or the top-level properties of the JSON Schema in its order. */
  readonly columns: readonly string[];
  /** `value`: the answer is the one value. `labels`: it is a list of labels. `object`: it is an object with the columns as members. */
  readonly shape: 'value' | 'labels' | 'object';
  /** The labels for which the job asks how sure the model is; absent where it does not ask. */
  readonly confidenceOf?: readonly string[];
  /** Whether labels are left out of which the model is not sure enough. @default false */
  readonly abstains?: boolean;
  read(completion: ReadFrom): Answer;
}

/** @throws UsageError when the schema is no JSON Schema */
export function answerReader(spec: AnswerSpec): AnswerReader {
  switch (spec.kind) {
    case 'text': {
      const read = ({ text }: ReadFrom): Answer => ({ values: [cleaned(text)], counted: [], fault: null });
      return { columns: ['answer'], shape: 'value', read };
    }
    case 'labels': {
      const read = labelReader(spec);
      const shape = spec.multiple ? 'labels' : 'value';
      return withConfidence({ columns: ['answer'], shape, read: ({ text }) => read(text) }, spec);
    }
    case 'number': {
      const read = numberReader(spec);
      return { columns: ['answer'], shape: 'value', read: ({ text }) => read(text) };
    }
    case 'json': {
      const { properties, read } = jsonReader(spec.schema);
      if (properties.length === 0) return { columns: ['answer'], shape: 'value', read };
      return { columns: properties, shape: 'object', read };
    }
  }
}

/** Whether labels are left out of which the model is not sure enough: such a run has a file for review. */
export const abstains = (spec: AnswerSpec): boolean =>
  spec.kind === 'labels' && spec.abstainBelow !== undefined;

/** What the summary counts where the model was not sure enough. */
const ABSTAINED = '(abstained)';

/** Reads how sure the model is as well, where the job asks, and leaves out labels of which it is not sure enough. */
function withConfidence(reader: AnswerReader, spec: Extract<AnswerSpec, { kind: 'labels' }>): AnswerReader {
  const { labels, confidence, abstainBelow } = spec;
  if (confidence === undefined) return reader;
  const confidenceIn = confidenceReader(namesOf(spec));
  return {
    ...reader,
    confidenceOf: labels,
    abstains: abstains(spec),
    read(completion) {
      const answer = reader.read(completion);
      const [label] = answer.values;
      const sure = typeof label === 'string' ? confidenceIn(completion.logprobs, label) : null;
      if (abstainBelow === undefined) return { ...answer, confidence: sure };
      const abstained = typeof label === 'string' && (sure?.value ?? 0) < abstainBelow;
      if (!abstained) return { ...answer, confidence: sure, abstained };
      return { ...answer, values: [null], counted: [ABSTAINED], confidence: sure, abstained, label };
    },
  };
}
