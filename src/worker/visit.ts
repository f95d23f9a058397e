import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { steadyNow } from '../core/clock.js';
import type { CalledOutcome, Parameters, Problem } from '../core/model.js';
import { WORKER_SAFE_MS } from '../ops/lost-workers.js';
import { boundsOf, budgetProblem, NO_TOKENS, plus } from '../pace/budget.js';
import type { Entry } from '../pace/gate.js';
import type { Reserved } from '../pace/usage.js';
import { promptText } from '../prompt/prompt-text.js';
import type { Chunk, ChunkAt, ChunkRow } from '../queue/chunk.js';
import { answerBytes, LARGEST_ANSWER } from '../service/answer-size.js';
import { withDeployment } from '../service/endpoint-spec.js';
import { commonOperation } from '../service/operation.js';
import type { Tier } from '../service/response.js';
import type { Final, Unsettled, Verdict } from '../service/verdict.js';
import {
  type Answer,
  type InFlight,
  OWN_CALL,
  type Reservation,
  type RowMost,
  type RowState,
  type Settlement,
} from '../store/ledger.js';
import type { AnswerCheck } from './answer-check.js';
import { type Batcher, type PrefetchedGrant, sumOf } from './batcher.js';
import { billedFor, type MostBilled, type ReservedRow } from './billing.js';
import { type BudgetWait, GONE_MS } from './budget-wait.js';
import { parametersOf } from './caller.js';
import type { Task } from './fair-limit.js';
import { cutOffRow, type Fate, failedRow, fateOf } from './fate.js';
import type { Lane } from './lane.js';
import type { Lanes, Route } from './route.js';

/** Pause before rows return to the queue because the store refused, in ms. */
const STORE_PAUSE_MS = 1_000;
/** Pause between two looks at rows in flight elsewhere, in ms. */
const LOOK_MS = 500;
/** Lifetime of a grant, in ms. After a longer freeze others may have answered the rows (faults 31, 43). */
const GRANT_MS = WORKER_SAFE_MS;
/** The same for a grant reserved in advance, which waits for its slot through any sleep of the process. */
const PREFETCHED_MS = 2_000;

/** Shortest delay of rows that another deployment will be asked for, in ms. */
const LATER_MS = 1_000;

export type VisitEnd =
  | { readonly kind: 'done' | 'wait' | 'left' }
  /** Rows wait this long for another deployment, or for capacity, in ms. */
  | { readonly kind: 'later'; readonly ms: number }
  | { readonly kind: 'retry'; readonly rows: number; readonly codes: readonly string[] };

/** The worker, as far as its visits go. */
export interface Host {
  readonly lanes: Pick<Lanes, 'own' | 'to' | 'all'>;
  readonly batcher: Batcher;
  readonly budgets: BudgetWait;
  readonly mostBilled: Pick<MostBilled, 'of'>;
  readonly log: Logger;
  /** True when it closes: uncalled rows go back to the queue. */
  readonly isLeaving: boolean;
  /** True when rows of the run are called online, whatever tier their chunks ask for. */
  isOnline(run: string): boolean;
  /** True when the run was stopped: its rows come again with its next execution. */
  isStopped(chunk: Chunk): boolean;
  /** Stops the run: nothing can succeed until a person fixes the cause. */
  stop(chunk: ChunkAt, problem: Problem): Promise<void>;
  /** After a sleep: resolves when the process has checked which entries are still its own. */
  looked(): Promise<void> | undefined;

  beforeCall(): void;
}

/** A worker's hold on a chunk. */
export interface Lease {
  readonly chunk: Chunk;
  /** From 1. */
  readonly attempt: number;
  /** Most attempts. */
  readonly attempts: number;
  readonly isOwn: boolean;
  /** Null where answers are recorded as they are. */
  readonly asking: AnswerCheck | null;
  /** True when another worker has the entry: it takes over the uncalled rows and records the failures. */
  readonly isLost: boolean;
}

interface FailedCall {
  readonly row: ChunkRow;
  readonly fate: Unsettled;
}

