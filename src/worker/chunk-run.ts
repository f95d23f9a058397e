import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { boundsOf, budgetFault, NO_TOKENS, plus } from '../budget/budget.js';
import { steadyNow } from '../clock.js';
import { WORKER_SAFE_MS } from '../fleet/lost-workers.js';
import type { CalledOutcome, Fault } from '../model.js';
import type { Reserved } from '../pace/usage.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import { withDeployment } from '../service/endpoint-spec.js';
import type { Unsettled, Verdict } from '../service/verdict.js';
import {
  type Answer,
  type InFlight,
  OWN,
  type Reservation,
  type RowMost,
  type RowState,
  type Settlement,
} from '../store/ledger.js';
import type { Asking, Judged } from './asking.js';
import { type Ahead, type Batcher, sumOf } from './batcher.js';
import { billedFor, type MostBilled, type ReservedRow } from './billing.js';
import type { BudgetWait } from './budget-wait.js';
import { parametersOf } from './caller.js';
import { cutOffRow, failedRow, lostRow } from './failed-row.js';
import type { FairLimit, Job } from './fair-limit.js';
import type { Feedback, FeedbackParts } from './feedback.js';
import { packs, shuffled } from './packs.js';

/** Pause before rows go back to the queue because the store refused, in milliseconds. */
const STORE_PAUSE_MS = 1_000;
/** Pause between two looks at rows that are in flight elsewhere, in milliseconds. */
const LOOK_MS = 500;
/** A call that has not ended so long after its deadline is one of a process that is gone, in milliseconds. */
const GONE_MS = 10_000;
/**
 * A grant is good for this time, in milliseconds. A process that was frozen for longer may find its rows answered by
 * another (faults 31 and 43), so it asks again.
 */
const GRANT_MS = WORKER_SAFE_MS;
/** The same for a grant that was asked for ahead: it waits for its slot, so any sleep of the process falls upon it. */
const AHEAD_MS = 2_000;

/** Rows that another deployment is to be asked for are put off for this time at least, in milliseconds. */
const LATER_MS = 1_000;

/** How a chunk ends: every row recorded, rows to be tried again, a pause, or rows not called. */
export type ChunkEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  /** Rows wait for another deployment, for so many milliseconds. */
  | { readonly kind: 'later'; readonly ms: number }
  | { readonly kind: 'retry'; readonly rows: number; readonly codes: readonly string[] };

/** The way to one deployment: who calls it, and who says when it may be called. */
export interface Lane extends FeedbackParts {
  readonly feedback: Feedback;
  /** One limit over all its calls in the process, in which its runs take turns. */
  readonly limit: FairLimit;
}

/** A chunk as it is asked of one deployment. */
interface Way extends Lane {
  readonly chunk: Chunk;
}

/** What all chunks of a process share, with the lane of their deployment. */
export interface ChunkRunParts extends Lane {
  readonly batcher: Batcher;
  /** The lane of another deployment, which rows are asked of last. */
  readonly laneOf: (deployment: string) => Lane;
  /** Takes a slot of the limit over all queues of the process. */
  readonly inSlot: <T>(job: () => Promise<T>) => Promise<T>;
  /** Resolves when a process that slept has looked which entries are still its own. */
  readonly looked: () => Promise<void> | undefined;
  readonly budgets: BudgetWait;
  readonly mostBilled: MostBilled;
  /** True when rows that are not called yet go back to the queue. */
  readonly releasing: () => boolean;
  /** True when the run of the chunk was stopped: its rows come again with its next execution. */
  readonly isStopped: (chunk: Chunk) => boolean;
  /** Told before each request. */
  readonly onRequest: () => void;
  /** Nothing can pass until somebody mends something. */
  readonly stop: (chunk: Chunk, fault: Fault) => Promise<void>;
}

/** One entry of the queue. */
interface Lease {
  readonly chunk: Chunk;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  /** Attempts that the rows have in all. */
  readonly attempts: number;
  /** Whether this process works on the run. */
  readonly isOwn: boolean;
  /** Reads its answers; null where they stay as they are. */
  readonly asking: Asking | null;
  /** True when another worker has the entry: what was not called is left to that one, and so is the end of the rows. */
  readonly isLost: () => boolean;
}

/** A row whose call failed and may be made again. */
interface FailedCall {
  readonly row: ChunkRow;
  readonly verdict: Unsettled;
}

/**
 * The calls for one chunk, from the lease of its entry to its end: looks at what the ledger knows of its rows, reserves
 * those of each request when it may be made, calls, and settles them.
 */
