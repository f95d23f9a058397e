import type { Settings } from '../config/settings.js';
import { StopError } from '../errors.js';
import type { Ledger } from '../ledger/ledger.js';
import type { Counters, Fault } from '../model.js';
import { ChunkQueue } from '../queue/chunk-queue.js';
import { queueName, serviceQueue } from '../queue/names.js';
import type { Store } from '../queue/store.js';
import { startProgress } from '../report/progress.js';
import { rows } from '../source/source.js';
import type { Claim } from './begin.js';
import { Canary } from './canary.js';
import { collect } from './collector.js';
import { watchCrew } from './crew-watch.js';
import type { HaltReason } from './halt.js';
import type { Input } from './input.js';
import type { Journal } from './journal.js';
import { reachedLimit } from './limits.js';
import type { Manifest } from './manifest.js';
import { answered } from './mend.js';
import { startOwnWorker } from './own-worker.js';
import type { Plan } from './plan.js';
import { produce, renderChunk } from './producer.js';
import { rescue } from './rescue.js';
import type { Reuse } from './reuse.js';
import type { RunNotice } from './run-notice.js';
import { Vigil } from './vigil.js';
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

export interface Parts {
  readonly claim: Claim | null;
  readonly input: Input;
  readonly plan: Plan;
  readonly store: Store;
  readonly journal: Journal;
  /** Null for a job that reuses nothing. */
  readonly reuse: Reuse | null;
  readonly notice: RunNotice;
}

/** The queue of a run. */
export const queueOf = ({ service, emulated }: Settings, { address }: World): string =>
  emulated ? queueName(service.deployment, null) : serviceQueue(service.deployment, address);

/** Producer, worker and collector together, until every row is on disk or the run is halted. */
export async function work(settings: Settings, world: World, parts: Parts): Promise<void> {
  const { input, plan, store, journal, reuse, claim, notice } = parts;
  const { run, execution, rows: committed } = journal.manifest;
  const { halt, log } = world;
  const { ledger } = store;

  const name = queueOf(settings, world);
  const queue = new ChunkQueue(store, name, settings.limits.attempts, log);
  const window = new Window(WINDOW_ROWS, WINDOW_BYTES);
  const open = (): Promise<void> =>
    ledger.open(run, execution, journal.manifest.rows, journal.manifest.calls);
  if (claim?.discarded) {
    await queue.withdraw(claim.discarded.run);
    // A run that goes on under another name, after its part file was mended, leaves answers behind that were paid for.
    if (claim.unfinished !== null) journal.adopt(await leftBehind(ledger, claim.discarded));
    await ledger.close(claim.discarded.run);
  }
  // What an earlier execution left in the queue is not wanted any more; its outcomes are in the ledger.
  if (execution > 1) await queue.withdraw(run);
  await open();
  const { calls: before } = await ledger.progress(run, []);

  const onStop = (fault: Fault): void => halt.pull({ kind: 'stop', fault });
  const reached = answered(journal.manifest) > 0;
  const own = settings.work
    ? startOwnWorker({ settings, world, store }, { run, queue: name, calls: before }, reached, onStop)
    : null;
  const worker = own?.worker ?? null;
  const others = worker === null ? watchCrew(store.board, name, log) : null;
  const progress = startProgress({
    stream: world.stderr,
    isTTY: world.stderr.isTTY === true,
    total: input.total,
    done: committed,
    quiet: world.quiet,
  });
  const vigil = new Vigil(
    {
      worker,
      giveUpMs: settings.limits.giveUpMs,
      total: input.total,
      queue: store.describe(),
      crew: () => others?.seen ?? null,
    },
    committed,
    Date.now(),
  );
  const pulse = setInterval(() => {
    const now = Date.now();
    const waiting = vigil.waiting(now);
    progress.update({
      done: vigil.known,
      inFlight: worker?.inFlight ?? others?.seen?.inFlight ?? 0,
      failed: journal.manifest.tally.rows.failed,
      waiting,
    });
    notice.tell(vigil.known, waiting);
    const fault = vigil.overdue(now);
    if (fault !== null) onStop(fault);
  }, PULSE_MS);
  const canary = new Canary(settings.limits.canary, journal.manifest.tally.rows);
  let produced = false;
  let drained = false;
  const onHalt = async (): Promise<void> => {
    progress.note('stopping: finishing the calls in flight');
    window.close();
    canary.close();
    await worker?.close();
    drained = true;
  };
  halt.onPull(() => void onHalt());
  const failed = (error: unknown): void => halt.pull(haltReason(error));

  const toChunk = plan.toChunk(run, execution, Math.max(0, before.in_flight));
  const render = (chunk: WindowChunk) => renderChunk(chunk, plan.requestOf, toChunk);
  const split = new Set<number>();
  const producing = produce({
    rows: rows(input.spec, input.survey),
    committed,
    total: input.total,
    chunkSize: journal.manifest.chunk_size,
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
    journal,
    recordOf: plan.recordOf,
    reuse,
    open,
    rescue: (head) => rescue(head, split, { queue, ledger, window, render, reopen: open, log }),
    produced: () => produced,
    drained: () => drained,
    onStop,
    onProgress: (known) => {
      const { rows: written } = journal.manifest.tally;
      vigil.looked(known, Date.now());
      canary.looked(written);
      const fault = reachedLimit(settings.limits, written, journal.ranMs);
      if (fault !== null && written.total < input.total) onStop(fault);
    },
  }).catch(failed);

  const leave = async (): Promise<void> => {
    await Promise.all([producing, collecting]);
    await worker?.close();
    if (halt.reason !== null) await queue.withdraw(run);
    await queue.close();
    // What ended with the worker's last calls.
    const { calls, opened } = await ledger.progress(run, []);
    if (opened) journal.count(calls);
  };
  // A halted run ends, whatever state the store is in (fault 46): what is on disk is right at any moment.
  const deadline = new Promise<'late'>((resolve) => {
    halt.onPull(() => setTimeout(resolve, HALT_MS, 'late').unref());
  });
  const late = (await Promise.race([leave(), deadline])) === 'late';
  if (worker !== null) journal.recount(before, worker.totals(run), halt.reason === null);
  clearInterval(pulse);
  others?.stop();
  await own?.notice.end();
  progress.stop();
  if (late) world.say('warning: the store did not answer in time; the queue keeps what it has of this run');
}

/** The counters of a run, its answers that are not on disk counted as repeated: they will be asked for again. */
async function leftBehind(ledger: Ledger, { run, rows: committed, chunk_size }: Manifest): Promise<Counters> {
  const firsts = Array.from({ length: WINDOW_ROWS / chunk_size }, (_, i) => committed + 1 + i * chunk_size);
  const { counts, calls } = await ledger.progress(run, firsts);
  return { ...calls, repeated: calls.repeated + counts.reduce((sum, known) => sum + known, 0) };
}

function haltReason(error: unknown): HaltReason {
  // Whoever reads standard output has seen enough (fault 51).
  if (error instanceof StopError && isClosedPipe(error.cause)) return { kind: 'signal', signal: 'SIGPIPE' };
  if (!(error instanceof StopError)) return { kind: 'error', error };
  const message = error.hint === undefined ? error.message : `${error.message} ${error.hint}`;
  return { kind: 'stop', fault: { code: error.code, message } };
}

const isClosedPipe = (cause: unknown): boolean =>
  cause instanceof Error && 'code' in cause && cause.code === 'EPIPE';
