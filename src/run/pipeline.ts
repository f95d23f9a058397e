import { spentText } from '../budget/budget.js';
import type { Settings } from '../config/settings.js';
import { within } from '../deadline.js';
import { errorText } from '../errors.js';
import { count, counted } from '../figures.js';
import { RunHeartbeat } from '../fleet/heartbeat.js';
import { prepareStateDir } from '../folder.js';
import type { HaltReason } from '../halt.js';
import { review } from '../output/review.js';
import { driftMiss } from '../report/drift.js';
import { bothMissed, missOf } from '../report/require.js';
import { retryCommandFor } from '../report/retry-command.js';
import { type Summary, type SummaryParts, summarise } from '../report/summary.js';
import type { Committer } from '../resume/committer.js';
import { lastRunOf, lastRunTold } from '../resume/last-run.js';
import type { OutputFiles } from '../resume/output-files.js';
import { takeOutput } from '../resume/output-target.js';
import { removeReport, writeReport } from '../resume/report-file.js';
import { type Begun, goOn } from '../resume/resume.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';
import { abstain } from './abstain.js';
import { checkDrift, findDrift } from './drift.js';
import { type EngineParts, runEngine } from './engine.js';
import { type Input, openInput } from './input.js';
import { planRows } from './plan.js';
import type { World } from './world.js';

export interface RunResult {
  readonly summary: Summary;
  /** Why the run ended before its last row; null when it is finished. */
  readonly halted: HaltReason | null;
  /** The files of the run; null where the output is standard output. */
  readonly files: OutputFiles | null;
  /** The file with the rows that a person should see; null where the job has none, or the run did not finish. */
  readonly review: string | null;
  /** The page with the report; null where the job has none, the run did not finish, or it could not be made. */
  readonly report: string | null;
  /** Rows of the input that `--limit` left out. */
  readonly beyond: number;
  /** Rows that are written, and rows whose outcome the store keeps until the run goes on. */
  readonly kept: number;
  /** Rows of a finished output that were to be called again; with 0 nothing was changed. Absent for a run. */
  readonly retried?: number;
}

/** The exit code of a run that was not interrupted. What was asked of it and missed says more than that rows failed. */
export function exitOf({ summary, halted }: Pick<RunResult, 'summary' | 'halted'>): 0 | 1 | 3 | 4 {
  if (halted !== null) return 3;
  if (summary.missed !== null) return 4;
  return summary.rows.failed > 0 ? 1 : 0;
}

/**
 * Runs a job, or continues its unfinished run: from the input to the output and the summary.
 * @throws UsageError when it cannot start; then nothing was sent
 */
export async function runJob(settings: Settings, world: World): Promise<RunResult> {
  prepareStateDir(settings.stateDir);
  const found = await takeOutput(settings, new Date(), world);
  try {
    const input = await openInput(settings, world);
    try {
      const plan = await planRows(settings, input.survey);
      checkDrift(settings, input.survey, plan.format);
      const tell = (begun: Begun): void => announce(settings, world, input, begun);
      const execution = await goOn(found, input, plan.header, settings, world, tell);
      return await execute({ ...execution, input, plan }, settings, world).finally(execution.close);
    } finally {
      input.discard();
    }
  } finally {
    found?.lock?.release();
  }
}

/** How a run ends whose rows take the places of others, in an output that is finished. */
interface Mending {
  /** Has the output written anew, out of its other records and those of the run. */
  merge(committer: Committer): Promise<void>;
  /** The summary of the output. @param own what that of the run alone is made of */
  summary(own: SummaryParts): Summary;
  /** Whether the rows for review may be written anew. */
  mayReview(committer: Committer): Promise<boolean>;
}

interface RunParts extends EngineParts {
  readonly mending?: Mending;
}

