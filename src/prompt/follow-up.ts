import { compileTemplate, type Template } from './template.js';

/** What is known when a row is asked again. */
export interface Asked {
  /** The prompt of the row. */
  readonly prompt: string;
  /** The text of the answer that does not fit; `null` where there was none. */
  readonly answer: string | null;
  /** What is wrong with it: the message of its fault. */
  readonly problem: string;
}

/** Characters of an answer and of a problem that go into a prompt. */
const LONGEST = { answer: 2_000, problem: 1_000 } as const;

/**
 * A template of the job's own for {@link followUp}.
 * @throws UsageError for one that cannot be used, or has names that are none of those in {@link Asked}
 */
export const followUpTemplate = (text: string): Template =>
  compileTemplate(text, {
    name: 'a prompt that asks again',
    columns: ['prompt', 'answer', 'problem'],
    format: { hasJson: false },
    called: { template: 'the template', column: 'name' },
  });

/**
 * The prompt with which a row is asked again. Of a long answer and a long problem only the beginning is in it. Nothing in
 * them is read as a template.
 * @param template the job's own; `null`: what was wrong in parentheses, and then the prompt, with whose end the model goes on
 */
export function followUp(template: string | null, { prompt, answer, problem }: Asked): string {
  const short = {
    prompt,
    answer: beginning((answer ?? '').trim(), LONGEST.answer),
    problem: beginning(problem, LONGEST.problem),
  };
  if (template === null) return `(An earlier answer could not be used: ${short.problem}.)\n\n${prompt}`;
  return followUpTemplate(template).render({ fields: new Map(Object.entries(short)) });
}

/** The second half of a character is left out with the first. */
const beginning = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '')}…` : text;
