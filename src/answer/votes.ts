import type { Answer, Choice, Outcome } from '../model.js';
import type { ReadFrom } from './text.js';

type Read = (completion: ReadFrom) => Answer;

/** A choice, and what is read from it. */
interface Vote {
  /** `null`: the first of the completion. */
  readonly choice: Choice | null;
  readonly answer: Answer;
}

/**
 * Reads every choice of a completion, and takes the answer that most of them give: of several with as many votes, the one
 * that came first. The confidence is the share of its votes in all that were asked for, so choices that a filter blocked,
 * that are missing or that cannot be read lower it. Where none can be read, the answer is what is wrong with the first.
 *
 * X. Wang et al., "Self-consistency improves chain of thought reasoning in language models", ICLR 2023.
 * @param read reads one choice
 * @param asked choices that are asked for
 */
export function votingReader(read: Read, asked: number): Read {
  return (completion) => {
    const { others = [] } = completion;
    const first: Vote = { choice: null, answer: read(completion) };
    const votes = [
      first,
      ...others.map((choice): Vote => ({ choice, answer: read(withChoice(completion, choice)) })),
    ];
    const valid = votes.filter(({ answer }) => answer.fault === null);

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

/** The label, or the number as a text. */
const nameOf = ({ counted: [name = ''] }: Answer): string => name;

/** With six decimals, as all confidences have. */
const shareOf = (count: number, all: number): number => Math.round((count / all) * 1e6) / 1e6;

/** A completion with one of its further choices in the place of the first. */
function withChoice<C extends ReadFrom>(
  { damaged: _, others: __, ...completion }: C,
  { text, finish_reason, damaged }: Choice,
) {
  return { ...completion, text, finish_reason, ...(damaged && { damaged }) };
}

/** An outcome as its record shows it where choices have voted: with the choice that the answer was read from. */
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
