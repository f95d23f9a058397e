import { steadyNow } from '../clock.js';
import type { Settings } from '../config/settings.js';
import { errorCode, StopError, UsageError } from '../errors.js';
import { counted, kept } from '../figures.js';
import type { RunHeartbeat } from '../fleet/heartbeat.js';
import type { HaltReason } from '../halt.js';
import type { Counters, Fault } from '../model.js';
import { ChunkQueue } from '../queue/chunk-queue.js';
import { queueName, serviceQueue } from '../queue/names.js';
import { startProgress } from '../report/progress.js';
import type { OutputTarget } from '../resume/begin.js';
import type { Committer } from '../resume/committer.js';
import type { Manifest } from '../resume/manifest.js';
import { answered } from '../resume/repair.js';
import { rows } from '../source/source.js';
import { storeErrorOf } from '../store/error.js';
import type { Ledger } from '../store/ledger.js';
import { silenceOf } from '../store/silence.js';
import type { Store } from '../store/store.js';
import { startOwnWorker } from '../worker/own-worker.js';
import { Canary } from './canary.js';
import { collect } from './collector.js';
import { watchFleet } from './fleet-watch.js';
import type { Input } from './input.js';
import { reachedLimit } from './limits.js';
import type { Plan } from './plan.js';
import { produce, renderChunk } from './producer.js';
import { rescue } from './rescue.js';
import type { Reuse } from './reuse.js';
import { Watchdog } from './watchdog.js';
import { Window, type WindowChunk } from './window.js';
import type { World } from './world.js';

/** Most rows between the queue and the output: enough that a row in its longest pause holds nothing back. */
const WINDOW_ROWS = 10_000;
/** Most bytes of input and prompts in the window. */
const WINDOW_BYTES = 32 * 1024 * 1024;

/** How often a person is told how the run gets on, and its patience is asked, in milliseconds. */
const PULSE_MS = 250;

/** Longest time from the halt of a run to its end: the grace of the worker and some more, in milliseconds. */
const HALT_MS = 40_000;
/** The longest wait for a store that is away when every row is on disk, in milliseconds. */
const LEAVE_MS = 30_000;

export interface Parts {
  readonly target: OutputTarget | null;
  readonly input: Input;
  readonly plan: Plan;
  readonly store: Store;
  readonly committer: Committer;
  /** Null for a job that reuses nothing. */
  readonly reuse: Reuse | null;
  readonly heartbeat: RunHeartbeat;
}

/** The queue of a run. */
export const queueOf = ({ service, emulated }: Settings, { address }: World): string =>
  emulated ? queueName(service.deployment, null) : serviceQueue(service.deployment, address);

/**
 * Producer, worker and collector together, until every row is on disk or the run is halted.
 * @returns rows whose outcome is known, also where it is not written yet
 */