export class ChunkRun {
  /** Name of its calls: who makes them, the execution, and what tells it from other leases. */
  readonly #call: string;
  /** False once nobody collects the rows any more. */
  #wanted = true;
  /** Rows to be called again, and how many requests they were in. */
  readonly #failed: FailedCall[] = [];
  #failedRequests = 0;
  /** Rows to be called again at once, each alone. */
  #mixedUp: FailedCall[] = [];
  /** Rows to be asked next, because their answers did not fit, or the server had no room for them beside others. */
  readonly #again = new Set<number>();
  /** Rows go back to the queue because nobody may call at present, or because somebody else may take them. */
  #waits = false;
  #leaves = false;
  /** The same for rows that are to be asked of another deployment: after so many milliseconds. */
  #laterMs = 0;
  /** Resolves when what was settled last is in the ledger, and so all before it. */
  #settled: Promise<void> = Promise.resolve();
  /** Resolve when grants that were not used are given back. */
  readonly #givenBack: Promise<void>[] = [];

  constructor(
    private readonly parts: ChunkRunParts,
    private readonly lease: Lease,
  ) {
    const { isOwn, chunk } = lease;
    this.#call = `${isOwn ? OWN : 'any:'}${chunk.execution}:${randomBytes(6).toString('base64url')}`;
  }

  async run(): Promise<ChunkEnd> {
    const { chunk, asking } = this.lease;
    const { parts } = this;
    const { rows: states, interim } = await this.#look(chunk.rows);
    asking?.resume(interim);
    const heldElsewhere = this.#awaitHeld(chunk.rows, states);
    const open = chunk.rows.filter((_, i) => states[i] === 'granted');
    for (let rows = open; rows.length > 0; rows = chunk.rows.filter(({ row }) => this.#again.delete(row))) {
      const isEscalated = (row: ChunkRow): boolean => asking?.isEscalated(row) ?? false;
      await this.#ask(
        rows.filter((row) => !isEscalated(row)),
        { ...parts, chunk },
      );
      await this.#escalate(rows.filter(isEscalated));
    }
    await heldElsewhere;
    const end = this.#end();
    await Promise.all([this.#settled, ...this.#givenBack]);
    return end;
  }

  /** Has rows called for by one deployment, each once. */
  async #ask(rows: readonly ChunkRow[], way: Way): Promise<void> {
    const { asking, attempt } = this.lease;
    const asked = asking === null ? rows : rows.map((row) => asking.next(row));
    const most = way.feedback.packSize(way.chunk.promptsPerRequest, attempt);
    await this.#callAll(packs(asked, most, way.chunk.parameters), way);
    // At once and not with the next attempt: nothing is wrong with the rows, nor with the service.
    const alone = this.#mixedUp.splice(0);
    this.#countRetries(alone, alone.length);
    await this.#callAll(
      alone.map(({ row }) => [row]),
      way,
    );
  }

