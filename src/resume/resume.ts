import type { Logger } from 'pino';
import { emptyTally } from '../account/tally.js';
import type { Settings } from '../config/settings.js';
import { within } from '../core/clock.js';
import { type Counters, NO_CALLS } from '../core/counters.js';
import { counted, progressText } from '../core/figures.js';
import type { Halt } from '../core/halt.js';
import { thisProcess } from '../core/lock.js';
import { forgetRun } from '../ops/heartbeat-sender.js';
import { ChunkQueue } from '../queue/chunk-queue.js';
import { queueOfSet } from '../queue/names.js';
import type { ServedEndpoint } from '../service/endpoint.js';
import type { Several } from '../service/endpoint-spec.js';
import type { Survey } from '../source/source.js';
import { openStore } from '../store/open.js';
import type { Store } from '../store/store.js';
import { Committer } from './committer.js';
import { assertSame, assertUnchanged, fingerprint, partValues } from './fingerprint.js';
import { RunLease, unwrittenIn } from './lease.js';
import { type Manifest, takenFrom } from './manifest.js';
import { dropOutcomes, outcomesPath } from './outcome-file.js';
import { newRun, type OutputTarget, settleTarget } from './output-target.js';
import { Reuse } from './reuse.js';

interface BeginContext {
  readonly endpoints: Several<ServedEndpoint>;
  readonly halt: Halt;
  readonly log: Logger;
  readonly stdout: NodeJS.WritableStream;
  readonly say: (line: string) => void;
  readonly openStore?: typeof openStore;
  readonly onBegun?: (manifest: string | null) => Promise<void>;
}

interface SurveyedInput {
  readonly survey: Survey;
  /** Rows of the run. */
  readonly total: number;
  readonly sample: Settings['input']['sample'];
}

export interface RunStart {
  readonly target: OutputTarget | null;
  readonly manifest: Manifest;
  readonly store: Store;
}

export interface Execution {
  /** Null for standard output. */
  readonly target: OutputTarget | null;
  readonly store: Store;
  readonly queue: ChunkQueue;
  /** Null for a job that reuses nothing. */
  readonly reuse: Reuse | null;
  readonly committer: Committer;
  readonly lease: RunLease;
  /** The counters of earlier executions. */
  readonly before: Counters;
  /** Rows without an outcome, and how many processes of the run died while calling them (fault 44). */
  readonly deaths: ReadonlyMap<number, number>;
  readonly kept: number;
  close(): Promise<void>;
}

/**
 * Begins a run, or continues the one at its output, in this order:
 *
 * 1. identify the run by input and job; refuse it if they changed since it began;
 * 2. the manifest of this execution;
 * 3. the store with its queue and ledger, and the run's call counters;
 * 4. the outcomes that other rows may reuse; a failure here leaves all files unchanged;
 * 5. the part file at the manifest's mark, and the manifest on disk: from here on the same command resumes;
 * 6. give up the run that this one replaces;
 * 7. the run's lease in the ledger, without which no worker calls for it.
 * @param found the result of `takeOutput`, from before the input was read
 * @param header first line of the output
 * @param tell called when the store is open and nothing else was done
 * @throws UsageError when it cannot start; then nothing was sent
 * @throws the error that ends a wait for the store when the run is halted
 */
