import { existsSync } from 'node:fs';
import { retryCommandFor } from '../account/retry-command.js';
import { type StoredSummary, type SummaryParts, summarise } from '../account/summary.js';
import type { Settings } from '../config/settings.js';
import { within } from '../core/clock.js';
import { UsageError } from '../core/errors.js';
import { type Counts, countsOfEach } from '../core/counters.js';
import { count, counted, sampleText } from '../core/figures.js';
import { prepareStateDir } from '../core/folder.js';
import type { HaltReason } from '../core/halt.js';
import { RunHeartbeatSender } from '../ops/heartbeat-sender.js';
import { NO_TOKENS, plus, spentText } from '../pace/budget.js';
import { askedText } from '../prompt/row-request.js';
import { lastRunOf, recordedLastRun } from '../resume/last-run.js';
import { removeManifest } from '../resume/manifest.js';
import type { OutputFiles } from '../resume/output-files.js';
import { type OutputTarget, takeOutput } from '../resume/output-target.js';
import { beginExecution, type RunStart } from '../resume/resume.js';
import { WholeOutput } from '../resume/whole-output.js';
import type { ServiceAddress } from '../service/address.js';
import { deploymentsOf } from '../service/endpoint-spec.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';
import type { Amending, RowsToCall } from './amending.js';
import { HostedBatches } from './batch/hosted-batches.js';
import { driftNow } from './drift.js';
import { type EngineParts, runEngine } from './engine.js';
import { checkSteps, FINISHING, finish, writeOrRemoveReport } from './finishing.js';
import { type Input, openInput } from './input.js';
import { mistakes } from './mistakes.js';
import { planRows } from './plan.js';
import { missedBy } from './require.js';
import type { OfflineContext, RunContext } from './run-context.js';

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
  /** Rows of the input that `--limit` or `--sample` left out. */
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
 * Runs a job, or continues its unfinished run. The one path of all runs: also of those that add rows to a
 * finished output, or call some of them again.
 * @param amend called with the output; null when there is no finished one
 * @throws UsageError when it cannot start; nothing was sent
 */
export async function runJob(
  settings: Settings,
  offline: OfflineContext,
  amend?: (found: OutputTarget) => Promise<Amending | null>,
): Promise<RunResult> {
  // With no row to call, neither address nor key is needed.
  if (amend === undefined) await offline.connect();
  prepareStateDir(settings.stateDir);
  const found = await takeOutput(settings, new Date(), offline);
  try {
    const amending = (found && (await amend?.(found))) ?? null;
    const job = amending?.settings ?? settings;
    const input = await openInput(job, offline);
    try {
      await amending?.checkInput(input);
      const plan = await planRows(job, input.survey);
      if (amending === null)
        return await callRows({ target: found, input, plan, settings, replacing: null }, offline);
      const chosen = await amending.choose(input, plan);
      if (chosen !== null) return await callRows(chosen, offline);
      return await unchanged(amending, found, offline);
    } finally {
      input.discard();
    }
  } finally {
    found?.lock?.release();
  }
}

async function callRows(
  { target, input, plan, settings, replacing }: RowsToCall,
  offline: OfflineContext,
): Promise<RunResult> {
  const context = await offline.connect();
  if (replacing === null) checkSteps(settings, input.survey, plan.format);
  const warnings = replacing === null ? await mistakes(settings, input, plan, context.halt) : [];
  const tell = (begun: RunStart): void => {
    announce(settings, context, input, begun);
    for (const warning of warnings) context.say(`warning: ${warning}`);
  };
  if (settings.batch !== null) checkBatches(settings, target);
  const { discarded, unfinished } = target ?? {};
  const ofBatches = { settings, endpoint: context.endpoints[0], say: context.say };
  // As long as they are not cancelled, the run is not given up.
  if (discarded && !unfinished)
    await HostedBatches.cancel({ ...ofBatches, run: discarded.run }, context.halt);
  const execution = await beginExecution(target, input, plan.header, settings, context, tell);
  const { run } = execution.committer.manifest;
  try {
    const batches = await HostedBatches.open({ ...ofBatches, run, from: discarded?.run });
    const parts = { ...execution, input, plan, replacing, batches };
    return await execute(parts, settings, context).finally(() => batches?.leave());
  } finally {
    await execution.close();
  }
}

