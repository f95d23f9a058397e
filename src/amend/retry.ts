import type { FinishedSummary } from '../account/read-summary.js';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { count, counted } from '../core/figures.js';
import type { Outcome } from '../core/model.js';
import { outputBytes } from '../output/output-bytes.js';
import { merged } from '../output/rewrite.js';
import { changes, partValues } from '../resume/fingerprint.js';
import { openFinished } from '../resume/finished-output.js';
import { isReplaced, type OutputTarget } from '../resume/output-target.js';
import type { RowsToCall } from '../run/amending.js';
import type { Input } from '../run/input.js';
import { type RunResult, runJob } from '../run/pipeline.js';
import type { Plan } from '../run/plan.js';
import type { OfflineContext } from '../run/run-context.js';
import { picked } from '../run/sample.js';
import type { FinishingStep } from '../run/step.js';
import { scoresLost, summaryWith } from './amended-summary.js';
import { type ChosenRows, chooseRows } from './chosen-rows.js';
import { assertInput } from './input-of-output.js';
import { assertSameLayout } from './layout.js';
import { answerThen, initialTally, type RetriedOutput, recountedTally } from './new-tally.js';
import { isUntouched } from './review-file.js';
import type { Selection } from './selection.js';

/** When the retry has finished, the summary is that of the output. */
type RetryResult = RunResult & Required<Pick<RunResult, 'retried'>>;

/**
 * Calls rows of a finished output again with the current job, and replaces their records. It is a small run
 * with its own part file and manifest: the output is unchanged until the end, and the same call resumes after
 * a crash.
 * @param given settings of the job, with this output, and the selection as text in `retry`
 * @throws UsageError when it cannot start; then nothing was sent
 */
export async function retryOutput(
  given: Settings,
  selection: Selection,
  context: OfflineContext,
): Promise<RetryResult> {
  let retried = 0;
  const result = await runJob(given, context, async (target) => {
    assertSameRows(target, given);
    const before = await summaryOf(target);
    const settings = { ...given, input: { ...given.input, sample: before.sample ?? null } };
    assertSameService(before, settings);
    const job = amendingJob(settings, before);
    return {
      settings: job,
      before,
      checkInput: (input) => assertInput(input, before, settings),
      async choose(input, plan) {
        const chosen = await retry({ settings, job, target, before, input, plan }, selection, context);
        retried = chosen?.input.total ?? 0;
        return chosen;
      },
    };
  });
  return { ...result, retried };
}

interface Retry {
  readonly settings: Settings;
  /** The settings for calling rows: settings that depend on all rows of the output are fixed. */
  readonly job: Settings;
  readonly target: OutputTarget;
  readonly before: FinishedSummary;
  readonly input: Input;
  readonly plan: Plan;
}

/** @returns null when no row is to be called */
async function retry(
  parts: Retry,
  selection: Selection,
  { halt: { signal }, say, connect }: OfflineContext,
): Promise<RowsToCall | null> {
  const { settings, job, target, before, input, plan } = parts;
  const { path, format } = settings.output;
  const { files, renamed, unfinished } = target;
  if (!renamed) await assertSameLayout(path, plan.format, format);
  // Killed after the output was named: nothing is left to call.
  const chosen = renamed ? null : await chooseRows(job, selection, plan.format, signal);
  const numbers = chosen?.numbers ?? [];
  const total = renamed ? (unfinished?.rows ?? 0) : numbers.length;
  if (total === 0) {
    say(`no row of ${path} is to be called again (${settings.retry}): nothing was changed`);
    return null;
  }
  const lost = scoresLost(settings, before, plan.format);
  const retried = chosen && retriedOutput(parts, chosen, lost === null);
  const tally = retried !== null && unfinished === null ? await initialTally(retried) : null;
  await connect();

  say(`retrying ${count(total)} of ${counted(before.rows.total, 'row')} of ${path} (${settings.retry})`);
  const changed = changes(before.details.settings, partValues(settings));
  if (changed.length > 0) say(`the job has changed since the output was made: ${changed.join(', ')}`);
  if (lost !== null && chosen !== null) say(`warning: ${lost}`);

  const numberOf = (place: number): number => numbers[place - 1] ?? place;
  const step: FinishingStep = {
    async run({ committer, whole }) {
      const records = whole.part();
      if (records === null) return true;
      await whole.rewrite(merged(outputBytes(path), format, numbers, records()));
      const [bytes, then] = [whole.bytes(), committer.manifest.retry?.tally];
      if (retried?.chosen.failed !== null || bytes === null || then === undefined) return true;
      try {
        const output = { name: path, format, bytes };
        await committer.note({}, await recountedTally(retried, output, then, signal));
        return true;
      } catch (error) {
        if (signal.aborted && error === signal.reason) return false;
        throw error;
      }
    },
  };
  return {
    target: {
      ...target,
      ...(tally !== null && {
        retry: {
          replaces: before.details.written.sha256,
          retry: { asked: settings.retry ?? '', before, rest: tally, tally },
        },
      }),
    },
    input: {
      ...input,
      survey: { ...input.survey, rows: total, badRows: 0 },
      total,
      rows: (options) => picked(input.rows(options), numbers),
    },
    plan: {
      ...plan,
      recordOf: (row, outcome) => {
        const number = numberOf(row.number);
        return { ...plan.recordOf({ ...row, number }, real(outcome, numberOf)), outcome, row: number };
      },
    },
    // The answers of the last run are the ones to call again.
    settings: { ...job, reuse: { ...job.reuse, onlyNew: false } },
    replacing: {
      steps: [step],
      summary: (own, manifest) => summaryWith(own, manifest, settings, lost === null),
      mayReview: async ({ reviewing }) =>
        reviewing === true || (await isUntouched(files.review, plan, settings)),
    },
  };
}

