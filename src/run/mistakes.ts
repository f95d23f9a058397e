import type { Settings } from '../config/settings.js';
import { StopError, UsageError } from '../core/errors.js';
import { count } from '../core/figures.js';
import type { Halt } from '../core/halt.js';
import { askedText, rowRequest } from '../prompt/row-request.js';
import type { Input } from './input.js';
import type { Plan } from './plan.js';

const NAMED = 5;

/**
 * Valid parts of a job that cost money and are probably mistakes (fault 106).
 * @throws UsageError for a certain mistake: a prompt that is the same for several rows
 */
export async function mistakes(
  settings: Settings,
  input: Input,
  plan: Plan,
  halt: Halt,
): Promise<readonly string[]> {
  const braces = singleBraces(settings, input);
  assertVaries(settings, input, plan, braces);
  const { max_tokens, echo } = settings.parameters;
  return [
    ...(settings.limits.lessPacked
      ? ['limits.prompts_per_request has no effect: a request of the chat operation has one row']
      : []),
    ...braces.map(
      (column) => `the prompt has ${inBraces(column)}, which is sent as it is: ${remedy(column)}`,
    ),
    ...(max_tokens === 0 && !echo && !settings.rowParameters.includes('max_tokens')
      ? [
          'parameters.max_tokens is 0: no answer is written. Raise it, or set parameters.echo for the log probabilities of the prompt',
        ]
      : []),
    ...(await sameRequests(input, plan, halt)),
  ];
}

const inBraces = (column: string): string => `{${column}}`;
const remedy = (column: string): string => `write {{ ${column} }} to put the column in`;

function singleBraces(settings: Settings, { survey }: Input): readonly string[] {
  const texts = [...(askedText(settings) ?? '').matchAll(/(?<!\{)\{([^{}]+)\}(?!\})/g)].map(([, name = '']) =>
    name.trim(),
  );
  return survey.columns.filter((column) => texts.includes(column.trim())).slice(0, NAMED);
}

function assertVaries(
  settings: Settings,
  { total, survey }: Input,
  { requests }: Plan,
  [column]: readonly string[],
): void {
  const { template } = requests;
  // A row may have its own prompt, and whoever writes a tag knows how to name a column.
  const {
    rowParameters,
    input: { name },
  } = settings;
  const asked = askedText(settings);
  const isMeant = asked === null || asked.includes('{{') || rowParameters.length > 0;
  if (template === null || isMeant || survey.columns.includes('body') || total < 2) return;
  const [first = 'column'] = survey.columns;
  throw new UsageError(
    'prompt_without_column',
    `prompt has no {{ column }}, so all ${count(total)} rows of ${name} would be asked the same` +
      (column === undefined ? '' : `: ${inBraces(column)} is sent as it is`),
    `${column === undefined ? `Put the column in that the model is to see, such as {{ ${first} }}` : `W${remedy(column).slice(1)}`}. ` +
      'Where all are to be asked the same, add a comment: {{! the same for all }}.',
  );
}

/** Reads rows until two of them differ in their requests: nearly always the first two. */
async function sameRequests(input: Input, { requests }: Plan, halt: Halt): Promise<readonly string[]> {
  let first: string | null = null;
  let same = 0;
  try {
    for await (const row of input.rows({})) {
      if (row.number > input.total) break;
      halt.signal.throwIfAborted();
      const request = rowRequest(row, requests);
      if (request.kind === 'settled') continue;
      const asked = JSON.stringify([request.prompt, request.parameters]);
      first ??= asked;
      if (asked !== first) return [];
      same++;
    }
  } catch (error) {
    // The run itself will find that its input was changed.
    if (error instanceof StopError) return [];
    throw error;
  }
  if (same < 2) return [];
  return [
    `all ${count(same)} prompts are the same: do the columns of the prompt have the values that are meant? input.dedupe: true calls one of them`,
  ];
}