export async function work(settings: Settings, world: World, parts: Parts): Promise<number> {
  const { input, plan, store, committer, reuse, target, heartbeat } = parts;
  const { run, execution, rows: committed } = committer.manifest;
  const { halt, log } = world;
  const { ledger } = store;

  const name = queueOf(settings, world);
  const queue = new ChunkQueue(store, name, settings.limits.attempts, log);
  const window = new Window(WINDOW_ROWS, WINDOW_BYTES);
  const hold = settings.limits.unknownOutcome === 'hold';
  const prepare = async (): Promise<{ readonly before: Counters; readonly waiting: number }> => {
    if (target?.discarded) {
      await queue.withdraw(target.discarded.run);
      // A run that goes on under another name, after its part file was repaired, leaves answers behind that were paid for.
      if (target.unfinished !== null) committer.adopt(await leftBehind(ledger, target.discarded));
      await ledger.close(target.discarded.run);
    }
    // What an earlier execution left in the queue is not wanted any more; its outcomes are in the ledger.
    if (execution > 1) await queue.withdraw(run);
    const seed = hold && committer.manifest.opened ? null : withLost(committer.manifest.calls);
    if (!(await ledger.open(run, execution, committed, seed, !hold))) throw forgotten(store, committed);
    await committer.opened();
    const known = { before: (await ledger.progress(run, [])).calls, waiting: await ledger.waiting(run) };
    const inFlight = hold ? Math.max(0, known.before.in_flight) : 0;
    await assertNoneBehind(ledger, committer.manifest, input.total, known.waiting, inFlight);
    return known;
  };
  const { before, waiting } = await halt.orHalted(prepare()).catch((error) => {
    // Nothing was sent yet.
    throw store.health.usageErrorFor(error);
  });
  committer.count(before);
  if (execution > 1) {
    world.say(`continuing run ${run}: ${kept(committed + waiting, committed)}`);
  }
  await heartbeat.begin();

  const onStop = (fault: Fault): void => halt.pull({ kind: 'stop', fault });
  store.health.onFault(onStop);
  /** Renews the lease; in a store that came back empty the run begins anew, unless rows might then be called twice. */
  const open = async (): Promise<void> => {
    const { rows, calls } = committer.manifest;
    if (await ledger.open(run, execution, rows, hold ? null : { ...calls, in_flight: 0 }, !hold)) return;
    const { code, message, hint } = forgotten(store, rows);
    if (hold) onStop({ code, message: `${message}. ${hint}` });
  };
  const reached = answered(committer.manifest) > 0;
  const own = settings.work
    ? startOwnWorker({ settings, world, store }, { run, queue: name, calls: before }, reached, onStop)
    : null;
  const worker = own?.worker ?? null;
  const others = worker === null ? watchFleet(store.keyValue, name, log) : null;
  const progress = startProgress({
    stream: world.stderr,
    isTTY: world.stderr.isTTY === true,
    total: input.total,
    done: committed,
    quiet: world.quiet,
  });
  const watchdog = new Watchdog(
    {
      worker,
      giveUpMs: settings.limits.giveUpMs,
      total: input.total,
      queue: store.describe(),
      refusal: () => store.health.refusal,
      fleet: () => others?.seen ?? null,
    },
    committed,
    steadyNow(),
  );
  const pulse = setInterval(() => {
    const now = steadyNow();
    const waiting = watchdog.waiting(now);
    progress.update({
      done: watchdog.known,
      inFlight: worker?.inFlight ?? others?.seen?.inFlight ?? 0,
      failed: committer.manifest.tally.rows.failed,
      waiting,
    });
    heartbeat.tell(watchdog.known, waiting);
    const fault = watchdog.overdue(now);
    if (fault !== null) onStop(fault);
  }, PULSE_MS);
  const canary = new Canary(settings.limits.canary, committer.manifest.tally.rows);
  let produced = false;
  let drained = false;
  const onHalt = async (): Promise<void> => {
    progress.note(stoppingText(halt.reason, worker?.inFlight ?? 0, settings.limits.unknownOutcome));
    window.close();
    canary.close();
    await worker?.close();
    drained = true;
  };
  halt.onPull(() => void onHalt());
  const failed = (error: unknown): void => halt.pull(haltReason(store.health.stopFor(error)));

  const toChunk = plan.toChunk(run, execution, Math.max(0, before.in_flight));
  const render = (chunk: WindowChunk) => renderChunk(chunk, plan.requestOf, toChunk);
  const split = new Set<number>();
  const producing = produce({
    rows: rows(input.spec, input.survey, {
      onGrown: (bytes) =>
        progress.note(
          `warning: the input has grown from ${input.survey.bytes} to ${bytes} bytes since the run began; what was added is no part of this run`,
        ),
    }),
    committed,
    total: input.total,
    chunkSize: committer.manifest.chunk_size,
    requestOf: plan.requestOf,
    toChunk,
    reuse,
    window,
    queue,
    signal: halt.signal,
    canary,
  }).then(() => {
    produced = true;
  }, failed);
  const collecting = collect({
    run,
    window,
    ledger,
    committer,
    recordOf: plan.recordOf,
    reuse,
    open,
    rescue: (head) => rescue(head, split, { queue, ledger, window, render, reopen: open, log }),
    produced: () => produced,
    drained: () => drained,
    onStop,
    onProgress: (known) => {
      const { rows: written } = committer.manifest.tally;
      watchdog.looked(known, steadyNow());
      canary.looked(written);
      const fault = reachedLimit(settings.limits, written, committer.ranMs);
      if (fault !== null && written.total < input.total) onStop(fault);
    },
  }).catch(failed);

  const over = new AbortController();
  let goneAlone: (end: 'late' | 'away') => void = () => {};
  const alone = new Promise<'late' | 'away'>((resolve) => {
    goneAlone = resolve;
  });
  const withoutStore = (afterMs?: number): void =>
    void silenceOf(store, over.signal, afterMs).then(() => goneAlone('away'));
  // A halted run ends, whatever state the store is in (faults 46 and 82): what is on disk is right at any moment.
  halt.onPull(() => {
    setTimeout(goneAlone, HALT_MS, 'late').unref();
    withoutStore();
  });
  const leave = async (): Promise<void> => {
    await Promise.all([producing, collecting]);
    // Nor does one whose rows are all on disk need it any more.
    withoutStore(LEAVE_MS);
    await worker?.close();
    try {
      if (halt.reason !== null) await queue.withdraw(run);
      await queue.close();
      // What ended with the worker's last calls.
      const { calls, opened } = await ledger.progress(run, []);
      if (opened) committer.count(calls);
    } catch (error) {
      if (storeErrorOf(error) === null) throw error;
      log.debug({ err: error }, 'the store refused the last words of the run');
    }
  };
  const end = await Promise.race([leave(), alone]).finally(() => over.abort());
  if (worker !== null) committer.recount(before, worker.totals(run), halt.reason === null);
  clearInterval(pulse);
  others?.stop();
  const gone = own?.heartbeat.end();
  if (end !== 'away') await gone;
  progress.stop();
  if (end === 'away') world.say(`warning: ${awayText(worker?.unrecorded ?? 0)}`);
  if (end === 'late') world.say('warning: the run did not end in time; the queue keeps what it has of it');
  return watchdog.known;
}

