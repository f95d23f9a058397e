import type { Answer, Completion, Fault } from '../model.js';

/** What is said of a `completed` row: what is wrong with its answer, or with its text. */
export function completedFault(completion: Completion, answer: Answer | null): Fault | null {
  if (answer?.fault) return answer.fault;
  return completion.damaged === undefined ? null : DAMAGES[completion.damaged];
}

/** Of what kind of damage a code tells; undefined for any other code. */
export const damageOf = (code: string | undefined): Completion['damaged'] =>
  (['bytes', 'cut'] as const).find((damage) => DAMAGES[damage].code === code);

const DAMAGES: { readonly [damage in NonNullable<Completion['damaged']>]: Fault } = {
  bytes: {
    code: 'invalid_utf8',
    message: 'the text has bytes that are no UTF-8: each of them is shown as U+FFFD',
  },
  cut: {
    code: 'text_cut',
    message: 'the text has more than the 1,048,576 characters that are kept, and was cut behind them',
  },
};
