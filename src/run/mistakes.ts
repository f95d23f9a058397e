import type { Settings } from '../config/settings.js';
import { StopError, UsageError } from '../errors.js';
import { count } from '../figures.js';
import type { Halt } from '../halt.js';
import { rowRequest } from '../prompt/row-request.js';
import type { Input } from './input.js';
import type { Plan } from './plan.js';

/** Columns named in a message. */
const NAMED = 5;

/**
 * What of a job is sound, costs money, and is most likely not meant (fault 106).
 * @returns a sentence for each
 * @throws UsageError for what is not meant for sure: a prompt that is the same for each of several rows
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

/** Columns whose names stand in the prompt between single braces, as other tools have them. */
function singleBraces({ prompt }: Settings, { survey }: Input): readonly string[] {
  const texts = [...(prompt ?? '').matchAll(/(?<!\{)\{([^{}]+)\}(?!\})/g)].map(([, name = '']) =>
    name.trim(),
  );
  return survey.columns.filter((column) => texts.includes(column.trim())).slice(0, NAMED);
}

function assertVaries(
  { prompt, rowParameters, input: { name } }: Settings,
  { total, survey }: Input,
  { requests }: Plan,
  [column]: readonly string[],
): void {
  const { template } = requests;
  // A line may bring a prompt of its own, and who writes a tag knows how to.
  const isMeant = prompt === null || prompt.includes('{{') || rowParameters.length > 0;
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

/** Looks at rows until two of them ask something different: the first two, nearly always. */
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
    // The run finds out by itself that its input was changed.
    if (error instanceof StopError) return [];
    throw error;
  }
  if (same < 2) return [];
  return [
    `all ${count(same)} prompts are the same: do the columns of the prompt have the values that are meant? input.dedupe: true calls one of them`,
  ];
}
