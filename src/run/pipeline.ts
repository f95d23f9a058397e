import { spentText } from '../budget/budget.js';
import type { Settings } from '../config/settings.js';
import { count, counted } from '../figures.js';
import { RunHeartbeat } from '../fleet/heartbeat.js';
import { prepareStateDir } from '../folder.js';
import type { HaltReason } from '../halt.js';
import { type Summary, summarise } from '../report/summary.js';
import { beginManifest, findTarget, type OutputTarget, settleTarget } from '../resume/begin.js';
import { Committer } from '../resume/committer.js';
import { fingerprint } from '../resume/fingerprint.js';
import type { Manifest } from '../resume/manifest.js';
import { lockOutput } from '../resume/output-lock.js';
import { within } from '../store/deadline.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';
import { openStore } from '../store/open.js';
import { queueOf, work } from './engine.js';
import { type Input, openInput } from './input.js';
import { planRows } from './plan.js';
import { Reuse } from './reuse.js';
import type { World } from './world.js';

export interface RunResult {
  readonly summary: Summary;
  /** Why the run ended before its last row; null when it is finished. */
  readonly halted: HaltReason | null;
  /** The files of the run; null where the output is standard output. */
  readonly files: OutputTarget['files'] | null;
  /** Rows of the input that `--limit` left out. */
  readonly beyond: number;
  /** Rows whose outcome is known, also where it is not written yet. */
  readonly known: number;
}

/**
 * Runs a job, or continues its unfinished run: from the input to the output and the summary.
 * @throws UsageError when it cannot start; then nothing was sent
 */
export async function runJob(settings: Settings, world: World): Promise<RunResult> {
  const now = new Date();
  prepareStateDir(settings.stateDir);
  const place = await lockOutput(settings, now, world);
  try {
    const target = place === null ? null : await findTarget(settings, now, place);
    const input = await openInput(settings, world);
    try {
      return await runOver(input, target, settings, world);
    } finally {
      input.discard();
    }
  } finally {
    place?.lock?.release();
  }
}

/** The run over an input that was found whole. */
async function runOver(
  input: Input,
  found: OutputTarget | null,
  settings: Settings,
  world: World,
): Promise<RunResult> {
  const plan = await planRows(settings, input.survey);
  const print = fingerprint(settings, input.survey.sha256);
  const target = await settleTarget(found, settings, print, new Date());
  const manifest = beginManifest(target, settings, print, new Date());
  const opening = openStore(settings.queue, {
    stateDir: settings.stateDir,
    preferred: manifest.store,
    onWarning: (message) => world.say(`warning: ${message}`),
  });
  const store = await world.halt.orHalted(opening).catch((error) => {
    // Halted meanwhile: whatever it opens yet is left at once.
    void opening.then((late) => late.close()).catch(() => {});
    throw error;
  });
  let reuse: Reuse | null = null;
  let heartbeat: RunHeartbeat | null = null;
  try {
    announce(settings, world, input, manifest, target, store.describe());
    const place = store.name ?? store.describe();
    if (manifest.store !== null && manifest.store !== place) {
      world.say(
        `warning: the run was begun with its queue in ${manifest.store}; what it knew there and had not written is called again`,
      );
    }
    reuse = await Reuse.open({ settings, address: world.address, input, target, manifest });
    if (settings.reuse.onlyNew)
      world.say(`${count(reuse?.answered ?? 0)} rows are known from the last run of this job`);
    // The ledger forgets a run that has finished with its first rows, and then no call of it is unwritten.
    const reachBefore = target?.unfinished?.finished === undefined ? (manifest.reach ?? 0) : 0;
    const committer = await Committer.open(
      target,
      { ...manifest, store: place, reach: Math.max(input.total, reachBefore) },
      plan.header,
      world.stdout,
      input.total,
    );
    await world.onBegun?.(target?.files.manifest ?? null);
    // As it stands, whenever it is asked.
    const summaryNow = (): Summary => summaryOf(settings, input, target, committer, world.halt.reason);
    heartbeat = new RunHeartbeat(
      {
        keyValue: store.keyValue,
        log: world.log,
        settings,
        run: manifest.run,
        queue: queueOf(settings, world),
        summary: summaryNow,
        latency: () => committer.manifest.tally.latency,
      },
      manifest.rows,
    );
    if (target?.discarded) await heartbeat.replaces(target.discarded.run);
    const known = await work(settings, world, { target, input, plan, store, committer, reuse, heartbeat });

    const halted = world.halt.reason;
    const summary = summaryNow();
    if (reuse?.isFull) world.say(`warning: ${TOO_MANY_KEYS}`);
    const unknown = summary.errors[OUTCOME_UNKNOWN] ?? 0;
    if (halted === null && unknown > 0) world.say(`warning: ${heldText(unknown)}`);
    const beyond = input.survey.rows - input.total;
    if (halted === null)
      await committer.finish(summary, () => reuse?.finish() ?? Promise.resolve(), beyond > 0);
    else await committer.pause();
    // Without a file there is nothing to continue.
    if (halted === null || target === null) {
      await within(5_000, store.ledger.close(summary.run)).catch(() => {});
      if (halted !== null) await reuse?.discard();
    }
    await heartbeat.end(endOf(halted));
    if (halted?.kind === 'error') throw halted.error;
    return { summary, halted, files: target?.files ?? null, beyond, known };
  } finally {
    await reuse?.close();
    await heartbeat?.end('stopped');
    await store.close();
  }
}

