import { answerReader } from '../answer/answer.js';
import { goldReader } from '../answer/gold.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import type { Outcome, Row } from '../model.js';
import { recordFormat } from '../output/format.js';
import { contextCheck } from '../prompt/context.js';
import { checkColumns, type RequestPlan, requestPlan } from '../prompt/row-request.js';
import { loadTokenizer } from '../prompt/tokens.js';
import type { RowRecord } from '../resume/committer.js';
import { checkReuse, originColumns } from '../reuse/keys.js';
import { modelBehind } from '../service/catalogue.js';
import type { Survey } from '../source/source.js';

/** What happens to every row, settled before the first is sent. All of it is pure. */
export interface Plan {
  /** First line of the output; empty for a format without one. */
  readonly header: string;
  /** What is sent for a row, or the outcome it has without being sent. */
  readonly requests: RequestPlan;
  readonly recordOf: (row: Row, outcome: Outcome) => RowRecord;
}

/**
 * Checks the job against the columns of its input.
 * @throws UsageError for a template, a column or an answer schema that cannot be used
 */
export async function planRows(settings: Settings, survey: Survey): Promise<Plan> {
  const { parameters, input, output } = settings;
  const name = input.path === '-' ? 'standard input' : input.path;
  // Without a row an input without a header has no columns to hold the job against, and no row that could miss one.
  const isBlank = !survey.format.hasHeader && survey.rows === 0;
  const requests = isBlank
    ? NO_REQUESTS
    : requestPlan({ ...settings, require: input.require }, { name, ...survey }, fitsContext(settings));
  checkRoom(settings, survey);
  if (!isBlank) checkReuse(settings.reuse, parameters, settings.rowParameters, { name, ...survey });
  if (!isBlank && settings.gold !== null) checkColumns('answer.gold', [settings.gold], { name, ...survey });
  const answer = answerReader(settings.answer);
  const gold = goldReader(settings, name);
  const format = recordFormat({
    format: output.format,
    inputColumns: isBlank ? (output.columns ?? []) : survey.columns,
    answer,
    select: output.columns ?? undefined,
    formulas: output.formulas,
    origins: originColumns(settings.reuse),
    logprobs: typeof parameters.logprobs === 'number' || settings.rowParameters.includes('logprobs'),
  });

  return {
    header: format.header,
    requests,
    recordOf: (row, outcome) => {
      const text =
        outcome.status === 'completed' || outcome.status === 'filtered' ? outcome.completion : null;
      const read = text === null ? null : answer.read(text.text);
      return { text: format.format(row, outcome, read), outcome, answer: read, gold: gold?.(row) ?? null };
    },
  };
}

/**
 * Where no row can have a value of its own, `max_tokens` must leave room for a prompt of at least one token.
 * @throws UsageError when it does not: every row would end `failed`
 */
function checkRoom({ endpoint, parameters, rowParameters }: Settings, { columns }: Survey): void {
  const model = modelBehind(endpoint);
  const { max_tokens } = parameters;
  if (model === null || typeof max_tokens !== 'number' || max_tokens < model.contextWindow) return;
  const rowsDecide = rowParameters.includes('max_tokens') || columns.includes('body');
  if (rowsDecide) return;
  throw new UsageError(
    'max_tokens_too_large',
    `parameters.max_tokens: ${max_tokens} leaves no room for a prompt: ${model.id} takes ${model.contextWindow} tokens, prompt and answer together`,
    `Set it to the most tokens that an answer may need: at most ${model.contextWindow - 1}, less those of the prompt.`,
  );
}

const NO_REQUESTS: RequestPlan = {
  ...{ template: null, require: [], rowParameters: [], parameters: {} },
  fits: () => null,
};

/** The check against the model's context window; none for a deployment whose model is not known. */
function fitsContext({ endpoint }: Settings): ReturnType<typeof contextCheck> {
  const model = modelBehind(endpoint);
  if (model === null) return () => null;
  return contextCheck(model.contextWindow, () => loadTokenizer(model.encoding));
}
