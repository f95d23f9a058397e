import { setTimeout as sleep } from 'node:timers/promises';
import { invalidOf } from '../account/require.js';
import type { Settings } from '../config/settings.js';
import { steadyNow } from '../core/clock.js';
import { type Counters, eachOf, namesIn, NO_CALLS } from '../core/counters.js';
import { errorCode, StopError } from '../core/errors.js';
import { counted } from '../core/figures.js';
import type { HaltReason } from '../core/halt.js';
import type { Problem } from '../core/model.js';
import type { RunHeartbeatSender } from '../ops/heartbeat-sender.js';
import { WINDOW_ROWS } from '../resume/lease.js';
import type { Execution } from '../resume/resume.js';
import { answeredRows } from '../resume/salvage.js';
import { storeErrorOf } from '../store/error.js';
import { NOTHING } from '../store/ledger.js';
import { silenceOf } from '../store/store.js';
import { type LocalWorker, startLocalWorker } from '../worker/local-worker.js';
import { cancelMs, type HostedBatches } from './batch/hosted-batches.js';
import { Canary } from './canary.js';
import { collect } from './collector.js';
import { logReader, progressReader, type RunEvent, RunEvents } from './events.js';
import { type FleetWatch, watchFleet } from './fleet-watch.js';
import type { Input } from './input.js';
import { reachedLimit } from './limits.js';
import type { Plan } from './plan.js';
import { Producer } from './producer.js';
import { Requeuer } from './requeuer.js';
import type { RunContext } from './run-context.js';
import { SpeedGauge } from './speed.js';
import { TierTime } from './tier-time.js';
import { Watchdog } from './watchdog.js';
import { Window } from './window.js';

/** Most bytes of input and prompts in the window. */
const WINDOW_BYTES = 32 * 1024 * 1024;

/** Milliseconds between progress reports, and between checks of the watchdog. */
const PULSE_MS = 250;

/** Calls after which the speed of a run with batches is known. */
const MEASURED_CALLS = 200;

/** Longest time from the halt of a run to its end, in milliseconds: a bit more than the worker's grace. */
const HALT_MS = 40_000;
/** Longest wait for an unreachable store when every row is on disk, in milliseconds. */
const LEAVE_MS = 30_000;

export interface EngineParts extends Execution {
  readonly input: Input;
  readonly plan: Plan;
  /** Null for a job without the batch tier. */
  readonly batches: HostedBatches | null;
}

/**
 * Runs producer, worker and collector until every row is on disk or the run is halted.
 * @returns rows that no later execution calls again: those on disk, and those with an outcome in the store
 */
export async function runEngine(
  settings: Settings,
  context: RunContext,
  parts: EngineParts,
  heartbeat: RunHeartbeatSender,
): Promise<number> {
  const stop = (problem: Problem): void => context.halt.request({ kind: 'stop', problem });
  await heartbeat.begin();
  parts.store.health.onProblem(stop);
  return await new Engine(settings, context, parts, heartbeat, stop).run();
}

class Engine {
  readonly #window: Window;
  readonly #events = new RunEvents();
  readonly #canary: Canary;
  readonly #producer: Producer;
  /** Null when the fleet makes the calls. */
  readonly #local: LocalWorker | null;
  readonly #fleet: FleetWatch;
  readonly #watchdog: Watchdog;
  readonly #speed: SpeedGauge;
  readonly #flex: TierTime;
  readonly #batch: TierTime;
  /** After a halt: outcomes that the store keeps and that are not on disk. */
  #waiting = 0;
  /** Answers for them; null when the store cannot be asked. */
  #kept: number | null = null;
  /** Aborts when the run was halted and its calls have ended. */
  readonly #drained = new AbortController();