/** What a signal has begun, and what another one does. */
function stoppingText(
  reason: HaltReason | null,
  inFlight: number,
  unknown: Settings['limits']['unknownOutcome'],
): string {
  if (inFlight === 0) return 'stopping';
  const calls = counted(inFlight, 'call');
  const stopping = `stopping: finishing ${calls} in flight`;
  if (reason?.kind !== 'signal') return stopping;
  const again = reason.signal === 'SIGINT' ? 'Ctrl-C again' : 'a second signal';
  const then = unknown === 'hold' ? 'may then end outcome_unknown' : 'may then be paid for twice';
  return `${stopping}; ${again} stops at once, and ${calls} ${then}`;
}

/** In a store that does not know the run any more, calls in flight were never heard of again. */
const withLost = ({ in_flight, ...calls }: Counters): Counters => ({
  ...calls,
  repeated: calls.repeated + Math.max(0, in_flight),
  in_flight: 0,
});

/** A store that came back empty does not know which rows were called, and with `hold` none may be called twice. */
const forgotten = (store: Store, committed: number): UsageError =>
  new UsageError(
    'ledger_lost',
    `${store.describe()} has forgotten the run: which of the rows after row ${committed} were called is not known any more, ` +
      'and limits.unknown_outcome is hold',
    'To go on, and call some rows again, set limits.unknown_outcome: retry; --restart begins anew.',
  );

/**
 * A run that finishes with its first rows forgets what is known of those behind them, and they would be called again.
 * @param waiting outcomes in the ledger
 * @param inFlight rows that were called, and are not to be called again though nothing came of it
 * @throws UsageError when an execution with a larger limit has called rows that this one leaves out
 */
async function assertNoneBehind(
  ledger: Ledger,
  { run, rows, reach, chunk_size }: Manifest,
  total: number,
  waiting: number,
  inFlight: number,
): Promise<void> {
  if (reach === undefined || reach <= total || waiting + inFlight === 0) return;
  const length = Math.min(WINDOW_ROWS, total - rows) / chunk_size;
  const firsts = Array.from({ length: Math.ceil(length) }, (_, i) => rows + 1 + i * chunk_size);
  const { counts } = await ledger.progress(run, firsts.slice(0, -1));
  const last = firsts.at(-1);
  const atEnd = last === undefined ? [] : [...(await ledger.outcomes({ run, first: last })).keys()];
  const within = counts.reduce((sum, known) => sum + known, 0) + atEnd.filter((row) => row <= total).length;
  if (waiting <= within && inFlight === 0) return;
  throw new UsageError(
    'limit_too_small',
    `the unfinished run has called rows behind row ${total}, and a run that ends there would forget their answers`,
    'Go on with a larger --limit, or without one; --restart discards what is there.',
  );
}

/** The counters of a run, its answers that are not on disk counted as repeated: they will be asked for again. */
async function leftBehind(ledger: Ledger, { run, rows: committed, chunk_size }: Manifest): Promise<Counters> {
  const firsts = Array.from({ length: WINDOW_ROWS / chunk_size }, (_, i) => committed + 1 + i * chunk_size);
  const { counts, calls } = await ledger.progress(run, firsts);
  return { ...calls, repeated: calls.repeated + counts.reduce((sum, known) => sum + known, 0) };
}

/** @param unrecorded answers of this process that the store has not taken */
const awayText = (unrecorded: number): string =>
  `the queue took nothing, so the run ended without it${unrecorded === 0 ? '' : `; ${unrecorded} answers that it did not take are called again`}`;

function haltReason(error: unknown): HaltReason {
  // Whoever reads standard output has seen enough (fault 51).
  if (error instanceof StopError && isClosedPipe(error.cause)) return { kind: 'signal', signal: 'SIGPIPE' };
  if (!(error instanceof StopError)) return { kind: 'error', error };
  const message = error.hint === undefined ? error.message : `${error.message} ${error.hint}`;
  return { kind: 'stop', fault: { code: error.code, message } };
}

const isClosedPipe = (cause: unknown): boolean => errorCode(cause) === 'EPIPE';
