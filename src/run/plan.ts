import { asVoted } from '../answer/answer.js';
import { sameBeginning } from '../answer/confidence.js';
import { goldReader } from '../answer/gold.js';
import { namesOf } from '../answer/label-answer.js';
import { recordOptions, type Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import type { Outcome, Row } from '../core/model.js';
import { recordFormat } from '../output/format.js';
import type { RecordFormat } from '../output/record.js';
import { checkReuse } from '../prompt/reuse-keys.js';
import { checkColumns, type RequestPlan, requestPlan } from '../prompt/row-request.js';
import { contextCheck, loadTokenizer } from '../prompt/tokens.js';
import type { RowRecord } from '../resume/committer.js';
import { modelBehind } from '../service/catalogue.js';
import { commonOperation } from '../service/operation.js';
import type { Survey } from '../source/source.js';

/** What happens to every row, decided before the first is sent. Pure. */
export interface Plan {
  /** Empty for a format without one. */
  readonly header: string;
  readonly requests: RequestPlan;
  /** Record parts that a reviewer needs; null for a job that does not abstain. */
  readonly reviewed: readonly string[] | null;
  readonly recordOf: (row: Row, outcome: Outcome) => RowRecord;
  readonly format: RecordFormat;
}

/** @throws UsageError for an invalid template, column or answer schema */
export async function planRows(settings: Settings, survey: Survey): Promise<Plan> {
  const { parameters, input, output } = settings;
  const { name } = input;
  // An input with neither header nor rows has no columns to check.
  const isBlank = !survey.format.hasHeader && survey.rows === 0;
  const requests = isBlank
    ? noRequests(settings)
    : requestPlan({ ...settings, require: input.require }, { name, ...survey }, fitsContext(settings));
  checkRoom(settings, survey);
  checkBeginnings(settings);
  if (!isBlank) checkReuse(settings.reuse, parameters, settings.rowParameters, { name, ...survey });
  const options = recordOptions(settings);
  if (!isBlank) checkColumns('answer.gold', options.gold?.columns ?? [], { name, ...survey });
  const { answer } = options;
  const votes = 'votes' in settings.answer;
  const gold = goldReader(settings, name);
  const format = recordFormat({
    format: output.format,
    inputColumns: isBlank ? null : survey.columns,
    ...options,
  });

  const reviewed = answer.abstains ? format.reviewed : null;
  checkReviewed(reviewed);
  checkAbstention(settings, format);

  return {
    header: format.header,
    format,
    reviewed,
    requests,
    recordOf: (row, outcome) => {
      const completion =
        outcome.status === 'completed' || outcome.status === 'filtered' ? outcome.completion : null;
      const read = completion === null ? null : answer.read(completion);
      const shown = votes ? asVoted(outcome, read) : outcome;
      return {
        text: format.format(row, shown, read),
        outcome: shown,
        answer: read,
        gold: gold?.(row) ?? null,
      };
    },
  };
}

/** @throws UsageError when no prompt can fit beside `max_tokens`: every row would fail */
function checkRoom({ endpoint, parameters, rowParameters }: Settings, { columns }: Survey): void {
  const model = modelBehind(endpoint);
  const { max_tokens } = parameters;
  if (model === null || typeof max_tokens !== 'number' || max_tokens < model.contextWindow) return;
  const limits = ['max_tokens', 'max_completion_tokens'] as const;
  const rowsDecide = limits.some((name) => rowParameters.includes(name)) || columns.includes('body');
  if (rowsDecide) return;
  throw new UsageError(
    'max_tokens_too_large',
    `parameters.max_tokens: ${max_tokens} leaves no room for a prompt: ${model.id} takes ${model.contextWindow} tokens, prompt and answer together`,
    `Set it to the most tokens that an answer may need: at most ${model.contextWindow - 1}, less those of the prompt.`,
  );
}

/** @throws UsageError when the output lacks columns that the review reads back from it */
function checkReviewed(names: readonly string[] | null): void {
  // The code of an unusable answer; in JSONL it is part of the error.
  const code = names?.some((name) => name === 'error' || name === 'error_code') ? [] : ['error_code'];
  const lacking =
    names === null ? [] : [...['text', 'abstained'].filter((name) => !names.includes(name)), ...code];
  if (lacking.length === 0) return;
  throw new UsageError(
    'output_column_missing',
    `output.columns leaves out ${lacking.join(', ')}, which the rows for review need (answer.abstain_below, answer.abstain)`,
    'Add them to output.columns.',
  );
}

/** @throws UsageError when the threshold of `answer.abstain` cannot be found in the complete output */
function checkAbstention({ answer, gold, output, answerSource }: Settings, format: RecordFormat): void {
  if (answer.kind !== 'labels' || answer.abstainFor === undefined || gold === null) return;
  if (output.path === '-') {
    throw new UsageError(
      'abstain_needs_file',
      'answer.abstain leaves labels out when all rows are there, and standard output cannot be changed then',
      'Write to a file with --output or output.path, or take answer.abstain_below: a threshold that is known before.',
    );
  }
  const source = answerSource ? (['answer_source'] as const) : [];
  const parts = ['status', 'answer', 'confidence', 'abstained', ...source] as const;
  const lacking = [
    ...parts.filter((part) => !format.parts.has(part)),
    ...(!format.inputs.has(gold) ? [gold] : []),
  ];
  if (lacking.length === 0) return;
  throw new UsageError(
    'output_column_missing',
    `output.columns leaves out ${lacking.join(', ')}, by which answer.abstain finds the labels to leave out`,
    'Add them to output.columns.',
  );
}

/** @throws UsageError when labels share their first token, which is the one that gives the confidence */
function checkBeginnings({ endpoint, answer }: Settings): void {
  const model = modelBehind(endpoint);
  if (model === null || answer.kind !== 'labels' || answer.confidence === undefined) return;
  const tokenizer = loadTokenizer(model.encoding);
  const firstToken = (text: string): string => tokenizer.decode(tokenizer.encode(text).slice(0, 1));
  const same = sameBeginning(namesOf(answer), firstToken);
  if (same === null) return;
  const [one, other] = same.names.map((name) => JSON.stringify(name));
  throw new UsageError(
    'labels_begin_alike',
    `answer.confidence: the labels ${one} and ${other} both begin with the token ${JSON.stringify(same.token)} of ${model.id}, so its log probabilities cannot tell them apart`,
    'Rename one of them, or take answer.confidence out.',
  );
}

const noRequests = ({ operations }: Settings): RequestPlan => ({
  operation: commonOperation(operations),
  ...{ template: null, require: [], rowParameters: [], parameters: {}, fixedParameters: null },
  fits: () => null,
});

function fitsContext({ endpoint }: Settings): ReturnType<typeof contextCheck> {
  const model = modelBehind(endpoint);
  if (model === null) return () => null;
  return contextCheck(model.contextWindow, () => loadTokenizer(model.encoding));
}