/**
 * A worker's visit to a chunk. It looks up the rows in the ledger; then each request passes the gate, is
 * reserved and called, and the fate of its rows is settled.
 */
export class Visit {
  /** Names its calls: `own:` or `any:`, the execution, a random id. */
  readonly #name: string;
  /** False once nobody collects the rows. */
  #wanted = true;
  /** Rows for the next attempt, and the number of requests they were in. */
  readonly #failed: FailedCall[] = [];
  #failedRequests = 0;
  #mixedUp: FailedCall[] = [];
  /** Rows to call again in this visit: their answers did not fit, or the server had no room for them. */
  readonly #again = new Set<number>();
  /** Rows return to the queue: nobody may call now (`waits`), or another worker may take them (`leaves`). */
  #waits = false;
  #leaves = false;
  /** Delay of rows that another deployment will be asked for, in ms. */
  #laterMs = 0;
  /** Delay of rows for which the flex tier had no capacity, in ms. */
  #lackMs = 0;
  /** Its chunk at each lane. */
  readonly #chunks = new Map<Lane, ChunkAt>();
  /** Resolves when the last settlement, and so all before it, is in the ledger. */
  #settled: Promise<void> = Promise.resolve();
  /** Resolve when unused grants are returned. */
  readonly #givenBack: Promise<void>[] = [];

  constructor(
    private readonly host: Host,
    private readonly lease: Lease,
  ) {
    const { isOwn, chunk } = lease;
    this.#name = `${isOwn ? OWN_CALL : 'any:'}${chunk.execution}:${randomBytes(6).toString('base64url')}`;
  }

  async run(): Promise<VisitEnd> {
    const { chunk, asking } = this.lease;
    const { lanes } = this.host;
    const { rows: states, interim } = await this.#look(chunk.rows);
    asking?.resume(interim);
    const heldElsewhere = this.#awaitHeld(chunk.rows, states);
    const isEscalated = (row: ChunkRow): boolean => asking?.isEscalated(row) ?? false;
    let rows = chunk.rows.filter((_, i) => states[i] === 'granted');
    while (rows.length > 0) {
      const escalated = rows.filter(isEscalated);
      await this.#send(
        rows.filter((row) => !isEscalated(row)),
        lanes.own,
      );
      if (chunk.asks?.deployment && escalated.length > 0) {
        const last = lanes.to(chunk.asks.deployment);
        if (last !== null) await this.#send(escalated, last);
        // A worker with its key may take the entry.
        else this.#laterMs = Math.max(this.#laterMs, LATER_MS);
      }
      rows = chunk.rows.filter(({ row }) => this.#again.delete(row));
    }
    await heldElsewhere;
    const end = this.#end();
    await Promise.all([this.#settled, ...this.#givenBack]);
    return end;
  }

  async #send(rows: readonly ChunkRow[], route: Route): Promise<void> {
    const { asking, attempt, chunk } = this.lease;
    const asked = asking === null ? rows : rows.map((row) => asking.next(row));
    const { promptsPerCall } = commonOperation(chunk.endpoints.map(({ operation }) => operation));
    const most = route.packSize(Math.min(chunk.promptsPerRequest, promptsPerCall), attempt);
    await this.#takeTurns(packs(asked, most, this.#chunkAt(route.lanes[0]).parameters), route);
    // Now, not with the next attempt: neither the rows nor the service are at fault.
    const alone = this.#mixedUp.splice(0);
    this.#countRetries(alone, alone.length);
    await this.#takeTurns(
      alone.map(({ row }) => [row]),
      route,
    );
  }