/** From the first row to the summary. */
export async function execute(parts: RunParts, settings: Settings, world: World): Promise<RunResult> {
  const { store, queue, input, committer } = parts;
  let ended: Pick<Summary, 'finished_at' | 'duration_s' | 'rows_per_second'> | null = null;
  // As it stands, whenever it is asked; its times are in the end those that the files say, which took time to write.
  const summary = (): Summary => ({
    ...summarise(summaryParts(settings, parts, world.halt.reason)),
    ...ended,
  });
  const heartbeat = new RunHeartbeat(
    {
      keyValue: store.keyValue,
      log: world.log,
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
    const kept = await runEngine(settings, world, parts, heartbeat);
    const result = await endRun(kept, parts, settings, world);
    if (parts.mending === undefined) {
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

/** Gives the output its name when every row is in it; else leaves the run as the same command finds it. */
async function endRun(
  kept: number,
  parts: RunParts,
  settings: Settings,
  { halt, say }: World,
): Promise<RunResult> {
  const { target, input, store, committer, reuse, plan, mending } = parts;
  const { answer, output } = settings;
  let halted = halt.reason;
  if (reuse?.isFull) say(`warning: ${TOO_MANY_KEYS}`);
  const beyond = input.survey.rows - input.total;
  // A run over the first rows goes on: it has not all rows with gold yet, and would write over what people have filled in.
  let isWhole = halted === null && beyond === 0;
  if (isWhole) await (mending?.merge(committer) ?? abstain(committer, settings, plan.format));
  else if (halted === null && answer.kind === 'labels' && answer.abstainFor !== undefined) say(NO_THRESHOLD);
  if (isWhole && mending === undefined && settings.drift !== null) {
    await findDrift(committer, settings, input.survey, { say, halt });
    halted = halt.reason;
    isWhole = halted === null;
  }
  const lastRun = isWhole && target && !mending ? lastRunOf(settings, committer.manifest.run) : null;
  const own = { ...summaryParts(settings, parts, halted), lastRun };
  // The summary of the last run may have been replaced by an execution that was killed then.
  const told =
    isWhole && target && !lastRun ? lastRunTold(target.files.summary, committer.manifest.run) : undefined;
  const now = (isWhole && mending?.summary(own)) || summarise(own);
  const summary = {
    ...now,
    ...(told && { last_run: told }),
    ...(halted === null && beyond > 0 && { beyond }),
  };
  const unknown = summary.errors[OUTCOME_UNKNOWN] ?? 0;
  if (halted === null && unknown > 0) say(`warning: ${heldText(unknown, summary.output, settings.emulated)}`);
  const mayReview = isWhole && plan.reviewed !== null && ((await mending?.mayReview(committer)) ?? true);
  const reviewed = mayReview ? plan.reviewed : null;
  let report: string | null = null;
  if (halted === null) {
    await committer.finish(summary, {
      keep: async () => reuse?.finish(),
      more: beyond > 0,
      review: reviewed && {
        of: (bytes) => review(output.format.readBack(bytes, summary.output), reviewed, output.formulas),
        onUnread: (reason) => say(`warning: no rows for review: ${reason}`),
        replace: mending !== undefined,
      },
      named: async () => {
        if (target === null) return;
        if (!settings.report) return await removeReport(target.files);
        report = await writeReport(target.files, summary).catch((error: unknown) => {
          say(`warning: the output is whole, but its report could not be made: ${errorText(error)}`);
          return null;
        });
      },
    });
  } else await committer.pause();
  // Without a file there is nothing to continue.
  if (halted === null || target === null) {
    await within(5_000, store.ledger.close(committer.manifest.run)).catch(() => {});
    if (halted !== null) await reuse?.discard();
  }
  const files = target?.files ?? null;
  return { summary, halted, files, review: reviewed && (files?.review ?? null), report, beyond, kept };
}

const NO_THRESHOLD =
  'no row abstains yet: the threshold of answer.abstain is found when the run has all rows of its input';

/** What a person can do about rows that were not called again. */
const heldText = (rows: number, output: string, emulated: boolean): string =>
  `${counted(rows, 'row')} ended failed with outcome_unknown: perhaps answered and billed, and not called again` +
  (output === '-' ? '' : `. To call them all the same: ${retryCommandFor(output, emulated)}`);

const TOO_MANY_KEYS =
  'there were more different rows than are remembered; of those behind them, rows were called that need not have been, ' +
  'so the counts of copied and carried rows are the least there are';

function endOf(halted: HaltReason | null): 'finished' | 'stopped' | 'interrupted' {
  if (halted === null) return 'finished';
  return halted.kind === 'signal' ? 'interrupted' : 'stopped';
}

/** What is about to happen, in the words of a person who looks on. */
export function announce(
  settings: Settings,
  { say, address }: World,
  { total, survey }: Input,
  { target, manifest, store }: Begun,
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
  { input, target, committer }: EngineParts,
  halted: HaltReason | null,
): SummaryParts {
  const { manifest } = committer;
  const isWhole = halted === null && manifest.rows === input.total;
  const output = target?.files.output ?? '-';
  // The alarm may have changed since it was found.
  const drift =
    isWhole && manifest.drift && settings.drift ? { ...manifest.drift, alarm: settings.drift.alarm } : null;
  return {
    run: manifest.run,
    job: settings.job,
    ...(settings.jobFile !== null && { job_file: settings.jobFile }),
    deployment: settings.endpoint.deployment,
    api_version: settings.endpoint.apiVersion,
    input: { path: settings.input.path, sha256: input.survey.sha256, rows: input.total },
    output,
    started_at: manifest.started_at,
    finished_at: new Date().toISOString(),
    duration_s: committer.workedMs / 1000,
    stopped: stopOf(halted),
    missed: isWhole
      ? bothMissed(
          missOf(manifest.tally, settings.require, manifest.abstention),
          drift && driftMiss(drift, output, settings.reuse.id),
        )
      : null,
    tally: manifest.tally,
    abstention: manifest.abstention,
    since: manifest.since,
    ...(drift && { drift }),
    calls: manifest.calls,
    prices: settings.prices,
    hasGold: settings.gold !== null,
    reuses: settings.reuse.dedupe || settings.reuse.onlyNew,
    details: {
      timeline: committer.timeline,
      settings: manifest.values ?? {},
      limits: {
        concurrency: settings.limits.concurrency,
        requests_per_minute: settings.limits.requestsPerMinute,
        tokens_per_minute: settings.limits.tokensPerMinute,
      },
      input_bytes: input.survey.bytes,
      prompt: settings.prompt,
    },
  };
}

function stopOf(halted: HaltReason | null) {
  switch (halted?.kind) {
    case undefined:
      return null;
    case 'stop':
      return halted.fault;
    case 'signal':
      return { code: 'interrupted', message: `by ${halted.signal}` };
    case 'error':
      return { code: 'error', message: String(halted.error) };
  }
}
