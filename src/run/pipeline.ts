import { createHash } from 'node:crypto';
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../errors.js';
import { acquireLock, type Lock } from '../lock.js';
import type { CallCounts, Counters } from '../model.js';
import { spentText } from '../pace/budget.js';
import { openStore } from '../queue/open-store.js';
import { within } from '../queue/store-deadline.js';
import { type Summary, summarise } from '../report/summary.js';
import { beginManifest, type Claim, claimOutput } from './begin.js';
import { queueOf, work } from './crew.js';
import { fingerprint } from './fingerprint.js';
import type { HaltReason } from './halt.js';
import { type Input, openInput } from './input.js';
import { Journal } from './journal.js';
import type { Manifest } from './manifest.js';
import { planRows } from './plan.js';
import { Reuse } from './reuse.js';
import { RunNotice } from './run-notice.js';
import type { World } from './world.js';

export interface RunResult {
  readonly summary: Summary;
  /** Why the run ended before its last row; null when it is finished. */
  readonly halted: HaltReason | null;
  /** The files of the run; null where the output is standard output. */
  readonly files: Claim['files'] | null;
}

/**
 * Runs a job, or continues its unfinished run: from the input to the output and the summary.
 * @throws UsageError when it cannot start; then nothing was sent
 */
export async function runJob(settings: Settings, world: World): Promise<RunResult> {
  const lock = await lockOutput(settings);
  try {
    const claim = await claimOutput(settings, new Date());
    const input = await openInput(settings, world);
    try {
      return await runOver(input, claim, settings, world);
    } finally {
      input.discard();
    }
  } finally {
    lock?.release();
  }
}

/** The run over an input that was found whole. */
async function runOver(
  input: Input,
  claim: Claim | null,
  settings: Settings,
  world: World,
): Promise<RunResult> {
  const plan = await planRows(settings, input.survey);
  const manifest = beginManifest(claim, settings, fingerprint(settings, input.survey.sha256), new Date());
  const store = await openStore(settings.queue, {
    stateDir: settings.stateDir,
    preferred: manifest.store,
    onWarning: (message) => world.say(`warning: ${message}`),
  });
  let reuse: Reuse | null = null;
  let notice: RunNotice | null = null;
  try {
    announce(settings, world, input, manifest, claim, store.describe());
    const place = store.name ?? store.describe();
    if (manifest.store !== null && manifest.store !== place) {
      world.say(
        `warning: the run was begun with its queue in ${manifest.store}; what it knew there and had not written is called again`,
      );
    }
    reuse = await Reuse.open({ settings, address: world.address, input, claim, manifest });
    if (settings.reuse.onlyNew)
      world.say(`${figure(reuse?.answered ?? 0)} rows are known from the last run of this job`);
    const journal = await Journal.open(claim, { ...manifest, store: place }, plan.header, world.stdout);
    if (claim !== null) await world.onBegun?.(claim.files.manifest);
    // As it stands, whenever it is asked.
    const summaryNow = (): Summary => summaryOf(settings, input, claim, journal, world.halt.reason);
    notice = new RunNotice(
      {
        board: store.board,
        log: world.log,
        settings,
        run: manifest.run,
        queue: queueOf(settings, world),
        summary: summaryNow,
        latency: () => journal.manifest.tally.latency,
      },
      manifest.rows,
    );
    if (claim?.discarded) await notice.replaces(claim.discarded.run);
    await work(settings, world, { claim, input, plan, store, journal, reuse, notice });

    const halted = world.halt.reason;
    const summary = summaryNow();
    if (reuse?.isFull) world.say(`warning: ${TOO_MANY_KEYS}`);
    if (halted === null) await journal.finish(summary, () => reuse?.finish() ?? Promise.resolve());
    else await journal.pause();
    // Without a file there is nothing to continue.
    if (halted === null || claim === null) {
      await within(5_000, store.ledger.close(summary.run)).catch(() => {});
      if (halted !== null) await reuse?.discard();
    }
    await notice.end(endOf(halted));
    if (halted?.kind === 'error') throw halted.error;
    return { summary, halted, files: claim?.files ?? null };
  } finally {
    await reuse?.close();
    await notice?.end('stopped');
    await store.close();
  }
}