/** @throws UsageError */
function checkBatches({ work }: Settings, target: OutputTarget | null): void {
  const [what, remedy] = !work
    ? ['batches are made by the process that runs the job', 'Leave --no-work out.']
    : ['a run with batches goes on later, which standard output cannot', 'Write to a file.'];
  if (work && target !== null) return;
  throw new UsageError('no_batches', what, `${remedy} Or take service.tier: batch out of the job.`);
}

/** The result of a run without rows. */
async function unchanged(
  { before: summary, settings }: Amending,
  target: OutputTarget | null,
  { connect, say }: OfflineContext,
): Promise<RunResult> {
  const files = target?.files ?? null;
  const kept = summary.rows.total;
  const result = { summary, halted: null, files, review: null, report: null, beyond: 0, kept };
  if (files === null || !target?.finished || !existsSync(files.manifest)) return { ...result, retried: 0 };
  // The run that made the output was killed when it had given its name: the rest is done here.
  await connect();
  const report = await writeOrRemoveReport({ settings, say }, files, summary);
  removeManifest(files.manifest);
  return { ...result, report };
}

interface RunParts extends EngineParts, Pick<RowsToCall, 'replacing'> {}

async function execute(parts: RunParts, settings: Settings, context: RunContext): Promise<RunResult> {
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
    if (parts.replacing === null) {
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
  const { target, input, store, committer, reuse, plan, replacing } = parts;
  const { answer } = settings;
  let halted = halt.reason;
  if (reuse?.isFull) say(`warning: ${TOO_MANY_KEYS}`);
  const beyond = input.survey.rows - input.total;
  // A run over the first rows will continue: it lacks gold, and would overwrite a review being filled in.
  const isWhole = halted === null && beyond === 0;
  if (halted === null && !isWhole && answer.kind === 'labels' && answer.abstainFor !== undefined)
    say(NO_THRESHOLD);
  const mayReview =
    isWhole && plan.reviewed !== null && ((await replacing?.mayReview(committer.manifest)) ?? true);
  const ending = {
    ...{ settings, committer, reuse, say, halt },
    whole: new WholeOutput(committer),
    survey: input.survey,
    format: plan.format,
    steps: isWhole ? (replacing?.steps ?? FINISHING) : [],
    review: mayReview && plan.reviewed ? { columns: plan.reviewed, replace: replacing !== null } : null,
    summary: () => {
      const summary = endSummary(settings, parts);
      const unknown = summary.errors[OUTCOME_UNKNOWN] ?? 0;
      if (unknown > 0) say(`warning: ${heldText(unknown, summary.output, settings.emulated)}`);
      return summary;
    },
  };
  const finished = halted === null ? await finish(ending) : null;
  if (finished === null) {
    halted = halt.reason;
    await committer.pause();
  }
  // Without a file there is nothing to resume.
  if (halted === null) await parts.batches?.discard();
  if (halted === null || target === null) {
    await within(5_000, store.ledger.close(committer.manifest.run)).catch(() => {});
    if (halted !== null) await reuse?.discard();
  }
  const { files } = committer;
  const { summary, report } = finished ?? {
    summary: summarise(summaryParts(settings, parts, halted)),
    report: null,
  };
  const review = finished !== null && ending.review !== null ? (files?.review ?? null) : null;
  return { summary, halted, files, review, report, beyond, kept };
}

/** The summary of a run that was not halted. */
function endSummary(settings: Settings, parts: RunParts): StoredSummary {
  const { input, committer, replacing } = parts;
  const own = summaryParts(settings, parts, null);
  if (replacing !== null) return replacing.summary(own, committer.manifest);
  const beyond = input.survey.rows - input.total;
  if (beyond > 0) return { ...summarise(own), beyond };
  const { run, steps } = committer.manifest;
  const lastRun = lastRunOf(settings, run);
  const rejected = steps.require && { good_output: lastRunOf(settings, run, true)?.output ?? null };
  // A killed execution may already have replaced the summary of the last run.
  const told = lastRun === null && committer.files && recordedLastRun(committer.files.summary, run);
  return {
    ...summarise({ ...own, lastRun, ...(rejected && { rejected }) }),
    ...(told && { last_run: told }),
  };
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

function announce(
  settings: Settings,
  { say, endpoints }: RunContext,
  { total, sample, survey, done }: Input,
  { target, manifest, store }: RunStart,
): void {
  const { input, emulated, limits, work } = settings;
  const from = input.name;
  const bad = survey.badRows > 0 ? `, ${count(survey.badRows)} of them unreadable` : '';
  say(
    `${settings.job}: ${counted(total, 'row')} of ${from}${bad} → ${target?.files.output ?? 'standard output'}`,
  );
  if (sample !== null) say(sampleText(sample, total, survey.rows));
  if (survey.note !== undefined) say(`${from}: ${survey.note}`);
  for (const text of done?.texts ?? []) say(text);
  if (total === 0) say(`${from} has no record: there is nothing to call`);
  if (target?.warning) say(`warning: ${target.warning}`);
  const where = ({ baseUrl = '' }: ServiceAddress): string =>
    emulated ? 'an emulator on this machine' : baseUrl;
  const called = endpoints.map(({ deployment, address }) => `${deployment} at ${where(address)}`);
  const proxies = new Set(endpoints.flatMap(({ address }) => address.proxy?.address ?? []));
  say(
    work
      ? `calling ${called.join(' and ')}, up to ${limits.concurrency} at a time; queue in ${store.describe()}`
      : `leaving the calls to workers; queue in ${store.describe()}`,
  );
  for (const proxy of proxies) say(`calls go through the proxy ${proxy}`);
  if (manifest.execution > 1 && limits.budget !== null)
    say(`budget: ${spentText({ ...limits.budget, ...settings.budgetPrices }, manifest.calls)} spent`);
}

function summaryParts(
  settings: Settings,
  { input, committer, batches }: EngineParts,
  halted: HaltReason | null,
): SummaryParts {
  const { manifest } = committer;
  const isWhole = halted === null && manifest.rows === input.total;
  const output = committer.files?.output ?? '-';
  const { drift: _, ...others } = isWhole ? manifest.steps : {};
  const drift = isWhole ? driftNow(manifest.steps, settings) : null;
  const steps = { ...others, ...(drift && { drift }) };
  return {
    run: manifest.run,
    job: settings.job,
    ...(settings.jobFile !== null && { job_file: settings.jobFile }),
    ...(settings.jobSet.length > 0 && { job_set: settings.jobSet }),
    deployment: deploymentsOf(settings.endpoints.map(({ spec }) => spec)),
    api_version: settings.endpoint.apiVersion,
    emulated: settings.emulated,
    input: { path: settings.input.path, sha256: input.survey.sha256, rows: input.total },
    output,
    started_at: manifest.started_at,
    finished_at: new Date().toISOString(),
    duration_s: committer.workedMs / 1000,
    stopped: stopOf(halted),
    missed: isWhole ? missedBy(settings, manifest, output) : null,
    tally: manifest.tally,
    steps,
    since: manifest.since,
    calls: manifest.calls,
    prices: settings.prices,
    currency: settings.currency,
    ...(settings.endpoints.length > 1 && {
      byEndpoint: endpointFigures(settings, manifest.calls),
    }),
    hasTiers: settings.hasTiers,
    ...(batches && { batches: batches.list }),
    hasGold: settings.gold !== null,
    reuses: settings.reuse.dedupe || settings.reuse.onlyNew || manifest.tally.reused !== undefined,
    sample: input.sample,
    details: {
      timeline: committer.timeline,
      settings: manifest.values,
      state: {
        fingerprint: manifest.fingerprint,
        execution: manifest.execution,
        // Of the budget, which goes on when rows are added.
        ...plus(manifest.calls, batches?.claimed ?? NO_TOKENS),
        ...(manifest.flex_since !== undefined && { flex_since: manifest.flex_since }),
        ...(manifest.sample !== undefined &&
          manifest.rows < input.survey.rows && { sample: manifest.sample }),
      },
      limits: limitsOf(settings),
      input_bytes: input.survey.bytes,
      prompt: askedText(settings),
    },
  };
}

function endpointFigures({ endpoints }: Settings, calls: Counts): NonNullable<SummaryParts['byEndpoint']> {
  const names = endpoints.map(({ spec }) => spec.name);
  const counts = countsOfEach(names, calls);
  return endpoints.map(({ spec: { name }, prices }) => ({
    ...{ name, prices, calls: 0, rate_limited: 0 },
    ...counts[name],
  }));
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
