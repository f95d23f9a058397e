import * as z from 'zod';
import { UsageError } from '../core/errors.js';
import { followUpTemplate } from '../prompt/template.js';
import { whole } from './numbers.js';

const MOST = 10;

export const onInvalidSchema = z
  .strictObject({
    repair: z
      .boolean()
      .optional()
      .describe(
        'With answer.json: mend quotes, commas and the like where the text is nearly JSON. What was cut short is never mended. ' +
          'Default: false.',
      ),
    ask_again: whole(0, MOST)
      .optional()
      .describe(
        `How often a row whose answer does not fit is asked again, ${MOST} times at most. Each call is billed. Default: 0.`,
      ),
    prompt: z
      .string()
      .min(1, 'must not be empty')
      .optional()
      .describe(
        'With ask_again: Mustache template of the prompt that asks again, with {{ prompt }}, {{ answer }} and {{ problem }}. ' +
          'Default: what was wrong, and the prompt again.',
      ),
    deployment: z
      .string()
      .min(1, 'must not be empty')
      .optional()
      .describe(
        'Deployment of the same endpoint, or one of service.endpoints by its name, that is asked once, at the end, where no answer fits. Default: none.',
      ),
  })
  .check(({ value, issues }) => {
    if (issues.length > 0 || Object.values(value).some((each) => each !== undefined)) return;
    issues.push({ code: 'custom', message: 'needs repair, ask_again or deployment', input: value });
  })
  .describe('What to do with an answer that does not fit. Default: the row is completed without an answer.');

/** @param field with points between its names */
export const problem = (field: string, message: string, input?: unknown) => ({
  path: field.split('.'),
  message,
  input,
});

export function onInvalidProblems({ answer, service, limits }: OnInvalidParts) {
  if (answer?.on_invalid === undefined) return [];
  const { repair, ask_again, prompt, deployment } = answer.on_invalid;
  const at = (field: 'repair' | 'prompt' | 'deployment', message: string, input?: unknown) =>
    problem(`answer.on_invalid.${field}`, message, input);
  const budget = limits.budget?.cost;
  return [
    ...(repair && !('json' in answer)
      ? [at('repair', 'needs answer.json: only JSON can be mended', repair)]
      : []),
    ...(prompt !== undefined && !ask_again ? [at('prompt', 'needs ask_again, of at least 1')] : []),
    ...(prompt === undefined ? [] : templateProblems(prompt).map((message) => at('prompt', message))),
    ...(deployment !== undefined && deployment === service.deployment
      ? [at('deployment', 'must be another than service.deployment; ask_again asks that one', deployment)]
      : []),
    ...(deployment === undefined || budget === undefined
      ? []
      : [
          problem(
            'limits.budget.cost',
            'cannot be kept with answer.on_invalid.deployment, which has a price of its own: use limits.budget.tokens',
            budget,
          ),
        ]),
  ];
}

interface OnInvalidParts {
  readonly answer?: { readonly on_invalid?: z.output<typeof onInvalidSchema> | undefined } | undefined;
  readonly service: { readonly deployment?: string | undefined };
  readonly limits: { readonly budget?: { readonly cost?: number | undefined } | undefined };
}

function templateProblems(prompt: string): string[] {
  try {
    const { names } = followUpTemplate(prompt);
    if (names.includes('prompt') || names.includes('answer')) return [];
    return ['has neither {{ prompt }} nor {{ answer }}: the model would see nothing of the row'];
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const { message, hint = '' } = error;
    return [`cannot be used: ${message}${message.endsWith('?') ? '' : '.'} ${hint}`];
  }
}