  async #takeTurns(inOrder: readonly (readonly ChunkRow[])[], route: Route): Promise<void> {
    // In an outage the first request probes: it must not be the same row every time.
    const requests = route.lanes.every(({ outage }) => outage.view === null)
      ? inOrder
      : shuffled(inOrder, Math.random);
    const tasks = requests.map((rows): Task<Lane> => {
      let prefetched: PrefetchedGrant | null = null;
      return {
        prepare: () => {
          prefetched = this.#prefetch(rows, route);
          return prefetched !== null;
        },
        run: (lane) => this.#request(rows, prefetched, lane),
      };
    });
    await route.line.run(this.lease.chunk.run, tasks);
  }

  /** When the store cannot tell a row's fate, the row returns to the queue; the rest of the chunk goes on. */
  async #request(rows: readonly ChunkRow[], prefetched: PrefetchedGrant | null, lane: Lane): Promise<void> {
    const { log, batcher } = this.host;
    try {
      const prompts = rows.map(({ prompt }) => promptText(prompt));
      const reserved = lane.estimate.reserve(prompts, parametersOf(this.#chunkAt(lane), rows));
      if (this.#lacksCapacity(lane)) return;
      const entry = await lane.gate.enter(reserved.tokens, this.#isOver, async (permit) => {
        const granted = await this.#reserve(rows, permit, prefetched, lane);
        if (granted.length > 0) await this.#call(granted, reserved, lane);
        return granted.length > 0;
      });
      this.#goesOn(entry, rows, lane);
    } catch (error) {
      log.warn({ err: error, row: rows[0]?.row }, 'the store refused; rows go back to the queue');
      await sleep(STORE_PAUSE_MS);
      this.#leaves = true;
    } finally {
      const unused = prefetched?.();
      if (unused) this.#givenBack.push(unused.then((reply) => batcher.giveBack(reply)));
    }
  }

  /** True when no more of its rows are to be called. */
  readonly #isOver = (): boolean => {
    if (this.host.isStopped(this.lease.chunk)) this.#wanted = false;
    return !this.#wanted || this.host.isLeaving || this.lease.isLost;
  };

  /** When it may not, another lane takes the rows, or they go back to the queue. */
  #goesOn(entry: Entry, rows: readonly ChunkRow[], lane: Lane): boolean {
    if (entry === 'go') return true;
    if (entry === 'closed') this.#leaves = true;
    else this.#wait(lane, rows, entry.waitMs);
    return false;
  }

  /** Undefined in a job that asks for no tier. Escalated rows ask for none: the other deployment may have only one. */
  #tierAt(lane: Lane): Tier | undefined {
    const { chunk } = this.lease;
    if (chunk.tier === undefined) return undefined;
    return lane.route !== this.host.lanes.own || this.host.isOnline(chunk.run) ? 'online' : chunk.tier;
  }

  /** When it does, rows of the flex tier are called later. */
  #lacksCapacity(lane: Lane): boolean {
    if (this.#tierAt(lane) !== 'flex' || lane.capacity.waitingMs === 0) return false;
    this.#lackMs = Math.max(this.#lackMs, lane.capacity.rowMs);
    return true;
  }

  /** The queue pauses for its own endpoints only, so rows of another one delay their entry. */
  #wait(lane: Lane, rows: readonly ChunkRow[], ms = lane.gate.waitingMs): void {
    if (lane.route.hasOther(lane)) for (const { row } of rows) this.#again.add(row);
    else if (lane.route === this.host.lanes.own) this.#waits = true;
    else this.#laterMs = Math.max(this.#laterMs, LATER_MS, ms);
  }

  /**
   * Reserves the next request in advance, so that its call does not wait for the store. Requests that must
   * wait anyway are not reserved early: grants expire, use budget, and with `hold` a crash fails their rows.
   */
  #prefetch(rows: readonly ChunkRow[], { isOpen, line, concurrency }: Route): PrefetchedGrant | null {
    const { hold, budget } = this.lease.chunk;
    if (hold || budget !== null || !isOpen || this.#isOver()) return null;
    const reservation = this.#reservation(rows.map(unpriced), false);
    return this.host.batcher.prefetch(reservation, concurrency, () => line.prepare());
  }

  /**
   * Waits for as long as the store is away or the budget is full. Rows known or unwanted are done, the rest
   * go back to the queue.
   * @returns the rows to call
   */
  async #reserve(
    asked: readonly ChunkRow[],
    permit: number,
    prefetched: PrefetchedGrant | null,
    lane: Lane,
  ): Promise<readonly ReservedRow[]> {
    const { batcher, budgets, mostBilled } = this.host;
    const chunk = this.#chunkAt(lane);
    const mayCall = (): boolean => {
      if (this.#lacksCapacity(lane)) return false;
      const entry = lane.gate.ask(this.#isOver);
      return this.#goesOn(entry === 'go' && lane.isRevoked ? { waitMs: 0 } : entry, asked, lane);
    };
    const rows = mostBilled.of(chunk, asked);
    for (let refusals = 0; ; ) {
      await this.host.looked();
      if (!mayCall()) return [];
      const early = prefetched?.() ?? null;
      const reply = await (early ?? batcher.reserve(this.#reservation(rows, false)));
      if (reply.rows.includes('unwanted')) this.#wanted = false;
      const granted = rows.filter((_, i) => reply.rows[i] === 'granted');
      const isFull = reply.rows.includes('no_room');
      if (granted.length === 0 && isFull && chunk.budget !== null) {
        if (await budgets.room(chunk, chunk.budget, reply, refusals++ === 0)) continue;
        const full = rows.filter((_, i) => reply.rows[i] === 'no_room');
        await this.host.stop(chunk, budgetProblem(chunk.budget, reply.spent, sumOf(full)));
        continue;
      }
      if (granted.length > 0) await lane.gate.space(permit);
      const isGood = steadyNow() - reply.askedAt < (early === null ? GRANT_MS : PREFETCHED_MS);
      if (granted.length === 0 || (isGood && mayCall())) {
        if (isFull || reply.rows.some(isHeld)) this.#leaves = true;
        return granted;
      }
      this.#givenBack.push(batcher.giveBack(reply));
    }
  }

  /**
   * Calls for granted rows. The slot is free before the ledger has the outcomes, but the next call needs a
   * grant of a later batch. So a crash leaves at most `concurrency` calls unknown, and without the store no
   * calls are made.
   */
  async #call(rows: readonly ReservedRow[], reserved: Reserved, lane: Lane): Promise<void> {
    const { batcher, budgets, log } = this.host;
    const { attempt, asking } = this.lease;
    const chunk = this.#chunkAt(lane);
    this.host.beforeCall();
    const startedAt = steadyNow();
    const tier = this.#tierAt(lane);
    const verdicts = await lane.caller.call(chunk, rows, attempt, tier);
    const name = this.#nameOf(rows[0]);
    const observed = lane.observe({ chunk, name, verdicts, reserved, startedAt, tier });
    const wasDown = lane.outage.view !== null;
    // May make a plain call, in this call's slot and reservation.
    const refused = await observed;
    const problem = refused && lane.route.stop(lane, refused);
    const elsewhere = refused !== null && problem === null;
    const isDown = wasDown || lane.outage.view !== null;
    const failure = verdicts.find(({ kind }) => kind === 'retry' || kind === 'no_room');
    if (failure?.kind === 'no_room' || verdicts[0]?.kind === 'no_capacity')
      batcher.count(chunk.run, 'retried');
    if (failure?.kind === 'retry' || failure?.kind === 'no_room')
      log.info({ run: chunk.run, endpoint: lane.name, attempt, ...failure.problem }, 'a call failed');

    const fates = rows.map((row, i) => {
      const fate = fateOf(this.#at(verdicts[i], lane), row, {
        ...{ asking, attempt, hold: chunk.hold },
        elsewhere: elsewhere || this.host.lanes.own.isPartial,
      });
      return this.#at(fate, lane);
    });
    this.#goOn(rows, fates, isDown, lane, elsewhere);
    const settled = rows.map((row, i) => this.#settlement(row, this.#name, fates[i]));
    const billed = rows.reduce(
      (sum, { most }, i) => plus(sum, billedFor(verdicts[i], most, chunk.budget, lane.name)),
      NO_TOKENS,
    );
    this.#settled = batcher.settle(chunk.run, settled, sumOf(rows), billed);
    if (chunk.budget !== null) budgets.wake(chunk);
    if (problem === null) return;
    await this.host.stop(chunk, this.#named(problem, lane));
    // The rows of a part's last endpoint go back to the queue.
    if (!this.host.lanes.own.isPartial) this.#wanted = false;
  }

  /** Notes how the rows of a call go on. */
  #goOn(
    rows: readonly ChunkRow[],
    fates: readonly Fate[],
    isDown: boolean,
    lane: Lane,
    elsewhere: boolean,
  ): void {
    const failed: FailedCall[] = [];
    for (const [i, row] of rows.entries()) {
      const fate = fates[i];
      if (fate?.kind === 'retry') failed.push({ row, fate });
      else if (fate?.kind === 'wait') this.#wait(lane, [row]);
      else if (fate?.kind === 'no_capacity') this.#lackMs = Math.max(this.#lackMs, lane.capacity.rowMs);
      else if (fate?.kind === 'left') {
        if (fate.possiblyBilled) this.host.batcher.count(this.lease.chunk.run, 'repeated');
        if (elsewhere) this.#again.add(row.row);
        else this.#leaves = true;
      } else if (fate?.kind === 'no_room' || fate?.interim) this.#again.add(row.row);
    }
    if (failed.length === 0) return;
    if (isDown) {
      // In an outage a failure uses no attempt.
      for (const { row } of failed) this.#wait(lane, [row]);
      this.#countRetries(failed, 1);
      return;
    }
    const attempted = failed.filter(({ fate }) => !fate.alone);
    this.#mixedUp.push(...failed.filter(({ fate }) => fate.alone));
    this.#failed.push(...attempted);
    if (attempted.length > 0) this.#failedRequests++;
  }

  #end(): VisitEnd {
    const { attempt, attempts, isLost, asking } = this.lease;
    const failed = this.#failed;
    const isLast = this.#wanted && !this.#waits && !isLost && attempt >= attempts;
    if (!isLast) this.#countRetries(failed, this.#failedRequests);
    if (!this.#wanted) return { kind: 'done' };
    if (isLost) return { kind: 'left' };
    // Before the failed rows: a wait uses no attempt, and they are retried along with it.
    if (this.#waits) return { kind: 'wait' };
    if (isLast) {
      for (const { row, fate } of failed) {
        const outcome = failedRow(fate, attempt);
        this.#record(row, asking === null ? outcome : asking.lasting(row, outcome));
      }
    } else if (failed.length > 0) {
      const codes = [...new Set(failed.map(({ fate }) => fate.problem.code))];
      return { kind: 'retry', rows: failed.length, codes };
    }
    const { run } = this.lease.chunk;
    const isDue = this.#lackMs > 0 && (this.#leaves || this.host.isOnline(run));
    if (isDue) return { kind: 'left' };
    const ms = Math.max(this.#laterMs, this.#lackMs);
    if (ms > 0) return { kind: 'later', ms };
    return { kind: this.#leaves ? 'left' : 'done' };
  }

  /** Counts retries; those of a call that may have been billed may be paid for twice (fault 21). */
  #countRetries(failed: readonly FailedCall[], requests: number): void {
    const { batcher } = this.host;
    const billed = failed.filter(({ fate }) => fate.possiblyBilled).length;
    if (requests > 0) batcher.count(this.lease.chunk.run, 'retried', requests);
    if (billed > 0) batcher.count(this.lease.chunk.run, 'repeated', billed);
  }

  #chunkAt(lane: Lane): ChunkAt {
    const known = this.#chunks.get(lane);
    if (known !== undefined) return known;
    const { chunk } = this.lease;
    const own = chunk.endpoints.find(({ name }) => name === lane.name);
    const endpoint = own ?? withDeployment(chunk.endpoints[0], lane.name);
    const at = { ...chunk, endpoint, parameters: chunk.parameters[endpoint.operation] ?? {} };
    this.#chunks.set(lane, at);
    return at;
  }

  /** Names the endpoint where there are several. */
  #at<T extends Verdict | Fate | undefined>(of: T, { name }: Lane): T | Final {
    if (of?.kind !== 'final' || this.lease.chunk.endpoints.length === 1) return of;
    return { ...of, outcome: { ...of.outcome, endpoint: name } };
  }

  #named(problem: Problem, lane: Lane): Problem {
    if (lane.route === this.host.lanes.own) return problem;
    const message = problem.message.replaceAll('service.deployment', 'answer.on_invalid.deployment');
    return { ...problem, message: `${lane.name}: ${message}` };
  }

  /** Reserves nothing. */
  async #look(rows: readonly ChunkRow[]): Promise<Answer> {
    const answer = await this.host.batcher.reserve(this.#reservation(rows.map(unpriced), true));
    if (answer.rows.includes('unwanted')) this.#wanted = false;
    return answer;
  }

  #reservation(rows: readonly RowMost[], looks: boolean): Reservation {
    const { run, execution, first, hold, budget } = this.lease.chunk;
    const bounds = budget === null || looks ? null : boundsOf(budget);
    return { run, execution, first, hold, call: this.#name, rows, bounds, looks };
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
        if (this.#isGone(state)) this.#record(row, cutOffRow());
        else held.push(row);
      }
      if (held.length === 0) return;
      if (this.host.isLeaving || this.lease.isLost) {
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
    const { execution, endpoints } = this.lease.chunk;
    // Only one process at a time works on a run, so the one of an earlier execution has ended.
    if (call.startsWith(OWN_CALL) && Number(call.split(':')[1]) < execution) return true;
    return ageMs > endpoints[0].timeoutMs + GONE_MS;
  }

  #record(row: ChunkRow, outcome: CalledOutcome): void {
    const settlement = this.#settlement(row, null, { kind: 'final', outcome });
    this.#settled = this.host.batcher.settle(this.lease.chunk.run, [settlement]);
  }

  #settlement(row: ChunkRow, call: string | null, fate: Fate | undefined): Settlement {
    const { run, first, endpoints } = this.lease.chunk;
    const { outcome, interim }: Partial<Final> = fate?.kind === 'final' ? fate : {};
    if (outcome !== undefined) {
      const name = this.#nameOf(row);
      for (const { outage } of this.host.lanes.all) outage.settled(name, endpoints.length > 1);
    }
    const settlement = { run, first, row: row.row, call, outcome: outcome ?? null };
    return interim ? { ...settlement, interim } : settlement;
  }

  #nameOf(row: ChunkRow | undefined): string {
    return `${this.lease.chunk.run}:${row?.row}`;
  }
}