  /** The same by the deployment that is asked last. */
  async #escalate(rows: readonly ChunkRow[]): Promise<void> {
    const { chunk } = this.lease;
    const deployment = chunk.asks?.deployment;
    if (rows.length === 0 || !deployment) return;
    const endpoint = withDeployment(chunk.endpoint, deployment);
    await this.#ask(rows, { ...this.parts.laneOf(deployment), chunk: { ...chunk, endpoint } });
  }

  #end(): ChunkEnd {
    const { attempt, attempts } = this.lease;
    const failed = this.#failed;
    const isLost = this.lease.isLost();
    const isLast = this.#wanted && !this.#waits && !isLost && attempt >= attempts;
    if (!isLast) this.#countRetries(failed, this.#failedRequests);
    if (!this.#wanted) return { kind: 'done' };
    if (isLost) return { kind: 'left' };
    // Before the rows that failed: a wait uses up no attempt, and theirs are tried again with it.
    if (this.#waits) return { kind: 'wait' };
    if (isLast) {
      for (const { row, verdict } of failed) this.#record(row, this.#last(row, failedRow(verdict, attempt)));
    } else if (failed.length > 0) {
      const codes = [...new Set(failed.map(({ verdict }) => verdict.fault.code))];
      return { kind: 'retry', rows: failed.length, codes };
    }
    if (this.#laterMs > 0) return { kind: 'later', ms: this.#laterMs };
    return { kind: this.#leaves ? 'left' : 'done' };
  }

  /**
   * The requests that follow may be the second that is paid for (fault 21).
   * @param requests how many follow
   */
  #countRetries(failed: readonly FailedCall[], requests: number): void {
    const { batcher } = this.parts;
    const billed = failed.filter(({ verdict }) => verdict.possiblyBilled).length;
    if (requests > 0) batcher.count(this.lease.chunk.run, 'retried', requests);
    if (billed > 0) batcher.count(this.lease.chunk.run, 'repeated', billed);
  }

  async #callAll(inOrder: readonly (readonly ChunkRow[])[], way: Way): Promise<void> {
    const { outage, limit } = way;
    // In an outage the first of them probes; it must not be the same row again and again.
    const requests = outage.view === null ? inOrder : shuffled(inOrder, Math.random);
    const jobs = requests.map((rows): Job => {
      let ahead: Ahead | null = null;
      return {
        prepare: () => {
          ahead = this.#reserveAhead(rows, way);
          return ahead !== null;
        },
        run: () => this.#inTurn(rows, ahead, way),
      };
    });
    await limit.run(this.lease.chunk.run, jobs);
  }

  /** Rows whose fate the store did not let us learn go back to the queue; the others of their chunk go on. */
  async #inTurn(rows: readonly ChunkRow[], ahead: Ahead | null, way: Way): Promise<void> {
    const { log, batcher } = this.parts;
    try {
      const made = await way.outage.through(steadyNow, () => this.#request(rows, ahead, way));
      if (made === null) this.#wait(way);
    } catch (error) {
      log.warn({ err: error, row: rows[0]?.row }, 'the store refused; rows go back to the queue');
      await sleep(STORE_PAUSE_MS);
      this.#leaves = true;
    } finally {
      const unused = ahead?.take();
      if (ahead && unused)
        this.#givenBack.push(unused.then((reply) => batcher.giveBack(ahead.reservation, reply)));
    }
  }

  /**
   * Reserves a request that is next in line for a slot, so that its call waits for the store no more. One that has to wait
   * for something else is reserved when that is over: a grant is good for a short time, takes room from a budget, and
   * fails its row with `hold` when this process is killed.
   */
  #reserveAhead(rows: readonly ChunkRow[], { outage, pacer, limit, chunk }: Way): Ahead | null {
    const { batcher } = this.parts;
    const { hold, budget } = chunk;
    if (!this.#wanted || this.#isReleasing || hold || budget !== null) return null;
    if (pacer.takesPermits || outage.view !== null || pacer.waitingMs > 0) return null;
    const reservation = this.#reservation(rows.map(unpriced), false);
    return batcher.reserveAhead(reservation, () => limit.prepare());
  }

  /**
   * Makes a request when it may be made. The slot comes last, so that a queue that waits for its permit takes none from
   * the others.
   */
  async #request(rows: readonly ChunkRow[], ahead: Ahead | null, way: Way): Promise<void> {
    const { estimate, pacer, chunk } = way;
    if (!this.#mayCall(way)) return;
    const prompts = rows.map(({ prompt }) => prompt);
    const reserved = estimate.reserve(prompts, parametersOf(chunk, rows));
    const admission = await pacer.admit(reserved.tokens);
    if (admission === 'pause') this.#wait(way);
    else if (admission === 'closed') this.#leaves = true;
    else {
      await this.parts.inSlot(async () => {
        const granted = await this.#reserve(rows, admission.permit, ahead, way);
        if (granted.length > 0) await this.#callFor(granted, reserved, way);
        else pacer.withdrawn(reserved.tokens);
      });
    }
  }

  /** Whether rows that are not called yet are left to others. */
  get #isReleasing(): boolean {
    return this.parts.releasing() || this.lease.isLost();
  }

  /** Whether a request may be made now; where it may not, its rows go back to the queue. */
  #mayCall(way: Way): boolean {
    if (this.parts.isStopped(way.chunk)) this.#wanted = false;
    if (!this.#wanted || this.#isReleasing) {
      this.#leaves = true;
      return false;
    }
    const isPaused = way.pacer.waitingMs > 0;
    if (isPaused) this.#wait(way);
    return !isPaused;
  }

  /**
   * Rows go back to the queue because their deployment may not be called at present. The queue pauses with its own only, so
   * the entry of rows that another is to be asked for is put off.
   */
  #wait({ pacer, outage }: Way): void {
    if (pacer === this.parts.pacer) this.#waits = true;
    else this.#laterMs = Math.max(this.#laterMs, LATER_MS, pacer.waitingMs, outage.remaining(steadyNow()));
  }

  /**
   * Has the ledger decide which rows may be called, which may take as long as the store is away, or until the budget has
   * room. Of the others, those that are known or not wanted need nothing more, and the rest go back to the queue.
   * @returns the rows to call
   */
  async #reserve(
    asked: readonly ChunkRow[],
    permit: number,
    ahead: Ahead | null,
    way: Way,
  ): Promise<readonly ReservedRow[]> {
    const { batcher, budgets, mostBilled, stop, looked } = this.parts;
    const { chunk, pacer } = way;
    const rows = mostBilled.of(chunk, asked);
    for (let refusals = 0; ; ) {
      await looked();
      if (!this.#mayCall(way)) return [];
      const early = ahead?.take() ?? null;
      const reservation = (early && ahead?.reservation) ?? this.#reservation(rows, false);
      const reply = await (early ?? batcher.reserve(reservation));
      if (reply.rows.includes('unwanted')) this.#wanted = false;
      const granted = rows.filter((_, i) => reply.rows[i] === 'granted');
      const isFull = reply.rows.includes('no_room');
      if (granted.length === 0 && isFull && chunk.budget !== null) {
        if (await budgets.room(chunk, chunk.budget, reply, refusals++ === 0)) continue;
        const full = rows.filter((_, i) => reply.rows[i] === 'no_room');
        await stop(chunk, budgetFault(chunk.budget, reply.spent, sumOf(full)));
        continue;
      }
      // The store may have taken its time, for several calls at once.
      if (granted.length > 0) await pacer.space(permit);
      const isGood = steadyNow() - reply.askedAt < (early === null ? GRANT_MS : AHEAD_MS);
      if (granted.length === 0 || (isGood && this.#mayCall(way))) {
        if (isFull || reply.rows.some(isHeld)) this.#leaves = true;
        return granted;
      }
      this.#givenBack.push(batcher.giveBack(reservation, reply));
    }
  }

  /**
   * Calls for rows that were granted. The slot is free again before the ledger has the outcomes: the next call needs a
   * grant of a later batch. So the calls whose end a crash makes unknown are never more than the limit, and a store that
   * is away stops the calls.
   */
  async #callFor(rows: readonly ReservedRow[], reserved: Reserved, way: Way): Promise<void> {
    const { batcher, budgets, log, onRequest } = this.parts;
    const { caller, feedback, chunk } = way;
    const { attempt } = this.lease;
    onRequest();
    const startedAt = steadyNow();
    const verdicts = await caller.call(chunk, rows, attempt);
    const name = this.#nameOf(rows[0]);
    const learned = feedback.learn({ chunk, name, verdicts, reserved, startedAt });
    const wasDown = way.outage.view !== null;
    // A plain call may have to tell whether the service is down. It takes the place of this one, and of what that has reserved.
    const stops = learned instanceof Promise ? await learned : learned;
    const isDown = wasDown || way.outage.view !== null;
    const failure = verdicts.find(({ kind }) => kind === 'retry' || kind === 'no_room');
    if (failure?.kind === 'no_room') batcher.count(chunk.run, 'retried');
    if (failure?.kind === 'retry' || failure?.kind === 'no_room')
      log.info({ run: chunk.run, attempt, ...failure.fault }, 'a call failed');
    const failedBefore = this.#failed.length;
    const settled = rows.map((row, i) =>
      this.#settlement(row, this.#call, this.#conclude(row, verdicts[i], isDown, way), way),
    );
    if (this.#failed.length > failedBefore) this.#failedRequests++;
    const billed = rows.reduce((sum, { most }, i) => plus(sum, billedFor(verdicts[i], most)), NO_TOKENS);
    this.#settled = batcher.settle(chunk.run, settled, sumOf(rows), billed);
    if (chunk.budget !== null) budgets.wake(chunk);

    const stop = verdicts.find(({ kind }) => kind === 'stop');
    const fault = stops ?? (stop?.kind === 'stop' ? stop.fault : null);
    if (fault === null) return;
    // The rows come again with the next execution of the run.
    await this.parts.stop(chunk, this.#named(fault, way));
    this.#wanted = false;
  }

  /** A fault of another deployment says whose it is. */
  #named(fault: Fault, { chunk: { endpoint } }: Way): Fault {
    if (endpoint.deployment === this.lease.chunk.endpoint.deployment) return fault;
    const message = fault.message.replaceAll('service.deployment', 'answer.on_invalid.deployment');
    return { ...fault, message: `${endpoint.deployment}: ${message}` };
  }

  /** What a call brought for a row by the verdict on it. Where that is no outcome, notes how the row goes on. */
  #conclude(row: ChunkRow, verdict: Verdict | undefined, isDown: boolean, way: Way): Judged | null {
    const { batcher } = this.parts;
    const { asking, attempt } = this.lease;
    const { chunk } = way;
    switch (verdict?.kind) {
      case 'final': {
        if (asking === null) return verdict;
        const judged = asking.judge(row, verdict.outcome);
        if (judged.interim) this.#again.add(row.row);
        return judged;
      }
      case 'wait':
        this.#wait(way);
        return null;
      case 'no_room':
        // No attempt, because nothing is wrong with the row: its turn comes again behind the others of the chunk.
        this.#again.add(row.row);
        return null;
      case 'retry':
        if (verdict.possiblyBilled && chunk.hold) return { outcome: lostRow(verdict, attempt) };
        if (verdict.fault.code === 'aborted') break;
        // In an outage that is no attempt.
        if (isDown) this.#wait(way);
        if (isDown && way.pacer !== this.parts.pacer) this.#countRetries([{ row, verdict }], 1);
        else (verdict.alone ? this.#mixedUp : this.#failed).push({ row, verdict });
        return null;
    }
    // Given up because this process or the run ends: no attempt, but perhaps paid for, and called again.
    if (verdict?.possiblyBilled) batcher.count(chunk.run, 'repeated');
    this.#leaves = true;
    return null;
  }

  /** What the ledger knows of rows; nothing is reserved. */
  async #look(rows: readonly ChunkRow[]): Promise<Answer> {
    const answer = await this.parts.batcher.reserve(this.#reservation(rows.map(unpriced), true));
    if (answer.rows.includes('unwanted')) this.#wanted = false;
    return answer;
  }

  #reservation(rows: readonly RowMost[], looks: boolean): Reservation {
    const { run, execution, first, hold, budget } = this.lease.chunk;
    const bounds = budget === null || looks ? null : boundsOf(budget);
    return { run, execution, first, hold, call: this.#call, rows, bounds, looks };
  }

  /**
   * Rows that are in flight elsewhere end by what comes of that call; when it will not be heard of any more, they end
   * without an outcome. A call that was not made, or not answered for certain, leaves them to be called.
   */
  async #awaitHeld(asked: readonly ChunkRow[], known: readonly RowState[]): Promise<void> {
    let [rows, states] = [asked, known];
    for (;;) {
      const held: ChunkRow[] = [];
      for (const [i, row] of rows.entries()) {
        const state = states[i];
        if (!isHeld(state)) continue;
        if (this.#isGone(state)) this.#record(row, { outcome: cutOffRow() });
        else held.push(row);
      }
      if (held.length === 0) return;
      if (this.#isReleasing) {
        this.#leaves = true;
        return;
      }
      await sleep(LOOK_MS);
      [rows, states] = [held, (await this.#look(held)).rows];
      if (states.includes('granted')) this.#leaves = true;
    }
  }

  /** Whether a call will not be heard of any more: its process is gone, or sleeps. */
  #isGone({ call, ageMs }: InFlight): boolean {
    const { execution, endpoint } = this.lease.chunk;
    // A run has one process, and this execution means that the one before has ended.
    if (call.startsWith(OWN) && Number(call.split(':')[1]) < execution) return true;
    return ageMs > endpoint.timeoutMs + GONE_MS;
  }

  /** Records the outcome of a row that has no call in flight. */
  #record(row: ChunkRow, judged: Judged): void {
    const settlement = this.#settlement(row, null, judged, this.parts);
    this.#settled = this.parts.batcher.settle(this.lease.chunk.run, [settlement]);
  }

  /** The outcome of a row whose last call brought no answer. */
  #last(row: ChunkRow, outcome: CalledOutcome): Judged {
    const { asking } = this.lease;
    return { outcome: asking === null ? outcome : asking.lasting(row, outcome) };
  }

  #settlement(row: ChunkRow, call: string | null, judged: Judged | null, { outage }: Lane): Settlement {
    const { run, first } = this.lease.chunk;
    const { outcome = null, interim } = judged ?? {};
    if (outcome !== null) outage.settled(this.#nameOf(row));
    const settlement = { run, first, row: row.row, call, outcome };
    return interim ? { ...settlement, interim } : settlement;
  }

  #nameOf(row: ChunkRow | undefined): string {
    return `${this.lease.chunk.run}:${row?.row}`;
  }
}

/** A row of a run without a budget, or one that is only looked at. */
const unpriced = ({ row }: ChunkRow): RowMost => ({ row, most: NO_TOKENS });

const isHeld = (state: RowState | undefined): state is InFlight => typeof state === 'object';
