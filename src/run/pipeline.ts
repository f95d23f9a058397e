import { driftMiss } from '../account/drift.js';
import { bothMissed, missOf } from '../account/require.js';
import { retryCommandFor } from '../account/retry-command.js';
import { type StoredSummary, type SummaryParts, summarise } from '../account/summary.js';
import type { Settings } from '../config/settings.js';
import { within } from '../core/clock.js';
import { errorText } from '../core/errors.js';
import { count, counted } from '../core/figures.js';
import { prepareStateDir } from '../core/folder.js';
import type { HaltReason } from '../core/halt.js';
import { RunHeartbeatSender } from '../ops/heartbeat-sender.js';
import { review } from '../output/review.js';
import { spentText } from '../pace/budget.js';
import { askedText } from '../prompt/row-request.js';
import type { Committer } from '../resume/committer.js';
import { copyForDrift, lastRunOf, recordedLastRun } from '../resume/last-run.js';
import { removeManifest } from '../resume/manifest.js';
import type { OutputFiles } from '../resume/output-files.js';
import { type OutputTarget, takeOutput } from '../resume/output-target.js';
import { removeReport, writeReport } from '../resume/report-file.js';
import { beginExecution, type RunStart } from '../resume/resume.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';
import { type EngineParts, runEngine } from './engine.js';
import { checkSteps, FINISHING } from './finishing.js';
import { type Input, openInput } from './input.js';
import { mistakes } from './mistakes.js';
import { type Plan, planRows } from './plan.js';
import type { OfflineContext, RunContext } from './run-context.js';
import type { FinishingStep } from './step.js';

export interface RunResult {
  readonly summary: StoredSummary;
  /** Why the run ended before its last row; null when it is finished. */
  readonly halted: HaltReason | null;
  /** Null when the output is standard output. */
  readonly files: OutputFiles | null;
  /** The file with the rows for review; null when the job has none, or the run did not finish. */
  readonly review: string | null;
  /** The report page; null when the job has none, the run did not finish, or the page could not be made. */
  readonly report: string | null;
  /** Rows of the input that `--limit` left out. */
  readonly beyond: number;
  /** Rows written, and rows with an outcome that the store keeps until the run continues. */
  readonly kept: number;
  /** Rows selected for retry; with 0, nothing was changed. Absent for a run that calls rows. */
  readonly retried?: number;
}

/** The exit code of an uninterrupted run. A missed requirement is more important than failed rows. */
export function exitOf({ summary, halted }: Pick<RunResult, 'summary' | 'halted'>): 0 | 1 | 3 | 4 {
  if (halted !== null) return 3;
  if (summary.missed !== null) return 4;
  return summary.rows.failed > 0 ? 1 : 0;
}

/**
 * Runs a job, or continues its unfinished run, or adds rows to its output.
 * @param mayAdd asked before anything is sent; false when there is no row to add
 * @throws UsageError when it cannot start; nothing was sent
 */
export async function runJob(
  settings: Settings,
  offline: OfflineContext,
  mayAdd?: (found: OutputTarget, input: Input, plan: Plan) => Promise<boolean>,
): Promise<RunResult> {
  // With no row to add, neither address nor key is needed.
  if (mayAdd === undefined) await offline.connect();
  prepareStateDir(settings.stateDir);
  const found = await takeOutput(settings, new Date(), offline);
  try {
    const input = await openInput(settings, offline);
    try {
      const plan = await planRows(settings, input.survey);
      if (found && mayAdd && !(await mayAdd(found, input, plan))) return unchanged(found);
      const context = await offline.connect();
      checkSteps(settings, input.survey, plan.format);
      const warnings = await mistakes(settings, input, plan, context.halt);
      const tell = (begun: RunStart): void => {
        announce(settings, context, input, begun);
        for (const warning of warnings) context.say(`warning: ${warning}`);
      };
      const execution = await beginExecution(found, input, plan.header, settings, context, tell);
      return await execute({ ...execution, input, plan }, settings, context).finally(execution.close);
    } finally {
      input.discard();
    }
  } finally {
    found?.lock?.release();
  }
}

/** @throws Error for a defect: only a finished output may need no row */
function unchanged({ finished, files }: Pick<OutputTarget, 'finished' | 'files'>): RunResult {
  if (finished === undefined) throw new Error('there is no finished output');
  // Left where the run was killed after its output had got its name.
  removeManifest(files.manifest);
  const kept = finished.rows.total;
  const result = { summary: finished, halted: null, files, review: null, report: null, beyond: 0, kept };
  return { ...result, retried: 0 };
}

/** The end of a run whose rows replace rows of a finished output. */
interface Amendment {
  /** Replaces `FINISHING`: rewrites the output from its other records and those of the run. */
  readonly steps: readonly FinishingStep[];
  /** @param own the parts of the run's own summary */
  summary(own: SummaryParts): StoredSummary;
  mayReview(committer: Committer): Promise<boolean>;
}

interface RunParts extends EngineParts {
  readonly amendment?: Amendment;
}

