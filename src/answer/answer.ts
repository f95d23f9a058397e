import type { Answer } from '../model.js';
import type { AnswerSpec } from './answer-spec.js';
import { confidenceReader } from './confidence.js';
import { jsonReader } from './json-answer.js';
import { labelReader, namesOf } from './label-answer.js';
import { numberReader } from './number-answer.js';
import { cleaned, type ReadFrom } from './text.js';
import { votingReader } from './votes.js';

export interface AnswerReader {
  /** `answer`, or the top-level properties of the JSON Schema, in order. */
  readonly columns: readonly string[];
  /** `labels`: a list of labels. `object`: has the columns as members. */
  readonly shape: 'value' | 'labels' | 'object';
  /** The labels with confidence: empty for a number; absent when the job asks for no confidence. */
  readonly confidenceOf?: readonly string[];
  readonly abstains?: boolean;
  read(completion: ReadFrom): Answer;
}

/** @throws UsageError for an invalid JSON Schema */
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
      const number = numberReader(spec);
      const read = ({ text }: ReadFrom): Answer => number(text);
      if (spec.votes === undefined) return { columns: ['answer'], shape: 'value', read };
      return { columns: ['answer'], shape: 'value', confidenceOf: [], read: votingReader(read, spec.votes) };
    }
    case 'json': {
      const { properties, read } = jsonReader(spec);
      if (properties.length === 0) return { columns: ['answer'], shape: 'value', read };
      return { columns: properties, shape: 'object', read };
    }
  }
}

/** Whether uncertain labels are left out: such a run has a file for review. */
export const abstains = (spec: AnswerSpec): boolean =>
  spec.kind === 'labels' && (spec.abstainBelow ?? spec.abstainFor) !== undefined;

export const ABSTAINED = '(abstained)';

/** Adds confidence, where the job asks for it, and leaves out uncertain labels. */
function withConfidence(reader: AnswerReader, spec: LabelSpec): AnswerReader {
  const { labels, abstainBelow, abstainFor } = spec;
  const read = sureReader(reader.read, spec);
  if (read === null) return reader;
  return {
    ...reader,
    confidenceOf: labels,
    abstains: abstains(spec),
    read(completion) {
      const answer = read(completion);
      const [label] = answer.values;
      // Which labels are left out is decided at the end of the run.
      if (abstainFor !== undefined) return { ...answer, abstained: false };
      if (abstainBelow === undefined) return answer;
      const abstained = typeof label === 'string' && (answer.confidence?.value ?? 0) < abstainBelow;
      if (!abstained) return { ...answer, abstained };
      return { ...answer, values: [null], counted: [ABSTAINED], abstained, label };
    },
  };
}

type LabelSpec = Extract<AnswerSpec, { kind: 'labels' }>;

function sureReader(read: AnswerReader['read'], spec: LabelSpec): AnswerReader['read'] | null {
  const { confidence, votes } = spec;
  if (votes !== undefined) return votingReader(read, votes);
  if (confidence === undefined) return null;
  const confidenceIn = confidenceReader(namesOf(spec));
  return (completion) => {
    const answer = read(completion);
    const [label] = answer.values;
    return {
      ...answer,
      confidence: typeof label === 'string' ? confidenceIn(completion.logprobs, label) : null,
    };
  };
}