export async function beginExecution(
  found: OutputTarget | null,
  input: SurveyedInput,
  header: string,
  given: Settings,
  context: BeginContext,
  tell: (begun: RunStart) => void,
): Promise<Execution> {
  const { halt, say } = context;
  const now = new Date();
  // A sample of all rows is no sample.
  const settings = { ...given, input: { ...given.input, sample: input.sample } };
  const print = fingerprint(settings, input.survey.sha256);
  const target = await settleTarget(found, settings, print, now);
  const manifest = beginManifest(target, settings, print, now);

  const store = await openStoreOf(manifest, settings, context);
  const opened: { close(): Promise<void> }[] = [store];
  const close = async (): Promise<void> => {
    await opened.pop()?.close().finally(close);
  };
  try {
    tell({ target, manifest, store });
    const place = store.name ?? store.describe();
    if (manifest.store !== null && manifest.store !== place) say(`warning: ${movedText(manifest.store)}`);
    const calls = await halt.orHalted(callsOf(target, manifest, store)).catch((error) => {
      throw store.health.usageErrorFor(error);
    });

    const reuse = await Reuse.open({
      settings: { ...settings, reuse: reuseIn(settings, target, input, manifest) },
      endpoints: context.endpoints,
      input,
      manifest,
      // A run whose part file was salvaged continues under another name.
      from: target?.unfinished ? target.discarded?.run : undefined,
    });
    if (reuse !== null) opened.push(reuse);

    const begun = { ...manifest, store: place, calls };
    const committer = await Committer.open(
      target,
      begun,
      header,
      context.stdout,
      input.total,
      settings.input.path,
    ).catch(async (error) => {
      await reuse?.abandon();
      throw error;
    });
    opened.push(committer);
    await context.onBegun?.(target?.files.manifest ?? null);
    for (const known of reuse?.known ?? []) say(known);

    const queue = new ChunkQueue(
      store,
      queueOfSet(context.endpoints, settings.emulated),
      settings.limits.attempts,
      context.log,
    );
    // In case the engine never closes it: `serve` would keep its connections.
    opened.push({ close: () => within(1_000, queue.close()).catch(() => {}) });
    const lease = new RunLease(store, committer, settings.limits.unknownOutcome === 'hold', halt);
    const { before, waiting, lost, deaths } = await halt
      .orHalted(discardRun(target, settings.stateDir, store, queue, context.log))
      .then(() => lease.take(queue, input.total))
      .catch((error) => {
        throw store.health.usageErrorFor(error);
      });
    if (manifest.execution > 1)
      say(`continuing run ${manifest.run}: ${progressText(manifest.rows + waiting, manifest.rows)}`);
    if (lost > 0) say(`warning: ${lostText(lost, store.describe())}`);
    return { target, store, queue, reuse, committer, lease, before, deaths, kept: waiting, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The unfinished manifest for the next execution, or a new one. */
export function beginManifest(
  target: OutputTarget | null,
  settings: Settings,
  print: Record<string, string>,
  at: Date,
): Manifest {
  const { unfinished, finished, sample, files } = target ?? {};
  const now = { fingerprint: print, values: partValues(settings) };
  if (unfinished && files) {
    assertSame(unfinished, now, files.manifest);
    return {
      ...unfinished,
      stage: 'working',
      execution: unfinished.execution + 1,
      process: thisProcess(),
      overwrite: settings.overwrite || unfinished.overwrite,
    };
  }
  if (finished && files) assertUnchanged(finished, now, files.output, settings.extend);
  return {
    v: 1,
    run: target?.run ?? newRun(at),
    job: settings.job,
    execution: 1,
    process: thisProcess(),
    started_at: at.toISOString(),
    worked_ms: 0,
    ...now,
    chunk_size: settings.limits.chunkSize,
    store: null,
    rows: 0,
    unwritten: 0,
    bytes: 0,
    seal: '',
    overwrite: settings.overwrite,
    stage: 'working',
    calls: NO_CALLS,
    tally: emptyTally(),
    steps: {},
    ...target?.retry,
    ...(finished && takenFrom(finished)),
    ...(sample && { replaces: sample.details.written.sha256, sample: sample.run }),
    // The rows for review were found untouched.
    ...(finished && settings.extend && { reviewing: true }),
  };
}

/** A sample keeps its answers for the run that replaces it. */
function reuseIn(
  { reuse, stateDir }: Settings,
  target: OutputTarget | null,
  { sample }: SurveyedInput,
  { sample: replaced }: Manifest,
): Settings['reuse'] {
  const name = target?.sample ? 'the sample, which this run replaces at its end' : 'the sample';
  const known = replaced === undefined ? [] : [{ path: outcomesPath(stateDir, replaced), name }];
  return {
    ...reuse,
    known: [...reuse.known, ...known],
    keeps: reuse.keeps || (sample !== null && target !== null),
  };
}

/** Prefers the store with which the run began, if it still exists. */
async function openStoreOf(
  { store: preferred }: Manifest,
  settings: Settings,
  context: BeginContext,
): Promise<Store> {
  const onWarning = (message: string): void => context.say(`warning: ${message}`);
  const open = context.openStore ?? openStore;
  const opening = open(settings.queue, { stateDir: settings.stateDir, preferred, onWarning });
  return await context.halt.orHalted(opening).catch((error) => {
    // Halted meanwhile: close the store as soon as it is open.
    void opening.then((late) => late.close()).catch(() => {});
    throw error;
  });
}

/** After a salvage, answers that are not on disk and calls in flight count as repeated. */
async function callsOf(
  target: OutputTarget | null,
  { calls: own }: Manifest,
  { ledger }: Store,
): Promise<Counters> {
  const { discarded, unfinished } = target ?? {};
  if (!discarded || !unfinished) return own;
  const { run, execution, rows, calls: written } = discarded;
  // As its next execution would: forgets rows on disk, and counts calls in flight as repeated.
  await ledger.open(run, execution + 1, rows, null);
  const { calls } = await ledger.progress(run, []);
  const known = calls.sent > written.sent ? calls : written;
  const unwritten = Math.max(discarded.unwritten, await unwrittenIn(ledger, run, rows));
  const lost = own.repeated - written.repeated + unwritten;
  return { ...known, repeated: known.repeated + lost };
}

/** Removes the replaced run's outcomes for reuse, heartbeat, queue entries and ledger state. */
async function discardRun(
  target: OutputTarget | null,
  stateDir: string,
  { keyValue, ledger }: Store,
  queue: ChunkQueue,
  log: Logger,
): Promise<void> {
  if (!target?.discarded) return;
  const { run } = target.discarded;
  await dropOutcomes(stateDir, run);
  await forgetRun(keyValue, run, log);
  await queue.withdraw(run);
  await ledger.close(run);
}

const lostText = (answers: number, place: string): string =>
  `${place} has lost what it knew of the run: at least ${counted(answers, 'answer')} that had not been written ` +
  'will be asked for again, and count as repeated';

const movedText = (from: string): string =>
  `the run was begun with its queue in ${from}; what it knew there and had not written is called again, and counts as repeated`;