export async function execute(parts: RunParts, settings: Settings, context: RunContext): Promise<RunResult> {
  const { store, queue, input, committer } = parts;
  let ended: Pick<StoredSummary, 'finished_at' | 'duration_s' | 'rows_per_second'> | null = null;
  let result: RunResult | null = null;
  // Recomputed at each call. At the end it has the times in the files, which took time to write. A halt after the
  // last step changes nothing.
  const summary = (): StoredSummary => ({
    ...summarise(summaryParts(settings, parts, result === null ? context.halt.reason : result.halted)),
    ...ended,
  });
  const heartbeat = new RunHeartbeatSender(
    {
      keyValue: store.keyValue,
      log: context.log,
      settings,
      run: committer.manifest.run,
      queue: queue.name,
      beyond: input.survey.rows - input.total,
      summary,
      latency: () => committer.manifest.tally.latency,
    },
    committer.manifest.rows,
  );
  try {
    const kept = await runEngine(settings, context, parts, heartbeat);
    result = await endRun(kept, parts, settings, context);
    if (parts.amendment === undefined) {
      const { finished_at, duration_s, rows_per_second } = result.summary;
      ended = { finished_at, duration_s, rows_per_second };
    }
    await heartbeat.end(endOf(result.halted));
    if (result.halted?.kind === 'error') throw result.halted.error;
    return result;
  } finally {
    await heartbeat.end('stopped');
  }
}

async function endRun(
  kept: number,
  parts: RunParts,
  settings: Settings,
  { halt, say }: RunContext,
): Promise<RunResult> {
  const { target, input, store, committer, reuse, plan, amendment } = parts;
  const { answer, output } = settings;
  let halted = halt.reason;
  if (reuse?.isFull) say(`warning: ${TOO_MANY_KEYS}`);
  const beyond = input.survey.rows - input.total;
  // A run over the first rows will continue: it lacks gold, and would overwrite a review being filled in.
  let isWhole = halted === null && beyond === 0;
  if (halted === null && !isWhole && answer.kind === 'labels' && answer.abstainFor !== undefined)
    say(NO_THRESHOLD);
  const finishing = { committer, settings, survey: input.survey, format: plan.format, say, halt };
  for (const step of isWhole ? (amendment?.steps ?? FINISHING) : []) {
    if (await step.run(finishing)) continue;
    halted = halt.reason;
    isWhole = false;
    break;
  }
  const files = committer.files;
  const good = isWhole && !amendment ? lastRunOf(settings, committer.manifest.run, true) : null;
  const lastRun = isWhole && target && !amendment ? lastRunOf(settings, committer.manifest.run) : null;
  const own = {
    ...summaryParts(settings, parts, halted),
    lastRun,
    ...(isWhole && committer.manifest.steps.require && { rejected: { good_output: good?.output ?? null } }),
  };
  // A killed execution may already have replaced the summary of the last run.
  const told =
    isWhole && files && !lastRun ? recordedLastRun(files.summary, committer.manifest.run) : undefined;
  const now = (isWhole && amendment?.summary(own)) || summarise(own);
  let summary: StoredSummary = {
    ...now,
    ...(told && { last_run: told }),
    ...(halted === null && beyond > 0 && { beyond }),
  };
  const unknown = summary.errors[OUTCOME_UNKNOWN] ?? 0;
  if (halted === null && unknown > 0) say(`warning: ${heldText(unknown, summary.output, settings.emulated)}`);
  const mayReview = isWhole && plan.reviewed !== null && ((await amendment?.mayReview(committer)) ?? true);
  const reviewed = mayReview ? plan.reviewed : null;
  let report: string | null = null;
  if (halted === null) {
    summary = await committer.finish(summary, {
      keep: async () => {
        // Answers below the requirement are not carried over: they would reject every later run (fault 105).
        await (committer.manifest.steps.require === undefined ? reuse?.finish() : reuse?.discard());
        const isReplaced = good !== null && good.output === files?.output;
        if (settings.drift !== null && summary.missed !== null && isReplaced) await copyForDrift(good);
      },
      review: reviewed && {
        of: (bytes) => {
          const records = { name: summary.output, format: output.format, bytes: () => bytes };
          return review(records, reviewed, output.formulas);
        },
        onUnread: (reason) => say(`warning: no rows for review: ${reason}`),
        replace: amendment !== undefined,
      },
      named: async () => {
        if (files === null) return;
        if (!settings.report) return await removeReport(files);
        report = await writeReport(files, summary).catch((error: unknown) => {
          say(`warning: the output is whole, but its report could not be made: ${errorText(error)}`);
          return null;
        });
      },
    });
  } else await committer.pause();
  // Without a file there is nothing to resume.
  if (halted === null || target === null) {
    await within(5_000, store.ledger.close(committer.manifest.run)).catch(() => {});
    if (halted !== null) await reuse?.discard();
  }
  return { summary, halted, files, review: reviewed && (files?.review ?? null), report, beyond, kept };
}

const NO_THRESHOLD =
  'no row abstains yet: the threshold of answer.abstain is found when the run has all rows of its input';

