import type { Answer, Choice, Outcome } from '../model.js';
import type { ReadFrom } from './text.js';

type Read = (completion: ReadFrom) => Answer;

interface Vote {
  /** Null for the first choice. */
  readonly choice: Choice | null;
  readonly answer: Answer;
}

/**
 * The answer that most choices give; in a tie, the earliest. Confidence is its share of all choices asked
 * for, so blocked, missing or unreadable ones lower it. If none is readable, the first one's fault stands.
 *
 * X. Wang et al., "Self-consistency improves chain of thought reasoning in language models", ICLR 2023.
 * @param asked number of choices requested
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
