import { spentText } from '../budget/budget.js';
import type { Settings } from '../config/settings.js';
import { within } from '../deadline.js';
import { count, counted } from '../figures.js';
import { RunHeartbeat } from '../fleet/heartbeat.js';
import { prepareStateDir } from '../folder.js';
import type { HaltReason } from '../halt.js';
import { ChunkQueue } from '../queue/chunk-queue.js';
import { queueName, serviceQueue } from '../queue/names.js';
import { type Summary, summarise } from '../report/summary.js';
import { Committer } from '../resume/committer.js';
import { fingerprint } from '../resume/fingerprint.js';
import type { Manifest } from '../resume/manifest.js';
import { lockOutput } from '../resume/output-place.js';
import { findTarget, type OutputTarget, settleTarget } from '../resume/output-target.js';
import { beginManifest, giveUp } from '../resume/resume.js';
import { OUTCOME_UNKNOWN } from '../store/ledger.js';
import { openStore } from '../store/open.js';
import type { Store } from '../store/store.js';
import { type EngineParts, runEngine } from './engine.js';
import { type Input, openInput } from './input.js';
import { type Plan, planRows } from './plan.js';
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
  const store = await openStoreOf(manifest, settings, world);
  try {
    announce(settings, world, input, manifest, target, store);
    return await runIn(store, { input, plan, target, manifest }, settings, world);
  } finally {
    await store.close();
  }
}

/** The store of the run's queue and ledger: the one that it was begun with, where it is still there. */
async function openStoreOf({ store: preferred }: Manifest, settings: Settings, world: World): Promise<Store> {
  const onWarning = (message: string): void => world.say(`warning: ${message}`);
  const opening = openStore(settings.queue, { stateDir: settings.stateDir, preferred, onWarning });
  return await world.halt.orHalted(opening).catch((error) => {
    // Halted meanwhile: whatever it opens yet is left at once.
    void opening.then((late) => late.close()).catch(() => {});
    throw error;
  });
}

/** What is settled of a run before its store is opened. */
interface Prepared {
  readonly input: Input;
  readonly plan: Plan;
  readonly target: OutputTarget | null;
  readonly manifest: Manifest;
}

/** From the first file on disk to the summary. */
async function runIn(
  store: Store,
  { input, plan, target, manifest }: Prepared,
  settings: Settings,
  world: World,
): Promise<RunResult> {
  const begun = { ...manifest, store: placeOf(store) };
  const committer = await Committer.open(target, begun, plan.header, world.stdout, input.total);
  await world.onBegun?.(target?.files.manifest ?? null);
  const queue = new ChunkQueue(store, queueOf(settings, world), settings.limits.attempts, world.log);
  // As it stands, whenever it is asked.
  const summary = (): Summary => summaryOf(settings, input, target, committer, world.halt.reason);
  const heartbeat = new RunHeartbeat(
    {
      keyValue: store.keyValue,
      log: world.log,
      settings,
      run: manifest.run,
      queue: queue.name,
      summary,
      latency: () => committer.manifest.tally.latency,
    },
    manifest.rows,
  );
  let reuse: Reuse | null = null;
  try {
    if (target !== null) {
      const traces = { stateDir: settings.stateDir, queue, ledger: store.ledger, heartbeat };
      await world.halt.orHalted(giveUp(target, committer, traces)).catch((error) => {
        throw store.health.usageErrorFor(error);
      });
    }
    reuse = await Reuse.open({ settings, address: world.address, input, manifest });
    if (settings.reuse.onlyNew)
      world.say(`${count(reuse?.answered ?? 0)} rows are known from the last run of this job`);
    const parts = { input, plan, store, queue, committer, reuse, heartbeat };
    const known = await runEngine(settings, world, parts);
    const result = await endRun(summary(), target, known, parts, world);
    await heartbeat.end(endOf(result.halted));
    if (result.halted?.kind === 'error') throw result.halted.error;
    return result;
  } finally {
    await reuse?.close();
    await heartbeat.end('stopped');
    // Where the engine has not come to it: a `serve` would keep its connections.
    await within(1_000, queue.close()).catch(() => {});
  }
}

/** Gives the output its name when every row is in it; else leaves the run as the same command finds it. */
async function endRun(
  summary: Summary,
  target: OutputTarget | null,
  known: number,
  { input, store, committer, reuse }: EngineParts,
  { halt, say }: World,
): Promise<RunResult> {
  const halted = halt.reason;
  if (reuse?.isFull) say(`warning: ${TOO_MANY_KEYS}`);
  const unknown = summary.errors[OUTCOME_UNKNOWN] ?? 0;
  if (halted === null && unknown > 0) say(`warning: ${heldText(unknown)}`);
  const beyond = input.survey.rows - input.total;
  if (halted === null) await committer.finish(summary, async () => reuse?.finish(), beyond > 0);
  else await committer.pause();
  // Without a file there is nothing to continue.
  if (halted === null || target === null) {
    await within(5_000, store.ledger.close(summary.run)).catch(() => {});
    if (halted !== null) await reuse?.discard();
  }
  return { summary, halted, files: target?.files ?? null, beyond, known };
}

/** The store by the name under which a run finds it again. */
const placeOf = (store: Store): string => store.name ?? store.describe();

/** The queue of a run. */
const queueOf = ({ endpoint, emulated }: Settings, { address }: World): string =>
  emulated ? queueName(endpoint.deployment, null) : serviceQueue(endpoint.deployment, address);

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
  store: Store,
): void {
  const { input, endpoint, emulated, limits, work } = settings;
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
      ? `calling ${endpoint.deployment} at ${where}, ${limits.concurrency} at a time; queue in ${store.describe()}`
      : `leaving the calls to workers; queue in ${store.describe()}`,
  );
  if (address.proxy) say(`calls go through the proxy ${address.proxy.address}`);
  if (manifest.execution > 1 && limits.budget !== null)
    say(`budget: ${spentText({ ...limits.budget, prices: settings.prices }, manifest.calls)} spent`);
  if (manifest.store !== null && manifest.store !== placeOf(store)) {
    say(
      `warning: the run was begun with its queue in ${manifest.store}; what it knew there and had not written is called again`,
    );
  }
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
    deployment: settings.endpoint.deployment,
    api_version: settings.endpoint.apiVersion,
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