const heldText = (rows: number, output: string, emulated: boolean): string =>
  `${counted(rows, 'row')} ended failed with outcome_unknown: perhaps answered and billed, and not called again` +
  (output === '-' ? '' : `. To call them all the same: ${retryCommandFor(output, emulated)}`);

const TOO_MANY_KEYS =
  'too many distinct rows to remember: later duplicates were called again, so the counts of copied and carried rows are lower bounds';

function endOf(halted: HaltReason | null): 'finished' | 'stopped' | 'interrupted' {
  if (halted === null) return 'finished';
  return halted.kind === 'signal' ? 'interrupted' : 'stopped';
}

export function announce(
  settings: Settings,
  { say, address }: RunContext,
  { total, survey }: Input,
  { target, manifest, store }: RunStart,
): void {
  const { input, endpoint, emulated, limits, work } = settings;
  const from = input.name;
  const bad = survey.badRows > 0 ? `, ${count(survey.badRows)} of them unreadable` : '';
  say(
    `${settings.job}: ${counted(total, 'row')} of ${from}${bad} → ${target?.files.output ?? 'standard output'}`,
  );
  if (survey.note !== undefined) say(`${from}: ${survey.note}`);
  if (total === 0) say(`${from} has no record: there is nothing to call`);
  if (target?.warning) say(`warning: ${target.warning}`);
  const where = emulated ? 'an emulator on this machine' : (address.baseUrl ?? '');
  say(
    work
      ? `calling ${endpoint.deployment} at ${where}, ${limits.concurrency} at a time; queue in ${store.describe()}`
      : `leaving the calls to workers; queue in ${store.describe()}`,
  );
  if (address.proxy) say(`calls go through the proxy ${address.proxy.address}`);
  if (manifest.execution > 1 && limits.budget !== null)
    say(`budget: ${spentText({ ...limits.budget, prices: settings.prices }, manifest.calls)} spent`);
}

function summaryParts(
  settings: Settings,
  { input, committer }: EngineParts,
  halted: HaltReason | null,
): SummaryParts {
  const { manifest } = committer;
  const isWhole = halted === null && manifest.rows === input.total;
  const output = committer.files?.output ?? '-';
  const { drift: found, ...others } = isWhole ? manifest.steps : {};
  // The alarm may have changed since the step ran.
  const drift = found && settings.drift ? { ...found, alarm: settings.drift.alarm } : null;
  const steps = { ...others, ...(drift && { drift }) };
  return {
    run: manifest.run,
    job: settings.job,
    ...(settings.jobFile !== null && { job_file: settings.jobFile }),
    deployment: settings.endpoint.deployment,
    api_version: settings.endpoint.apiVersion,
    emulated: settings.emulated,
    input: { path: settings.input.path, sha256: input.survey.sha256, rows: input.total },
    output,
    started_at: manifest.started_at,
    finished_at: new Date().toISOString(),
    duration_s: committer.workedMs / 1000,
    stopped: stopOf(halted),
    missed: isWhole
      ? bothMissed(
          steps.require ?? missOf(manifest.tally, settings.require, steps.abstain),
          drift && driftMiss(drift, output, settings.reuse.id),
        )
      : null,
    tally: manifest.tally,
    steps,
    since: manifest.since,
    calls: manifest.calls,
    prices: settings.prices,
    hasGold: settings.gold !== null,
    reuses: settings.reuse.dedupe || settings.reuse.onlyNew,
    details: {
      timeline: committer.timeline,
      settings: manifest.values,
      state: {
        fingerprint: manifest.fingerprint,
        execution: manifest.execution,
        prompt_tokens: manifest.calls.prompt_tokens,
        completion_tokens: manifest.calls.completion_tokens,
      },
      limits: limitsOf(settings),
      input_bytes: input.survey.bytes,
      prompt: askedText(settings),
    },
  };
}

const limitsOf = ({ limits, endpoint }: Settings): StoredSummary['details']['limits'] => ({
  concurrency: limits.concurrency,
  requests_per_minute: limits.requestsPerMinute,
  tokens_per_minute: limits.tokensPerMinute,
  prompts_per_request: limits.promptsPerRequest,
  timeout_s: endpoint.timeoutMs / 1000,
  attempts: limits.attempts,
  unknown_outcome: limits.unknownOutcome,
  budget: limits.budget ?? { tokens: null, cost: null },
  give_up_s: limits.giveUpMs / 1000,
  deadline_s: limits.deadlineMs === null ? null : limits.deadlineMs / 1000,
  stop_after: {
    failures: limits.stopAfterFailures.failures ?? null,
    abstained: limits.stopAfterFailures.abstained ?? null,
  },
  canary: limits.canary,
});

function stopOf(halted: HaltReason | null) {
  switch (halted?.kind) {
    case undefined:
      return null;
    case 'stop':
      return halted.problem;
    case 'signal':
      return { code: 'interrupted', message: `by ${halted.signal}` };
    case 'error':
      return { code: 'error', message: String(halted.error) };
  }
}
