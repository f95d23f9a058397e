import { goldColumns } from '../../answer/gold.js';
import type { Settings } from '../../config/settings.js';
import { rowRequest } from '../../prompt/row-request.js';
import { textsOf } from '../../prompt/prompt-text.js';
import { loadTokenizer, promptCounter } from '../../prompt/tokens.js';
import { type ProgressDisplay, startProgress } from '../../render/progress.js';
import { canDraw } from '../../render/screen.js';
import { terminalText } from '../../render/terminal-text.js';
import { assertNotInput } from '../../resume/output-checks.js';
import { outputFiles } from '../../resume/output-files.js';
import { modelBehind } from '../../service/catalogue.js';
import { commonOperation } from '../../service/operation.js';
import { nameOf } from '../../source/source.js';
import { checkSteps } from '../finishing.js';
import { type Input, openInput } from '../input.js';
import { mistakes } from '../mistakes.js';
import { type Plan, planRows } from '../plan.js';
import { CHUNK_BYTES } from '../producer.js';
import type { RunContext } from '../run-context.js';
import { type CheckReport, type Counting, checkReport } from './check-report.js';
import { GoldCount } from './gold-count.js';
import { type Inspected, Inspection } from './inspection.js';

/** No key, no address. */
type CheckContext = Pick<RunContext, 'stdin' | 'stderr' | 'halt' | 'quiet'>;

const MEGABYTE = 1_000_000;

/**
 * Prepares every row as a run would, and adds it up. Sends nothing.
 * @throws UsageError for what would keep a run from starting: a template, a column, an unusable input
 * @throws the reason of the halt's signal
 */
export async function checkJob(settings: Settings, context: CheckContext): Promise<CheckReport> {
  const { output } = settings;
  if (output.path !== '-') assertNotInput(outputFiles(output.path), settings);
  const input = await readInput(settings, context);
  try {
    const { note } = input.survey;
    if (note !== undefined && !context.quiet)
      context.stderr.write(terminalText(`${nameOf(input.spec)}: ${note}\n`));
    const counting = countingFor(settings);
    const plan = await planRows(settings, input.survey);
    checkSteps(settings, input.survey, plan.format);
    const likely = await mistakes(settings, input, plan, context.halt);
    const inspected = await inspect(input, plan, settings, counting, context);
    const columns = plan.format.names;
    const { sha256 } = input.survey;
    const template = ownText(plan, counting);
    const sample = input.sample && { ...input.sample, of: input.survey.rows };
    const surveyed = {
      sha256,
      rows: input.total,
      sample,
      columns,
      mistakes: likely,
      template,
      done: input.done?.texts ?? null,
    };
    return checkReport(settings, surveyed, counting, inspected);
  } finally {
    input.discard();
  }
}

/** Of a prompt without the values of its columns. */
function ownText({ requests: { template, operation } }: Plan, { encoding }: Counting) {
  if (template === null) return null;
  const empty = operation.promptOf(template.render({ number: 0, line: 0, fields: new Map(), bytes: 0 }));
  const { count } = loadTokenizer(encoding);
  const texts = 'prompt' in empty ? textsOf(empty.prompt) : [];
  return { names: template.names, tokens: texts.reduce((sum, text) => sum + count(text), 0) };
}

/** First reading: is the file complete, and which columns does it have? */
async function readInput(settings: Settings, context: CheckContext): Promise<Input> {
  let progress: ProgressDisplay | null = null;
  try {
    return await openInput(settings, context, (bytesRead, totalBytes) => {
      progress ??= startProgress({
        ...streamOf(context),
        total: totalBytes / MEGABYTE,
        unit: 'MB read',
      });
      progress.update({ done: bytesRead / MEGABYTE, failed: 0 });
    });
  } finally {
    stop(progress);
  }
}

async function inspect(
  input: Input,
  plan: Plan,
  settings: Settings,
  counting: Counting,
  context: CheckContext,
): Promise<Inspected> {
  const { names = [] } = plan.requests.template ?? {};
  const { done } = input;
  const inspection = new Inspection({
    count: promptCounter(loadTokenizer(counting.encoding), plan.requests.operation.overhead),
    contextWindow: counting.contextWindow,
    tokensPerMinute: settings.limits.tokensPerMinute,
    require: settings.input.require,
    parameters: settings.parameters,
    dedupe: settings.reuse.dedupe,
    isDone: done && ((row, request) => done.answerTo(row, request) !== null),
    golds: GoldCount.of(settings, settings.input.name),
    goldInPrompt: goldColumns(settings)?.columns.find((column) => names.includes(column)) ?? null,
    grouping: {
      chunkSize: settings.limits.chunkSize,
      chunkBytes: CHUNK_BYTES,
      promptsPerRequest: settings.limits.promptsPerRequest,
    },
  });
  const progress = startProgress({ ...streamOf(context), total: input.total, unit: 'rows counted' });
  try {
    for await (const row of input.rows({})) {
      if (row.number > input.total) break;
      context.halt.signal.throwIfAborted();
      inspection.add(row, rowRequest(row, plan.requests));
      progress.update({ done: inspection.rows, failed: inspection.failing });
    }
    return inspection.result();
  } finally {
    progress.stop();
  }
}

/** The tokenizer of the model. A deployment of unknown name may hold any model: the newest is assumed. */
function countingFor({ endpoint, operations }: Settings): Counting {
  const model = modelBehind(endpoint);
  if (model === null)
    return { encoding: commonOperation(operations).encoding, assumed: true, contextWindow: null };
  return { encoding: model.encoding, assumed: false, contextWindow: model.contextWindow };
}

const streamOf = ({ stderr, quiet }: CheckContext) => ({
  stream: stderr,
  isTTY: canDraw(stderr),
  done: 0,
  quiet,
});

/** A function, because the compiler does not see that the callback has set the variable. */
function stop(progress: ProgressDisplay | null): void {
  progress?.stop();
}