function retriedOutput(
  { settings, job, before, plan }: Retry,
  chosen: ChosenRows,
  scored: boolean,
): RetriedOutput {
  const isSame = before.details.settings['answer'] === partValues(settings)['answer'];
  // Reading rows answered by people again needs the job's whole answer settings.
  const known = before.merged_review === undefined ? answerThen(before) : null;
  const then = isSame ? settings.answer : known;
  const answer = then && amendingJob({ ...settings, answer: then }, before).answer;
  return { settings: job, before, chosen, format: plan.format, scored, answer };
}

/** Rehearsals are not billed, and emulated answers do not mix with real ones. @throws UsageError */
function assertSameService({ output, emulated }: FinishedSummary, settings: Settings): void {
  if (emulated === settings.emulated) return;
  throw emulated
    ? new UsageError(
        'output_of_rehearsal',
        `${output} is a rehearsal: an emulator answered its rows, and the service is not called for them`,
        'Add --emulate to call its rows again, or run the job without --emulate.',
      )
    : new UsageError(
        'output_not_of_rehearsal',
        `${output} has the answers of the service, and an emulator's are not put among them`,
        'Leave out --emulate, or rehearse the job with: promptmill run JOB --emulate.',
      );
}

/** @throws UsageError when the unfinished retry is of other rows */
function assertSameRows({ files, unfinished }: OutputTarget, { retry }: Settings): void {
  const { asked } = unfinished?.retry ?? {};
  if (asked === undefined || asked === retry) return;
  throw new UsageError(
    'retry_unfinished',
    `${files.manifest} is an unfinished retry of other rows`,
    `Go on with it: promptmill retry ${files.output} ${asked}; or discard it with --restart.`,
  );
}

/** The summary before this retry, which a killed retry may have replaced already. */
async function summaryOf({ files, unfinished, discarded }: OutputTarget): Promise<FinishedSummary> {
  const { output } = files;
  if (unfinished?.retry !== undefined) return unfinished.retry.before;
  if (discarded?.retry !== undefined && (await isReplaced(output, discarded))) return discarded.retry.before;
  return (await openFinished(output, 'refuse')).summary;
}

/** The threshold of `answer.abstain` stays. @throws UsageError when the summary does not contain it */
function amendingJob(settings: Settings, { output, details }: FinishedSummary): Settings {
  const { answer } = settings;
  if (answer.kind !== 'labels' || answer.abstainFor === undefined) return settings;
  const { abstainFor: _, ...spec } = answer;
  const { abstain } = details.steps;
  if (abstain !== undefined)
    return { ...settings, answer: { ...spec, abstainBelow: abstain.threshold ?? 0 } };
  throw new UsageError(
    'no_threshold',
    `the job has answer.abstain, and the summary of ${output} has no threshold that was found for it`,
    'Take answer.abstain_below with a threshold of your own, or run the job again with --overwrite.',
  );
}

/** Translates the number of a copied outcome's source from the retry to the input. */
function real(outcome: Outcome, numberOf: (place: number) => number): Outcome {
  if (outcome.status === 'skipped' || outcome.origin === undefined || !('copied_from' in outcome.origin))
    return outcome;
  return { ...outcome, origin: { copied_from: numberOf(outcome.origin.copied_from) } };
}