/** What a person can do about rows that were not called again. */
const heldText = (rows: number): string =>
  `${counted(rows, 'row')} ended failed with outcome_unknown: perhaps answered and billed, and not called ` +
  'again. To call them all the same, put them into a file of their own, and run the job with --input and another --output';

const TOO_MANY_KEYS =
  'there were more different rows than are remembered; of those behind them, rows were called that need not have been, ' +
  'so the counts of copied and carried rows are the least there are';

function endOf(halted: HaltReason | null): 'finished' | 'stopped' | 'interrupted' {
  if (halted === null) return 'finished';
  return halted.kind === 'signal' ? 'interrupted' : 'stopped';
}

/** What is about to happen, in the words of a person who looks on. */
function announce(
  settings: Settings,
  { say, address }: World,
  { total, survey }: Input,
  manifest: Manifest,
  target: OutputTarget | null,
  store: string,
): void {
  const { input, service, emulated, limits, work } = settings;
  const from = input.path === '-' ? 'standard input' : input.path;
  const bad = survey.badRows > 0 ? `, ${count(survey.badRows)} of them unreadable` : '';
  say(
    `${settings.job}: ${count(total)} rows of ${from}${bad} → ${target?.files.output ?? 'standard output'}`,
  );
  if (survey.note !== undefined) say(`${from}: ${survey.note}`);
  if (total === 0) say(`${from} has no record: there is nothing to call`);
  if (target?.warning) say(`warning: ${target.warning}`);
  const where = emulated ? 'an emulator on this machine' : (address.baseUrl ?? '');
  say(
    work
      ? `calling ${service.deployment} at ${where}, ${limits.concurrency} at a time; queue in ${store}`
      : `leaving the calls to workers; queue in ${store}`,
  );
  if (address.proxy) say(`calls go through the proxy ${address.proxy.address}`);
  if (manifest.execution > 1 && limits.budget !== null)
    say(`budget: ${spentText({ ...limits.budget, prices: settings.prices }, manifest.calls)} spent`);
}

function summaryOf(
  settings: Settings,
  input: Input,
  target: OutputTarget | null,
  committer: Committer,
  halted: HaltReason | null,
): Summary {
  const { manifest } = committer;
  return summarise({
    run: manifest.run,
    job: settings.job,
    deployment: settings.service.deployment,
    api_version: settings.service.apiVersion,
    input: { path: settings.input.path, sha256: input.survey.sha256, rows: input.total },
    output: target?.files.output ?? '-',
    started_at: manifest.started_at,
    finished_at: new Date().toISOString(),
    duration_s: committer.workedMs / 1000,
    stopped: stopOf(halted),
    tally: manifest.tally,
    calls: manifest.calls,
    prices: settings.prices,
    reuses: settings.reuse.dedupe || settings.reuse.onlyNew,
  });
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
