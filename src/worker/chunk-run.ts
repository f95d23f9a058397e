import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { boundsOf, budgetFault, NO_TOKENS, plus } from '../budget/budget.js';
import { steadyNow } from '../clock.js';
import { WORKER_SAFE_MS } from '../fleet/lost-workers.js';
import type { CalledOutcome, Fault } from '../model.js';
import type { Reserved } from '../pace/usage.js';
import type { Chunk, ChunkRow } from '../queue/chunk.js';
import { withDeployment } from '../service/endpoint-spec.js';
import { operationOf } from '../service/operation.js';
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

/** Pause before rows return to the queue because the store refused, in ms. */
const STORE_PAUSE_MS = 1_000;
/** Pause between two looks at rows in flight elsewhere, in ms. */
const LOOK_MS = 500;
/** This long after its deadline, a call is taken to belong to a dead process, in ms. */
const GONE_MS = 10_000;
/** Lifetime of a grant, in ms. After a longer freeze others may have answered the rows (faults 31, 43). */
const GRANT_MS = WORKER_SAFE_MS;
/** The same for a grant reserved ahead, which waits for its slot through any sleep of the process. */
const AHEAD_MS = 2_000;

/** Shortest delay of rows that another deployment will be asked for, in ms. */
const LATER_MS = 1_000;

export type ChunkEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  /** Rows wait this long for another deployment, in ms. */
  | { readonly kind: 'later'; readonly ms: number }
  | { readonly kind: 'retry'; readonly rows: number; readonly codes: readonly string[] };

/** What calls one deployment and decides when it may be called. */
export interface Lane extends FeedbackParts {
  readonly feedback: Feedback;
  /** One limit over all its calls in the process; runs take turns. */
  readonly limit: FairLimit;
}

/** A chunk and the deployment it is sent to now. */
interface Way extends Lane {
  readonly chunk: Chunk;
}

/** Shared by all chunks of a process; the lane is that of their own deployment. */
export interface ChunkRunParts extends Lane {
  readonly batcher: Batcher;
  /** The lane of the deployment asked last (`answer.on_invalid`). */
  readonly laneOf: (deployment: string) => Lane;
  readonly inSlot: <T>(job: () => Promise<T>) => Promise<T>;
  /** After a sleep: resolves when the process has checked which entries are still its own. */
  readonly looked: () => Promise<void> | undefined;
  readonly budgets: BudgetWait;
  readonly mostBilled: MostBilled;
  readonly releasing: () => boolean;
  /** True when the run was stopped: its rows come again with its next execution. */
  readonly isStopped: (chunk: Chunk) => boolean;
  readonly onRequest: () => void;
  /** Stops the run: nothing can succeed until a person fixes the cause. */
  readonly stop: (chunk: Chunk, fault: Fault) => Promise<void>;
}

interface Lease {
  readonly chunk: Chunk;
  /** From 1. */
  readonly attempt: number;
  /** Most attempts. */
  readonly attempts: number;
  readonly isOwn: boolean;
  /** Null where answers are recorded as they are. */
  readonly asking: Asking | null;
  /** True when another worker has the entry: it takes over the uncalled rows and records the failures. */
  readonly isLost: () => boolean;
}

interface FailedCall {
  readonly row: ChunkRow;
  readonly verdict: Unsettled;
}

/**
 * The calls for one chunk: looks up its rows in the ledger, then reserves, calls and settles each request.
 */
export class ChunkRun {
  /** Names the calls of this lease: `own:` or `any:`, the execution, a random id. */
  readonly #call: string;
  /** False once nobody collects the rows. */
  #wanted = true;
  /** Rows for the next attempt, and the number of requests they were in. */
  readonly #failed: FailedCall[] = [];
  #failedRequests = 0;
  #mixedUp: FailedCall[] = [];
  /** Rows to call again in this lease: their answers did not fit, or the server had no room for them. */
  readonly #again = new Set<number>();
  /** Rows return to the queue: nobody may call now (`waits`), or another worker may take them (`leaves`). */
  #waits = false;
  #leaves = false;
  /** Delay of rows that another deployment will be asked for, in ms. */
  #laterMs = 0;
  /** Resolves when the last settlement, and so all before it, is in the ledger. */
  #settled: Promise<void> = Promise.resolve();
  /** Resolve when unused grants are returned. */
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

