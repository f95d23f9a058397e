import { type Drift, driftText } from '../account/drift.js';
import type { StepFacts } from '../account/steps.js';
import { changeSince } from '../compare/change-since.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { unknownNames } from '../core/nearest.js';
import { readable } from '../output/output-bytes.js';
import type { RecordFormat } from '../output/record.js';
import { openFinished } from '../resume/finished-output.js';
import { type LastRun, lastRunOf } from '../resume/last-run.js';
import type { Survey } from '../source/source.js';
import type { Finishing, FinishingStep } from './step.js';

/**
 * `drift`: compares the answers of a complete run with those of the last run, before its output may be
 * replaced. A failure is only a warning: the rows are paid for.
 */
export const driftStep: FinishingStep = { check: checkDrift, run: findDrift };

/** The alarm may have changed since the step ran. */
export const driftNow = ({ drift }: StepFacts, settings: Settings): Drift | null =>
  drift && settings.drift ? { ...drift, alarm: settings.drift.alarm } : null;

function checkDrift(settings: Settings, survey: Survey, format: RecordFormat): void {
  const { drift, output, input, reuse } = settings;
  if (drift === null) return;
  if (output.path === '-') {
    throw new UsageError(
      'drift_needs_file',
      'drift compares the output with that of the last run, and standard output leaves none',
      'Write to a file with --output or output.path, or take drift out of the job file.',
    );
  }
  const { id } = reuse;
  if (id !== null && survey.rows > 0 && !survey.columns.includes(id)) {
    const use = { code: 'column_unknown', user: 'input.id names', owner: `${input.name} has` };
    throw unknownNames(use, [id], survey.columns);
  }
  const lacking = [
    ...(['status', 'answer'] as const).filter((part) => !format.parts.has(part)),
    ...(id !== null && survey.rows > 0 && !format.inputs.has(id) ? [id] : []),
  ];
  if (lacking.length > 0) {
    throw new UsageError(
      'output_column_missing',
      `output.columns leaves out ${lacking.join(', ')}, which drift needs`,
      'Add them to output.columns.',
    );
  }
  const last = lastRunOf(settings, '', true);
  if (id !== null || last === null || isSameInput(last, survey)) return;
  throw new UsageError(
    'drift_needs_id',
    `drift: ${input.name} is not the input of the last run (${last.output}), so rows cannot be matched by row number`,
    'Name the column that has another value in each row: input.id. Or take drift out of the job file.',
  );
}

const isSameInput = ({ summary }: LastRun, { sha256, rows }: Pick<Survey, 'sha256' | 'rows'>): boolean =>
  summary.input.sha256 === sha256 && summary.rows.total === rows;

async function findDrift({ committer, whole, settings, survey, say, halt }: Finishing): Promise<boolean> {
  const { drift, output, reuse } = settings;
  const records = whole.bytes();
  const { run, values = {}, steps } = committer.manifest;
  if (drift === null || steps.drift !== undefined || records === null) return true;
  const last = lastRunOf(settings, run, true);
  if (last === null) {
    say(
      'no drift yet: the job has no last run that finished with all rows of its input and missed nothing, at the same output path',
    );
    return true;
  }
  try {
    // Another run may have finished since this one began.
    if (reuse.id === null && !isSameInput(last, survey))
      throw new UsageError(
        'drift_needs_id',
        `${last.output} is of another input, and the job has no input.id`,
      );
    const name = 'the output of this run';
    const bytes = () => readable(name, records());
    const now = { name, format: output.format, bytes, settings: values };
    const { rows: compared, changed, agreement } = await changeSince(last, now, reuse.id, halt.signal);
    const { warning } = await openFinished(last.output, 'warn');
    if (warning !== null) {
      if (reuse.id === null)
        throw new UsageError(
          'output_changed',
          `${warning}; without input.id its rows have only their places`,
        );
      say(`warning: ${warning}`);
    }
    const share = agreement === null ? null : changed / compared;
    const against = { against: last.summary.run, output: last.output };
    const drifted: Drift = { ...against, rows: compared, changed, share, alarm: drift.alarm };
    await committer.note({ drift: drifted });
    if (compared === 0) say(`warning: no drift: ${driftText(drifted)}`);
  } catch (error) {
    if (halt.signal.aborted && error === halt.signal.reason) return false;
    if (!(error instanceof UsageError)) throw error;
    say(`warning: no drift: ${error.message}`);
  }
  return true;
}
