import type { AnswerSpec } from '../core/answer-spec.js';
import type { Answer, Choice, Json, Outcome } from '../core/model.js';
import { confidenceReader } from './confidence.js';
import { jsonReader } from './json-answer.js';
import { labelReader, namesOf } from './label-answer.js';
import { numberReader } from './number-answer.js';
import { cleaned, excerpt, type ReadFrom } from './text.js';

export interface AnswerReader {
  /** `answer`, or the top-level properties of the JSON Schema, in order. */
  readonly columns: readonly string[];
  /** `labels`: a list of labels. `object`: has the columns as members. */
  readonly shape: 'value' | 'labels' | 'object';
  /** The labels with confidence: empty for a number; absent when the job asks for no confidence. */
  readonly confidenceOf?: readonly string[];
  readonly abstains?: boolean;
  /** Of JSON: {@link Answer.properties} of the values. */
  readonly named?: (values: readonly Json[]) => NonNullable<Answer['properties']>;
  read(completion: ReadFrom): Answer;
}

export const REFUSED = 'answer_refused';

/** @throws UsageError for an invalid JSON Schema */
export function answerReader(spec: AnswerSpec): AnswerReader {
  const reader = readerOf(spec);
  return {
    ...reader,
    read(completion) {
      const { refusal } = completion;
      if (refusal === undefined) return reader.read(completion);
      const problem = { code: REFUSED, message: `the model refused: ${excerpt(refusal)}` };
      const values = reader.columns.map(() => null);
      return { ...reader.read({ text: '', finish_reason: null }), values, problem };
    },
  };
}

function readerOf(spec: AnswerSpec): AnswerReader {
  switch (spec.kind) {
    case 'text': {
      const read = ({ text }: ReadFrom): Answer => ({ values: [cleaned(text)], counted: [], problem: null });
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
      const { properties, named, read } = jsonReader(spec);
      if (properties.length === 0) return { columns: ['answer'], shape: 'value', named, read };
      return { columns: properties, shape: 'object', named, read };
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

type Read = (completion: ReadFrom) => Answer;

interface Vote {
  /** Null for the first choice. */
  readonly choice: Choice | null;
  readonly answer: Answer;
}

/**
 * The answer that most choices give; in a tie, the earliest. Confidence is its share of all choices asked
 * for, so blocked, missing or unreadable ones lower it. If none is readable, the first one's problem stands.
 *
 * X. Wang et al., "Self-consistency improves chain of thought reasoning in language models", ICLR 2023.
 * @param asked number of choices requested
 */
function votingReader(read: Read, asked: number): Read {
  return (completion) => {
    const { others = [] } = completion;
    const first: Vote = { choice: null, answer: read(completion) };
    const votes = [
      first,
      ...others.map((choice): Vote => ({ choice, answer: read(withChoice(completion, choice)) })),
    ];
    const valid = votes.filter(({ answer }) => answer.problem === null);

    const counts = new Map<string, number>();
    for (const { answer } of valid) counts.set(nameOf(answer), (counts.get(nameOf(answer)) ?? 0) + 1);
    const most = Math.max(...counts.values());
    const winner = valid.find(({ answer }) => counts.get(nameOf(answer)) === most);
    if (winner === undefined) return { ...first.answer, confidence: null };

    const shares = new Map([...counts].map(([name, count]) => [name, shareOf(count, asked)]));
    const { answer, choice } = winner;
    const confidence = { value: shareOf(most, asked), probabilities: shares };
    return { ...answer, confidence, ...(choice && { choice }) };
  };
}

const nameOf = ({ counted: [name = ''] }: Answer): string => name;

/** Six decimals, like all confidences. */
const shareOf = (count: number, all: number): number => Math.round((count / all) * 1e6) / 1e6;

function withChoice<C extends ReadFrom>(
  { damaged: _, others: __, ...completion }: C,
  { text, finish_reason, damaged }: Choice,
) {
  return { ...completion, text, finish_reason, ...(damaged && { damaged }) };
}

/** Voted outcomes show the choice that the answer was read from. */
export function asVoted(outcome: Outcome, answer: Answer | null): Outcome {
  if (outcome.status !== 'completed' || answer === null) return outcome;
  const voted = { ...outcome, answer_source: outcome.answer_source ?? 'voted' } as const;
  const { choice } = answer;
  if (choice === undefined) return voted;
  const { filters = outcome.filters.completion } = choice;
  return {
    ...voted,
    completion: withChoice(outcome.completion, choice),
    filters: { prompt: outcome.filters.prompt, completion: filters },
  };
}