/** A row of a run without a budget, or one that is only looked up. */
const unpriced = ({ row }: ChunkRow): RowMost => ({ row, most: NO_TOKENS });

const isHeld = (state: RowState | undefined): state is InFlight => typeof state === 'object';

/**
 * Requests of at most `most` rows, in input order. All rows of a request have equal parameters, and its
 * response fits {@link LARGEST_ANSWER}.
 * @param parameters of the job; those of a row override them
 */
export function packs(
  rows: readonly ChunkRow[],
  most: number,
  parameters: Parameters,
): readonly (readonly ChunkRow[])[] {
  if (most === 1) return rows.map((row) => [row]);
  const open = new Map<string, { readonly rows: ChunkRow[]; bytes: number }>();
  const all: ChunkRow[][] = [];
  for (const row of rows) {
    const own = JSON.stringify(row.parameters);
    const bytes = answerBytes({ ...parameters, ...row.parameters }, row.prompt);
    const pack = open.get(own);
    if (pack !== undefined && pack.rows.length < most && pack.bytes + bytes <= LARGEST_ANSWER) {
      pack.rows.push(row);
      pack.bytes += bytes;
    } else {
      const next = { rows: [row], bytes };
      open.set(own, next);
      all.push(next.rows);
    }
  }
  return all;
}

function shuffled<T>(requests: readonly T[], random: () => number): readonly T[] {
  return requests
    .map((each) => ({ each, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each);
}
