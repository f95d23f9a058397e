import { compileTemplate, type Template } from './template.js';

export interface Asked {
  readonly prompt: string;
  /** Null when there was no text. */
  readonly answer: string | null;
  readonly problem: string;
}

/** In characters. */
const LONGEST = { answer: 2_000, problem: 1_000 } as const;

/** @throws UsageError when it is invalid, or uses names not in {@link Asked} */
export const followUpTemplate = (text: string): Template =>
  compileTemplate(text, {
    name: 'a prompt that asks again',
    columns: ['prompt', 'answer', 'problem'],
    format: { hasJson: false },
    called: { template: 'the template', column: 'name' },
  });

/**
 * Long answers and problems are cut, and never parsed as templates.
 * @param template the job's own; null: the problem in parentheses, then the prompt, which the model continues
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

/** A character cut in half is dropped. */
const beginning = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '')}…` : text;