  async #ask(rows: readonly ChunkRow[], way: Way): Promise<void> {
    const { asking, attempt } = this.lease;
    const asked = asking === null ? rows : rows.map((row) => asking.next(row));
    const { promptsPerRequest, endpoint } = way.chunk;
    const mostAsked = Math.min(promptsPerRequest, operationOf(endpoint).promptsPerCall);
    const most = way.feedback.packSize(mostAsked, attempt);
    await this.#callAll(packs(asked, most, way.chunk.parameters), way);
    // Now, not with the next attempt: neither the rows nor the service are at fault.
    const alone = this.#mixedUp.splice(0);
    this.#countRetries(alone, alone.length);
    await this.#callAll(
      alone.map(({ row }) => [row]),
      way,
    );
  }

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
    // Before the failed rows: a wait uses no attempt, and they are retried along with it.
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

  /** Counts retries; those of a call that may have been billed may be paid for twice (fault 21). */
  #countRetries(failed: readonly FailedCall[], requests: number): void {
    const { batcher } = this.parts;
    const billed = failed.filter(({ verdict }) => verdict.possiblyBilled).length;
    if (requests > 0) batcher.count(this.lease.chunk.run, 'retried', requests);
    if (billed > 0) batcher.count(this.lease.chunk.run, 'repeated', billed);
  }

  async #callAll(inOrder: readonly (readonly ChunkRow[])[], way: Way): Promise<void> {
    const { outage, limit } = way;
    // In an outage the first request probes: it must not be the same row every time.
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

  /** When the store cannot tell a row's fate, the row returns to the queue; the rest of the chunk goes on. */
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
   * Reserves the next request in advance, so that its call does not wait for the store. Requests that must
   * wait anyway are not reserved early: grants expire, use budget, and with `hold` a crash fails their rows.
   */
  #reserveAhead(rows: readonly ChunkRow[], { outage, pacer, limit, chunk }: Way): Ahead | null {
    const { batcher } = this.parts;
    const { hold, budget } = chunk;
    if (!this.#wanted || this.#isReleasing || hold || budget !== null) return null;
    if (pacer.takesPermits || outage.view !== null || pacer.waitingMs > 0) return null;
    const reservation = this.#reservation(rows.map(unpriced), false);
    return batcher.reserveAhead(reservation, () => limit.prepare());
  }

  /** Takes the slot last: a queue that waits for its permit holds none. */
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

  get #isReleasing(): boolean {
    return this.parts.releasing() || this.lease.isLost();
  }

  /** When not, the rows go back to the queue. */
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
   * The deployment may not be called now. The queue pauses for its own deployment only, so rows of another
   * one delay their entry.
   */
  #wait({ pacer, outage }: Way): void {
    if (pacer === this.parts.pacer) this.#waits = true;
    else this.#laterMs = Math.max(this.#laterMs, LATER_MS, pacer.waitingMs, outage.remaining(steadyNow()));
  }

  /**
   * Waits for as long as the store is away or the budget is full. Rows known or unwanted are done, the rest
   * go back to the queue.
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
      // The store may have been slow for several calls at once.
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
   * Calls for granted rows. The slot is free before the ledger has the outcomes, but the next call needs a
   * grant of a later batch. So a crash leaves at most `concurrency` calls unknown, and without the store no
   * calls are made.
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
    // May make a plain call to see whether the service is down, in this call's slot and reservation.
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
    await this.parts.stop(chunk, this.#named(fault, way));
    this.#wanted = false;
  }

  #named(fault: Fault, { chunk: { endpoint } }: Way): Fault {
    if (endpoint.deployment === this.lease.chunk.endpoint.deployment) return fault;
    const message = fault.message.replaceAll('service.deployment', 'answer.on_invalid.deployment');
    return { ...fault, message: `${endpoint.deployment}: ${message}` };
  }

  /** Null when the row has no outcome yet; notes how it goes on. */
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
        // No attempt is used, since the row is not at fault: it comes again after the rest of the chunk.
        this.#again.add(row.row);
        return null;
      case 'retry':
        if (verdict.possiblyBilled && chunk.hold) return { outcome: lostRow(verdict, attempt) };
        if (verdict.fault.code === 'aborted') break;
        // In an outage a failure uses no attempt.
        if (isDown) this.#wait(way);
        if (isDown && way.pacer !== this.parts.pacer) this.#countRetries([{ row, verdict }], 1);
        else (verdict.alone ? this.#mixedUp : this.#failed).push({ row, verdict });
        return null;
    }
    // Aborted because this process or the run ends: no attempt, but it may be billed, and is called again.
    if (verdict?.possiblyBilled) batcher.count(chunk.run, 'repeated');
    this.#leaves = true;
    return null;
  }

  /** Reserves nothing. */
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
   * Rows in flight elsewhere end with that call's outcome, or as cut off when its process is dead. When the
   * call was not made, or its result is uncertain, they can be called again.
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

  /** Whether nobody will settle a call any more: its process is dead, or sleeps. */
  #isGone({ call, ageMs }: InFlight): boolean {
    const { execution, endpoint } = this.lease.chunk;
    // Only one process at a time works on a run, so the one of an earlier execution has ended.
    if (call.startsWith(OWN) && Number(call.split(':')[1]) < execution) return true;
    return ageMs > endpoint.timeoutMs + GONE_MS;
  }

  #record(row: ChunkRow, judged: Judged): void {
    const settlement = this.#settlement(row, null, judged, this.parts);
    this.#settled = this.parts.batcher.settle(this.lease.chunk.run, [settlement]);
  }

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

/** A row of a run without a budget, or one that is only looked up. */
const unpriced = ({ row }: ChunkRow): RowMost => ({ row, most: NO_TOKENS });

const isHeld = (state: RowState | undefined): state is InFlight => typeof state === 'object';