  constructor(
    private readonly settings: Settings,
    private readonly context: RunContext,
    private readonly parts: EngineParts,
    heartbeat: RunHeartbeatSender,
    private readonly stop: (problem: Problem) => void,
  ) {
    const { input, store, queue, committer, before, kept } = parts;
    const { manifest } = committer;
    this.#window = new Window(Math.min(context.maxUnwritten ?? WINDOW_ROWS, WINDOW_ROWS), WINDOW_BYTES);
    const calling = { run: manifest.run, queue: queue.name, calls: before };
    this.#local = settings.work
      ? startLocalWorker({ settings, context, store }, calling, answeredRows(manifest) > 0, stop, (call) =>
          this.#events.emit(call),
        )
      : null;
    this.#fleet = watchFleet({
      keyValue: store.keyValue,
      queue: queue.name,
      log: context.log,
      requeueHeldBy: (lost) => queue.requeueHeldBy(manifest.run, lost),
      onLost: (worker) => this.#events.emit({ type: 'worker lost', ...worker }),
    });
    this.#speed = new SpeedGauge(input.total, settings.limits, kept, steadyNow());
    // Without answers not yet in the store: they are lost if this process ends first.
    committer.countAnswers(() => {
      const worker = this.#local?.worker;
      const called = worker === undefined ? 0 : worker.totals(manifest.run).answers - worker.unrecorded;
      return called + this.#producer.askedAgain;
    });
    this.#canary = new Canary(settings.limits.canary, settings.require, manifest.tally, manifest.canary);
    committer.goAhead(this.#canary.last);
    const since = manifest.flex_since ?? null;
    const { deadlineMs } = settings.limits;
    this.#flex = new TierTime(settings.flex, deadlineMs, since, steadyNow());
    const batchSince = parts.batches?.since ?? null;
    this.#batch = new TierTime(settings.batch, deadlineMs, batchSince, steadyNow(), cancelMs(deadlineMs));
    const online = settings.hasTiers ? 'online' : null;
    const tier = this.#flex.isOver ? online : 'flex';
    this.#producer = new Producer(settings, parts, this.#window, this.#canary, tier);
    const watched = {
      worker: this.#local?.worker ?? null,
      giveUpMs: settings.limits.giveUpMs,
      timeoutMs: settings.endpoint.timeoutMs,
      total: input.total,
      queue: store.describe(),
      refusal: () => store.health.refusal,
      unreadSince: () => committer.unreadSince,
      batches: () => parts.batches?.waiting ?? null,
      fleet: () => this.#fleet.seen,
      workFile: settings.endpoints.length > 1 ? settings.jobFile : null,
    };
    this.#watchdog = new Watchdog(watched, manifest.rows, steadyNow());
    this.#events.readBy(
      (event) => this.#judge(event),
      logReader(context.log),
      progressReader(context, {
        settings,
        total: input.total,
        done: manifest.rows,
        tally: () => committer.manifest.tally,
      }),
      (event) => event.type === 'pulse' && heartbeat.tell(event),
      (event) => event.type === 'call ended' && this.#local?.sender.called(event.status),
      (event) => context.onEvent?.(event),
    );
  }

  async run(): Promise<number> {
    const { committer, input } = this.parts;
    const { halt, say } = this.context;
    const { run, execution, rows: committed } = committer.manifest;
    this.#events.emit({ type: 'run started', run, execution, total: input.total, committed });
    const pulse = setInterval(() => this.#pulse(), PULSE_MS);
    void halt.requested.then((reason) => this.#finishCalls(reason));
    const work = Promise.all([this.#produce(), this.#collect()]);
    const end = await this.#untilLeft(work).finally(() => {
      clearInterval(pulse);
      this.#fleet.stop();
    });
    const worker = this.#local?.worker;
    this.#recount(halt.reason === null ? 0 : this.#kept);
    this.#noteFlex(steadyNow());
    const gone = this.#local?.sender.end();
    if (end !== 'away') await gone;
    this.#events.emit({ type: 'run ended', known: this.#watchdog.known });
    if (end === 'away') say(`warning: ${awayText(worker?.unrecorded ?? 0)}`);
    if (end === 'late') say('warning: the run did not end in time; the queue keeps what it has of it');
    return committer.manifest.rows + this.#waiting;
  }

  #judge(event: RunEvent): void {
    const { manifest, ranMs } = this.parts.committer;
    const { tally } = manifest;
    if (event.type === 'committed') {
      this.#canary.looked(tally);
      this.parts.batches?.written(manifest.rows).catch(this.#failed);
    }
    if (event.type !== 'rows settled') return;
    this.#watchdog.looked(event.known, steadyNow());
    this.#speed.looked(event);
    const problem = reachedLimit(this.settings.limits, tally, ranMs);
    if (problem !== null && tally.rows.total < this.parts.input.total) this.stop(problem);
  }

  #pulse(): void {
    const now = steadyNow();
    const { committer, lease } = this.parts;
    const { tally, calls } = committer.manifest;
    const { sent, rate_limited, prompt_tokens, completion_tokens } = calls;
    const quota = this.#local?.worker.quota ?? this.#fleet.seen?.quota ?? null;
    const speed = this.#speed.at(now, this.#window, tally, quota);
    this.#lookAtFlex(now);
    this.#lookAtBatches(now);
    this.#events.emit({
      type: 'pulse',
      known: this.#watchdog.known,
      failed: tally.rows.failed,
      invalid: invalidOf(tally),
      inFlight: this.#local?.worker.inFlight ?? this.#fleet.seen?.inFlight ?? 0,
      waiting: this.#watchdog.waiting(now),
      speed,
      calls: { sent, rate_limited, prompt_tokens, completion_tokens },
      quota,
      online: this.settings.flex !== null && this.#flex.isOver,
    });
    const problem = this.#watchdog.overdue(now);
    if (problem !== null) this.stop(problem);
    // The collector renews the lease between commits, and a reader may pause for longer than the lease lasts.
    if (committer.unreadSince !== null && this.context.halt.reason === null) lease.keep().catch(this.#failed);
  }

  /** Its time in the tier begins with its first call. */
  #noteFlex(now: number): void {
    const { committer } = this.parts;
    const isFlex = this.settings.flex !== null && !this.#flex.isOver;
    if (isFlex && committer.manifest.calls.sent > 0) committer.inFlex(now);
  }

  /** What waits for capacity is called online as soon as the time in flex is over. */
  #lookAtFlex(now: number): void {
    const { committer } = this.parts;
    if (this.settings.flex === null || this.#flex.isOver) return;
    this.#noteFlex(now);
    const { flex_since: since = null, run, tally } = committer.manifest;
    const progress = { ranMs: committer.ranMs, longestMs: tally.latency?.max ?? 0, ...this.#speed.ahead };
    this.#flex.looked(since, now, progress);
    if (!this.#flex.isOver) return;
    this.context.log.info('the time in the flex tier is over: rows are called online');
    this.#local?.worker.setOnline(new Set([run]));
  }

  #lookAtBatches(now: number): void {
    const { batches, committer } = this.parts;
    if (batches === null || batches.isOver) return;
    const { requestsPerMinute, promptsPerRequest } = this.settings.limits;
    const { toCall, perSecond } = this.#speed.ahead;
    const stated = requestsPerMinute && (requestsPerMinute / 60) * promptsPerRequest;
    const longestMs = committer.manifest.tally.latency?.max ?? 0;
    // The few rows of a canary do not show how fast many can be called.
    const measured = committer.manifest.calls.sent < MEASURED_CALLS ? null : perSecond;
    const known = Math.max(measured ?? 0, stated ?? 0) || null;
    const progress = { ranMs: committer.ranMs, toCall, perSecond: known, longestMs };
    this.#batch.looked(batches.since, now, progress);
    if (!this.#batch.isOver) return;
    this.context.say(
      'the time for batches is over: their answers so far are taken, and the other rows are called',
    );
    batches.giveUp();
  }

  #startBatches(): void {
    const { batches, input, plan, committer, reuse } = this.parts;
    if (batches === null) return;
    if (this.#batch.isOver) batches.giveUp();
    const { manifest } = committer;
    const needs = reuse?.ahead();
    batches.start({
      rows: () => input.rows({}),
      total: input.total,
      written: manifest.rows,
      ahead: this.#canary.last,
      passed: this.#canary.passed,
      requests: plan.requests,
      needsCall: (row, request) => {
        const isNew = needs?.(row, request.prompt, request.parameters) ?? true;
        return isNew && (input.done?.answerTo(row, request) ?? null) === null;
      },
      spent: () => committer.manifest.calls,
      isIdle: () => this.#window.sent === 0,
      fail: (error) => {
        // What the disk refuses stops the run as it does elsewhere.
        committer.orStop(() => Promise.reject(error)).catch(this.#failed);
      },
    });
  }

  async #produce(): Promise<void> {
    this.#startBatches();
    const from = this.parts.input.survey.bytes;
    const onGrown = (to: number): void => this.#events.emit({ type: 'input grown', from, to });
    await this.#producer.run(this.context.halt.signal, onGrown).catch(this.#failed);
  }

  async #collect(): Promise<void> {
    const { plan, store, queue, committer, lease, reuse, deaths } = this.parts;
    const { ledger } = store;
    await collect({
      window: this.#window,
      ledger,
      lease,
      committer,
      recordOf: plan.recordOf,
      reuse,
      requeuer: new Requeuer(this.#window, this.#producer, queue, ledger, lease, this.context.log, deaths),
      events: this.#events,
      stop: this.stop,
      drained: this.#drained.signal,
    }).catch(this.#failed);
  }

  #failed = (error: unknown): void => {
    this.context.halt.request(haltReason(this.parts.store.health.stopFor(error)));
  };

  /** After a halt nothing more is sent, and the collector continues until the calls in flight have ended. */
  async #finishCalls(reason: HaltReason): Promise<void> {
    const signal = reason.kind === 'signal' ? reason.signal : null;
    this.#events.emit({ type: 'run halted', signal, inFlight: this.#local?.worker.inFlight ?? 0 });
    this.#window.close();
    this.#canary.close();
    const { batches } = this.parts;
    const [running = 0] = await Promise.all([batches?.leave(), this.#local?.worker.close()]);
    if (running > 0)
      this.context.say(
        `${running === 1 ? 'a batch goes' : `${running} batches go`} on at the service: the same command comes back for ${running === 1 ? 'it' : 'them'}`,
      );
    this.#drained.abort();
  }

  async #untilLeft(work: Promise<unknown>): Promise<'left' | 'late' | 'away'> {
    const { store } = this.parts;
    const over = new AbortController();
    const away = (afterMs?: number) => silenceOf(store, over.signal, afterMs).then(() => 'away' as const);
    // A halted run ends whatever state the store is in (faults 46 and 82): the files are always consistent.
    const halted = this.context.halt.requested.then(() =>
      over.signal.aborted ? 'left' : Promise.race([away(), sleep(HALT_MS, 'late' as const, { ref: false })]),
    );
    // A run with all rows on disk does not need the store any more.
    const done = work.then(() => Promise.race([this.#leave(), away(LEAVE_MS)]));
    return await Promise.race([halted, done]).finally(() => over.abort());
  }

  /** @param kept answers that the store keeps; null when it cannot be asked */
  #recount(kept: number | null): void {
    const { committer, before } = this.parts;
    const { run, calls } = committer.manifest;
    const worker = this.#local?.worker;
    // Only the ledger has the counts of a fleet's workers.
    if (worker === undefined) committer.recount(calls, NO_CALLS, kept);
    else committer.recount(before, worker.totals(run), kept);
  }

  /** What the counters of the ledger lack. Calls in flight are excluded: the ledger knows them by name. */
  #lacking(calls: Counters): Partial<Counters> {
    const { calls: known } = this.parts.committer.manifest;
    return { ...eachOf(namesIn(known), (name) => (known[name] ?? 0) - (calls[name] ?? 0)), in_flight: 0 };
  }

  /** Beside the final answer of each row; 0 when no row is asked again. */
  async #askedAgain(): Promise<number> {
    const { committer, store } = this.parts;
    if (this.settings.onInvalid === null) return 0;
    const { run } = committer.manifest;
    const chunks = this.#window.all();
    const ended = await Promise.all(chunks.map(({ first }) => store.ledger.outcomes({ run, first })));
    const rows = chunks.flatMap((chunk) => chunk.rows.map(({ row }) => row.number));
    const interim = await store.ledger.interim(run, rows);
    const before = ended.flatMap((outcomes) => [...outcomes.values()]).map(({ asked = 1 }) => asked - 1);
    return [...before, ...[...interim.values()].map(({ asked = 1 }) => asked)].reduce((a, b) => a + b, 0);
  }

  async #leave(): Promise<'left'> {
    const { queue, committer, store } = this.parts;
    const { run } = committer.manifest;
    await this.#local?.worker.close();
    try {
      if (this.context.halt.reason !== null) await queue.withdraw(run);
      await queue.close();
      // Includes what the worker's last calls changed.
      const { calls, opened } = await store.ledger.progress(run, []);
      if (opened) committer.count(calls);
      // As the next execution will find it. The collector also counts rows that are not sent as known.
      if (this.context.halt.reason !== null) {
        this.#waiting = await store.ledger.waiting(run);
        this.#kept = this.#waiting + (await this.#askedAgain());
        this.#recount(this.#kept);
        // The next execution continues with the counters of the ledger.
        if (opened) await store.ledger.write({ ...NOTHING, counts: new Map([[run, this.#lacking(calls)]]) });
      }
    } catch (error) {
      if (storeErrorOf(error) === null) throw error;
      this.context.log.debug({ err: error }, 'could not close the run in the store');
    }
    return 'left';
  }
}

/** @param unrecorded answers of this process that are not in the store */
const awayText = (unrecorded: number): string =>
  `the queue was unreachable, so the run ended without it${unrecorded === 0 ? '' : `; ${counted(unrecorded, 'answer')} could not be saved and will be called again`}`;

function haltReason(error: unknown): HaltReason {
  // The reader of standard output has closed it (fault 51).
  if (error instanceof StopError && isClosedPipe(error.cause)) return { kind: 'signal', signal: 'SIGPIPE' };
  if (!(error instanceof StopError)) return { kind: 'error', error };
  const message = error.hint === undefined ? error.message : `${error.message} ${error.hint}`;
  return { kind: 'stop', problem: { code: error.code, message } };
}

const isClosedPipe = (cause: unknown): boolean => errorCode(cause) === 'EPIPE';