const TOO_MANY_KEYS =
  'there were more different rows than are remembered; of those behind them, rows were called that need not have been, ' +
  'so the counts of copied and carried rows are the least there are';

function endOf(halted: HaltReason | null): 'finished' | 'stopped' | 'interrupted' {
  if (halted === null) return 'finished';
  return halted.kind === 'signal' ? 'interrupted' : 'stopped';
}

/** One run for one output (fault 48), whatever date or run its name will have. */
async function lockOutput({ output, stateDir }: Settings): Promise<Lock | null> {
  if (output.path === '-') return null;
  const name = createHash('sha256').update(realPath(output.path)).digest('hex').slice(0, 16);
  try {
    return await acquireLock(join(stateDir, 'locks', name), { purpose: `writing ${output.path}` });
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(
      'bad_state_dir',
      `cannot write in the state directory ${stateDir}: ${error instanceof Error ? error.message : error}`,
      'Make it writable, or name another one with PROMPTMILL_STATE_DIR.',
    );
  }
}

/** A path without links, also of a file and of folders that are not there yet. */
function realPath(path: string): string {
  const target = resolve(path);
  let folder = dirname(target);
  while (!existsSync(folder)) folder = dirname(folder);
  return join(realpathSync(folder), relative(folder, target));
}

/** What is about to happen, in the words of a person who looks on. */
function announce(
  settings: Settings,
  { say, address }: World,
  { total, survey }: Input,
  manifest: Manifest,
  claim: Claim | null,
  store: string,
): void {
  const { input, service, emulated, limits, work } = settings;
  const from = input.path === '-' ? 'standard input' : input.path;
  const bad = survey.badRows > 0 ? `, ${figure(survey.badRows)} of them unreadable` : '';
  say(
    `${settings.job}: ${figure(total)} rows of ${from}${bad} → ${claim?.files.output ?? 'standard output'}`,
  );
  if (claim?.warning) say(`warning: ${claim.warning}`);
  const where = emulated ? 'an emulator on this machine' : (address.baseUrl ?? '');
  say(
    work
      ? `calling ${service.deployment} at ${where}, ${limits.concurrency} at a time; queue in ${store}`
      : `leaving the calls to workers; queue in ${store}`,
  );
  if (manifest.execution > 1)
    say(`continuing run ${manifest.run}: ${figure(manifest.rows)} rows are written already`);
  if (manifest.execution > 1 && limits.budget !== null)
    say(`budget: ${spentText({ ...limits.budget, prices: settings.prices }, manifest.calls)} spent`);
}

const figure = (n: number): string => n.toLocaleString('en-US');

function summaryOf(
  settings: Settings,
  input: Input,
  claim: Claim | null,
  journal: Journal,
  halted: HaltReason | null,
): Summary {
  const { manifest } = journal;
  return summarise({
    run: manifest.run,
    job: settings.job,
    deployment: settings.service.deployment,
    api_version: settings.service.apiVersion,
    input: { path: settings.input.path, sha256: input.survey.sha256, rows: input.total },
    output: claim?.files.output ?? '-',
    started_at: manifest.started_at,
    finished_at: new Date().toISOString(),
    duration_s: journal.workedMs / 1000,
    stopped: stopOf(halted),
    tally: manifest.tally,
    calls: withLost(manifest.calls),
    prices: settings.prices,
    reuses: settings.reuse.dedupe || settings.reuse.onlyNew,
  });
}

/** What is in flight when nobody calls any more was never heard of again: it may have been paid for. */
const withLost = ({ in_flight, ...calls }: Counters): CallCounts => ({
  ...calls,
  repeated: calls.repeated + Math.max(0, in_flight),
});

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
