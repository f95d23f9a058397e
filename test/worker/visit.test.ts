import fc from 'fast-check';
import pLimit from 'p-limit';
import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { answerReader } from '../../src/answer/answer.js';
import { type Counters, NO_CALLS } from '../../src/core/counters.js';
import type { CalledOutcome, Problem, Tokens } from '../../src/core/model.js';
import { NO_TOKENS, plus } from '../../src/pace/budget.js';
import { Gate } from '../../src/pace/gate.js';
import { Outage } from '../../src/pace/pauses.js';
import { TokenEstimator } from '../../src/pace/usage.js';
import type { Chunk } from '../../src/queue/chunk.js';
import type { Verdict } from '../../src/service/verdict.js';
import type { Answer, Batch, Ledger, RowState, Settlement } from '../../src/store/ledger.js';
import { AnswerCheck } from '../../src/worker/answer-check.js';
import { Batcher, mostPrefetched } from '../../src/worker/batcher.js';
import { BudgetWait } from '../../src/worker/budget-wait.js';
import type { Caller } from '../../src/worker/caller.js';
import { FairLimit, TaskLine } from '../../src/worker/fair-limit.js';
import type { Lane } from '../../src/worker/lane.js';
import type { Route } from '../../src/worker/route.js';
import { type Host, Visit, type VisitEnd } from '../../src/worker/visit.js';
import { outcome } from '../store/samples.js';

const TIMEOUT_MS = 60_000;
const tokens = (prompt_tokens: number, completion_tokens = 0): Tokens => ({
  prompt_tokens,
  completion_tokens,
});
const sumOf = ({ prompt_tokens, completion_tokens }: Tokens): number => prompt_tokens + completion_tokens;

/** The ledger of one run of which nothing is known but its counters and its calls in flight. */
class MemoryLedger {
  calls: Counters = NO_CALLS;
  readonly states = new Map<number, RowState>();
  stopped: Problem | null = null;
  /** Told before each write. */
  onWrite: (batch: Batch) => void = () => {};
  /** The store does not answer before this resolves. */
  away: Promise<void> | null = null;

  readonly interims = new Map<number, CalledOutcome>();

  async write(batch: Batch): Promise<readonly Answer[]> {
    this.onWrite(batch);
    await this.away;
    for (const counts of batch.counts.values()) this.#add(counts);
    this.#add({ in_flight: -batch.settled.filter(({ call }) => call !== null).length });
    const answers = batch.reservations.map(({ rows, bounds, looks, run }) => {
      const known = rows.map(({ row }) => this.states.get(row));
      const free = rows.filter((_, i) => known[i] === undefined);
      const most = free.reduce((sum, row) => plus(sum, row.most), NO_TOKENS);
      const atLeast = batch.atLeast.get(run) ?? NO_TOKENS;
      const before = Math.max(sumOf(this.calls), sumOf(atLeast));
      const fits = looks || bounds === null || before + sumOf(most) <= bounds.tokens;
      if (fits && !looks && free.length > 0) this.#add({ sent: 1, in_flight: free.length, ...most });
      return known.map((state): RowState => state ?? (fits ? 'granted' : 'no_room'));
    });
    const { prompt_tokens, completion_tokens, in_flight: inFlight } = this.calls;
    const spent = { prompt_tokens, completion_tokens };
    return answers.map((rows) => ({ rows, spent, inFlight, interim: this.interims }));
  }

  #add(counts: Partial<Counters>): void {
    const sums: Record<string, number | undefined> = { ...this.calls };
    for (const [name, by = 0] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + by;
    this.calls = { ...this.calls, ...sums };
  }
}

interface CallOf {
  readonly row: number;
  readonly end: (result: Verdict) => void;
}

const answered = (usage: Tokens): Verdict => {
  const { completion, ...rest } = outcome('text');
  const total_tokens = sumOf(usage);
  return {
    kind: 'final',
    outcome: { ...rest, completion: { ...completion, usage: { ...usage, total_tokens } } },
  };
};

const said = (text: string): Verdict => {
  const verdict = answered(tokens(1));
  if (verdict.kind !== 'final' || verdict.outcome.status !== 'completed') return verdict;
  const { outcome } = verdict;
  return { ...verdict, outcome: { ...outcome, completion: { ...outcome.completion, text } } };
};

/** A worker as far as a chunk needs one. Calls end when the test says so; its pauses are short, and its clock is the test's. */
class TestWorker {
  now = 0;
  releasing = false;
  /** Whether another worker has the entry. */
  isLost = false;
  attempts = 3;
  /** Told before each reservation. */
  onLook: () => void = () => {};
  takesPermits = false;
  readonly called: CallOf[] = [];
  /** For which the service asked to wait, for its own deployment and for another. */
  waitingMs = 0;
  otherWaitingMs = 0;
  readonly batcher: Batcher;
  readonly #host: Host;

  /** @param spent before this worker called anything */
  constructor(
    readonly ledger: MemoryLedger,
    spent = NO_TOKENS,
    concurrency = 100,
  ) {
    const begun = { run: 'run', calls: { ...NO_CALLS, ...spent } };
    this.batcher = new Batcher(ledger as unknown as Ledger, pino({ level: 'silent' }), begun);
    const caller: Pick<Caller, 'call'> = {
      call: async (_, rows) =>
        Promise.all(rows.map(({ row }) => new Promise<Verdict>((end) => this.called.push({ row, end })))),
    };
    const inSlot = pLimit(concurrency);
    const routeTo = (name: string, waitingMs: () => number): Route => {
      const outage = new Outage();
      const takesPermits = (): boolean => this.takesPermits;
      const pacer = {
        get waitingMs() {
          return waitingMs();
        },
        get takesPermits() {
          return takesPermits();
        },
        admit: async () => ({ permit: 0 }),
        space: async () => {},
        withdrawn: () => {},
      };
      const used: Pick<Lane, 'name' | 'outage' | 'gate' | 'estimate' | 'observe'> = {
        ...{ name, outage, gate: new Gate(pacer, outage, inSlot) },
        estimate: new TokenEstimator('full'),
        observe: async () => null,
      };
      const line = new TaskLine<Lane>();
      const lane = { ...used, caller } as unknown as Lane;
      const route = {
        ...{ line, concurrency, lanes: [lane], packSize: () => 1, hasOther: () => false },
        stop: (_: Lane, problem: Problem) => problem,
        get isOpen() {
          return lane.gate.isOpen;
        },
      } as unknown as Route;
      Object.assign(lane, { route, limit: new FairLimit(concurrency, line, lane) });
      return route;
    };
    const own = routeTo('d', () => this.waitingMs);
    const other = routeTo('larger', () => this.otherWaitingMs);
    const releasing = (): boolean => this.releasing;
    this.#host = {
      lanes: { own, to: () => other, all: [...own.lanes, ...other.lanes] },
      batcher: this.batcher,
      budgets: new BudgetWait(
        this.batcher,
        () => this.now,
        () => -0.95,
      ),
      // A prompt says itself what it can be billed.
      mostBilled: { of: (_, rows) => rows.map((row) => ({ ...row, most: JSON.parse(String(row.prompt)) })) },
      log: pino({ level: 'silent' }),
      get isLeaving() {
        return releasing();
      },
      looked: async () => this.onLook(),
      isOnline: () => false,
      isStopped: () => this.ledger.stopped !== null,
      beforeCall: () => {},
      stop: async (_, problem) => {
        this.ledger.stopped ??= problem;
      },
    };
  }

  /** Has rows called that can be billed so much, from row 1 on. */
  run(
    rows: readonly Tokens[],
    budget: number | null = null,
    more: Partial<Chunk> & { orphaned?: number } = {},
  ) {
    const { orphaned = 0, ...changed } = more;
    const chunk: Chunk = {
      ...{
        run: 'run',
        execution: 1,
        first: 1,
        promptsPerRequest: 1,
        parameters: { completions: {} },
        hold: false,
        asks: null,
      },
      endpoints: [
        {
          name: 'd',
          operation: 'completions',
          deployment: 'd',
          apiVersion: 'v',
          style: 'deployments',
          timeoutMs: TIMEOUT_MS,
        },
      ],
      budget: budget === null ? null : { tokens: budget, cost: null, prices: null, orphaned },
      rows: rows.map((most, i) => ({ row: i + 1, prompt: JSON.stringify(most), parameters: null })),
      ...changed,
    };
    const isLost = (): boolean => this.isLost;
    return new Visit(this.#host, {
      chunk,
      attempt: 1,
      attempts: this.attempts,
      isOwn: true,
      asking: chunk.asks && new AnswerCheck(chunk.asks, answerReader(chunk.asks.answer)),
      get isLost() {
        return isLost();
      },
    }).run();
  }

  /** Resolves when so many calls were made in all. */
  async calls(count: number): Promise<readonly CallOf[]> {
    await untilTrue(() => this.called.length >= count);
    return this.called;
  }
}

const untilTrue = async (happened: () => boolean): Promise<void> => {
  while (!happened()) await new Promise((resolve) => setImmediate(resolve));
};

/** Resolves when the ledger was asked so many times more. */
async function writes(ledger: MemoryLedger, count: number): Promise<void> {
  let written = 0;
  ledger.onWrite = () => written++;
  await untilTrue(() => written >= count);
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a chunk', () => {
  it('has the rows called that have no outcome, each reserved before and settled after it', async () => {
    const ledger = new MemoryLedger();
    ledger.states.set(2, 'known');
    const worker = new TestWorker(ledger);
    const end = worker.run([NO_TOKENS, NO_TOKENS, NO_TOKENS]);
    const calls = await worker.calls(2);
    expect(calls.map(({ row }) => row)).toEqual([1, 3]);
    expect(ledger.calls).toMatchObject({ sent: 2, in_flight: 2 });
    for (const call of calls) call.end(answered(tokens(5, 3)));
    expect(await end).toEqual({ kind: 'done' });
    expect(ledger.calls).toMatchObject({ sent: 2, in_flight: 0, prompt_tokens: 10, completion_tokens: 6 });
    expect(worker.batcher.totals('run')).toMatchObject({ sent: 2, in_flight: 0, answers: 2 });
  });

  it('leaves its rows to the worker that has its entry now, also one that failed at its last attempt', async () => {
    const ledger = new MemoryLedger();
    const worker = new TestWorker(ledger);
    worker.attempts = 1;
    const end = worker.run([NO_TOKENS]);
    const [call] = await worker.calls(1);
    worker.isLost = true;
    const problem = { code: 'reset', message: 'the connection was closed' };
    call?.end({ kind: 'retry', problem, latency_ms: 1, connected: true, possiblyBilled: true });
    expect(await end).toEqual({ kind: 'left' });
    await worker.batcher.flushed();
    expect(worker.batcher.totals('run'), 'no outcome').toMatchObject({ answers: 0, repeated: 1 });
  });

  /** Of a job whose answers are to be labels, asked of another deployment where they are none. */
  const asks = {
    answer: { kind: 'labels', labels: ['yes', 'no'] },
    ...{ again: 0, prompt: null, deployment: 'larger' },
  } as const;

  it('is put off for rows that another deployment is to be asked for, which pauses, when all others have ended', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.otherWaitingMs = 90_000;
    const settled: Settlement[] = [];
    worker.ledger.onWrite = (batch) => settled.push(...batch.settled);
    const end = worker.run([tokens(1), tokens(1)], null, { asks });
    const [first, second] = await worker.calls(2);
    first?.end(said('maybe'));
    second?.end(said('yes'));
    expect(await end).toEqual({ kind: 'later', ms: 90_000 });
    expect(settled).toMatchObject([
      { row: 1, interim: 1 },
      { row: 2, outcome: { status: 'completed' } },
    ]);
  });

  it('with `hold` ends a row whose second call is lost as unknown, although it has an answer', async () => {
    const worker = new TestWorker(new MemoryLedger());
    const verdict = said('maybe');
    if (verdict.kind === 'final') worker.ledger.interims.set(1, { ...verdict.outcome, asked: 1 });
    worker.ledger.states.set(1, { call: 'own:0:gone', ageMs: 5 });
    const settled: Settlement[] = [];
    worker.ledger.onWrite = (batch) => settled.push(...batch.settled);
    expect(await worker.run([tokens(1)], null, { asks, hold: true })).toEqual({ kind: 'done' });
    expect(settled).toMatchObject([{ row: 1, outcome: { error: { code: 'outcome_unknown' } } }]);
  });

  it('is dropped when nobody wants it', async () => {
    const ledger = new MemoryLedger();
    ledger.states.set(1, 'unwanted');
    const worker = new TestWorker(ledger);
    expect(await worker.run([NO_TOKENS])).toEqual({ kind: 'done' });
    expect(worker.called).toEqual([]);
  });

  it('gives back what was granted when all calls are to wait meanwhile', async () => {
    const ledger = new MemoryLedger();
    const worker = new TestWorker(ledger);
    ledger.onWrite = ({ reservations }) => {
      if (reservations.some(({ looks }) => !looks)) worker.waitingMs = 60_000;
    };
    expect(await worker.run([tokens(7)], 100)).toEqual({ kind: 'wait' });
    await worker.batcher.flushed();
    expect(ledger.calls).toEqual(NO_CALLS);
    expect(worker.batcher.totals('run')).toEqual({ ...NO_CALLS, answers: 0 });
    expect(worker.called).toEqual([]);
  });

  interface Sleeper {
    readonly ledger: MemoryLedger;
    readonly worker: TestWorker;
  }

  /** A worker whose process sleeps for a minute while the first reservation is granted, and what happens meanwhile. */
  function sleeper(meanwhile: (of: Sleeper) => void): Sleeper {
    const ledger = new MemoryLedger();
    const worker = new TestWorker(ledger);
    const now = performance.now.bind(performance);
    ledger.onWrite = ({ reservations }) => {
      if (reservations.every(({ looks }) => looks)) return;
      ledger.onWrite = () => {};
      vi.spyOn(performance, 'now').mockImplementation(() => now() + 60_000);
      meanwhile({ ledger, worker });
    };
    return { ledger, worker };
  }

  it('faults 31 and 43: asks again when its process slept after the grant, and finds the row answered', async () => {
    const { ledger, worker } = sleeper(({ ledger }) => {
      ledger.onWrite = () => ledger.states.set(1, 'known');
    });
    expect(await worker.run([NO_TOKENS])).toEqual({ kind: 'done' });
    expect(worker.called).toEqual([]);
    expect(ledger.calls).toEqual(NO_CALLS);
  });

  it('fault 43: looks whether its entry is still its own before it asks again', async () => {
    const { worker } = sleeper(({ worker }) => {
      worker.onLook = () => {
        worker.isLost = true;
      };
    });
    expect(await worker.run([NO_TOKENS])).toEqual({ kind: 'left' });
    expect(worker.called).toEqual([]);
  });

  it('calls by the second grant when its process slept after the first', async () => {
    const { ledger, worker } = sleeper(() => {});
    const end = worker.run([NO_TOKENS]);
    const [call] = await worker.calls(1);
    expect(ledger.calls).toEqual({ ...NO_CALLS, sent: 1, in_flight: 1 });
    call?.end(answered(NO_TOKENS));
    expect(await end).toEqual({ kind: 'done' });
  });
});

describe('a chunk whose rows wait for a slot', () => {
  const SLOTS = 4;
  const ROWS = Array.from({ length: 8 }, () => NO_TOKENS);

  /** A worker whose slots are taken, and that has reserved as many of the next rows as it may. */
  async function full(
    most = SLOTS + mostPrefetched(SLOTS),
    more: Partial<Chunk> = {},
    budget: number | null = null,
  ) {
    const ledger = new MemoryLedger();
    const worker = new TestWorker(ledger, NO_TOKENS, SLOTS);
    worker.takesPermits = more.promptsPerRequest === 2;
    let highest = 0;
    const end = worker.run(ROWS, budget, more);
    const calls = await worker.calls(SLOTS);
    await untilTrue(() => ledger.calls.in_flight === most);
    ledger.onWrite = () => {
      highest = Math.max(highest, ledger.calls.in_flight);
    };
    return { ledger, worker, calls, end, highest: () => highest };
  }

  /** The store answers nothing until the returned function is called. */
  function leave(ledger: MemoryLedger): () => void {
    let back = (): void => {};
    ledger.away = new Promise((resolve) => {
      back = resolve;
    });
    return () => {
      ledger.away = null;
      back();
    };
  }

  const endAll = async (worker: TestWorker): Promise<void> => {
    for (let i = 0; i < ROWS.length; i++) (await worker.calls(i + 1))[i]?.end(answered(NO_TOKENS));
  };

  it('has the next one called at once when a call has ended, also while the store is away, and no more than it has reserved', async () => {
    const { ledger, worker, calls, end } = await full();
    const comeBack = leave(ledger);
    const asked = writes(ledger, 1);
    for (const call of calls.slice(0, SLOTS)) call.end(answered(NO_TOKENS));
    await worker.calls(SLOTS + mostPrefetched(SLOTS));
    await asked;
    for (let i = 0; i < 100; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(worker.called).toHaveLength(SLOTS + mostPrefetched(SLOTS));
    comeBack();
    await endAll(worker);
    expect(await end).toEqual({ kind: 'done' });
    expect(ledger.calls).toEqual({ ...NO_CALLS, sent: ROWS.length });
  });

  it('leaves no more of them unknown at any moment than the slots and what is reserved ahead', async () => {
    const { ledger, worker, end, highest } = await full();
    await endAll(worker);
    expect(await end).toEqual({ kind: 'done' });
    expect(highest()).toBeLessThanOrEqual(SLOTS + mostPrefetched(SLOTS));
    expect(ledger.calls.in_flight).toBe(0);
  });

  it('gives back what it has reserved when all calls are to wait, and ends when that is in the ledger', async () => {
    const { ledger, worker, calls, end } = await full();
    const comeBack = leave(ledger);
    const asked = writes(ledger, 1);
    worker.waitingMs = 60_000;
    for (const call of calls.slice(0, SLOTS)) call.end(answered(NO_TOKENS));
    let ended = false;
    void end.then(() => {
      ended = true;
    });
    await asked;
    for (let i = 0; i < 100; i++) await new Promise((resolve) => setImmediate(resolve));
    // Another worker would find the rows of the chunk in flight.
    expect(ended).toBe(false);
    comeBack();
    expect(await end).toEqual({ kind: 'wait' });
    expect(ledger.calls).toEqual({ ...NO_CALLS, sent: SLOTS });
    expect(worker.called).toHaveLength(SLOTS);
  });

  it('gives back what it has reserved when the worker leaves', async () => {
    const { ledger, worker, calls, end } = await full();
    worker.releasing = true;
    for (const call of calls.slice(0, SLOTS)) call.end(answered(NO_TOKENS));
    expect(await end).toEqual({ kind: 'left' });
    expect(ledger.calls).toEqual({ ...NO_CALLS, sent: SLOTS });
    expect(worker.called).toHaveLength(SLOTS);
  });

  it('faults 31 and 43: asks again for what it has reserved when its process slept', async () => {
    const { ledger, worker, calls, end } = await full();
    const now = performance.now.bind(performance);
    // Long enough for a short lock to run out.
    vi.spyOn(performance, 'now').mockImplementation(() => now() + 3_000);
    ledger.states.set(SLOTS + 1, 'known');
    for (const call of calls.slice(0, SLOTS)) call.end(answered(NO_TOKENS));
    for (const call of (await worker.calls(ROWS.length - 1)).slice(SLOTS)) call.end(answered(NO_TOKENS));
    expect(await end).toEqual({ kind: 'done' });
    expect(worker.called.map(({ row }) => row)).not.toContain(SLOTS + 1);
    expect(ledger.calls).toEqual({ ...NO_CALLS, sent: ROWS.length - 1 });
  });

  it.each([
    ['with `hold`', { hold: true }, null],
    ['with a budget', {}, 1_000],
    ['that also wait for permits', { promptsPerRequest: 2 }, null],
  ])('reserves none ahead %s', async (_, more, budget) => {
    const { worker, end, highest } = await full(SLOTS, more, budget);
    await endAll(worker);
    expect(await end).toEqual({ kind: 'done' });
    expect(highest()).toBeLessThanOrEqual(SLOTS);
  });
});

describe('a chunk of a run with a budget', () => {
  it('reserves the most that a call can be billed, and puts what it was billed in its place', async () => {
    const worker = new TestWorker(new MemoryLedger());
    const end = worker.run([tokens(60, 40)], 100);
    const [call] = await worker.calls(1);
    expect(worker.ledger.calls).toEqual({ ...NO_CALLS, sent: 1, in_flight: 1, ...tokens(60, 40) });
    call?.end(answered(tokens(50, 3)));
    expect(await end).toEqual({ kind: 'done' });
    expect(worker.ledger.calls).toEqual({ ...NO_CALLS, sent: 1, ...tokens(50, 3) });
  });

  it('stops the run when nothing is in flight and the next call does not fit, and leaves nothing reserved', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.ledger.calls = { ...NO_CALLS, sent: 3, prompt_tokens: 50 };
    expect(await worker.run([tokens(40, 11)], 100)).toEqual({ kind: 'done' });
    expect(worker.ledger.stopped?.code).toBe('budget');
    expect(worker.ledger.stopped?.message).toContain('of which 50 is spent, and the next call could take 51');
    expect(worker.ledger.calls).toEqual({ ...NO_CALLS, sent: 3, prompt_tokens: 50 });
    await worker.run([tokens(1)], 100);
    expect(worker.called, 'a small request afterwards').toEqual([]);
  });

  it('waits while a call in flight may leave room, and goes on when it has', async () => {
    const worker = new TestWorker(new MemoryLedger());
    const end = worker.run([tokens(60), tokens(60)], 100);
    const [first] = await worker.calls(1);
    await writes(worker.ledger, 3);
    expect(worker.called).toHaveLength(1);
    first?.end(answered(tokens(40)));
    const [, second] = await worker.calls(2);
    second?.end(answered(tokens(40)));
    expect(await end).toEqual({ kind: 'done' });
    expect(worker.ledger.stopped).toBeNull();
  });

  it('does not stop for a large request while a small one that waits would fit', async () => {
    const worker = new TestWorker(new MemoryLedger());
    const end = worker.run([tokens(50), tokens(80), tokens(55)], 100);
    const [first] = await worker.calls(1);
    await writes(worker.ledger, 3);
    first?.end(answered(tokens(45)));
    const [, second] = await worker.calls(2);
    expect(second?.row).toBe(3);
    expect(worker.ledger.stopped).toBeNull();
    second?.end(answered(tokens(0)));
    await end;
    expect(worker.ledger.stopped?.code).toBe('budget');
  });

  it('waits for a call of another worker until it is over time, and takes it then for one that was killed', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.ledger.calls = { ...NO_CALLS, sent: 1, in_flight: 1, prompt_tokens: 60 };
    const end = worker.run([tokens(60)], 100);
    await writes(worker.ledger, 4);
    expect(worker.ledger.stopped).toBeNull();
    worker.now = TIMEOUT_MS * 2;
    expect(await end).toEqual({ kind: 'done' });
    expect(worker.ledger.stopped?.code).toBe('budget');
    expect(worker.ledger.calls).toMatchObject({ in_flight: 1, prompt_tokens: 60 });
  });

  it('waits ten seconds for calls of an earlier execution, whose worker may be alive', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.ledger.calls = { ...NO_CALLS, sent: 4, in_flight: 4, prompt_tokens: 60 };
    const end = worker.run([tokens(60)], 100, { orphaned: 4 });
    await writes(worker.ledger, 4);
    expect(worker.ledger.stopped).toBeNull();
    worker.now = 10_000;
    await end;
    expect(worker.ledger.stopped?.code).toBe('budget');
  });

  it('gives a request back that waits for room when all calls are to wait', async () => {
    const worker = new TestWorker(new MemoryLedger());
    const end = worker.run([tokens(60), tokens(60)], 100);
    const [first] = await worker.calls(1);
    await writes(worker.ledger, 3);
    worker.waitingMs = 60_000;
    first?.end(answered(tokens(50)));
    expect(await end).toEqual({ kind: 'wait' });
    expect(worker.ledger.calls).toEqual({ ...NO_CALLS, sent: 1, prompt_tokens: 50 });
  });

  it('fault 35: goes by what it knows itself in a store that came back empty', async () => {
    const worker = new TestWorker(new MemoryLedger(), tokens(50));
    expect(await worker.run([tokens(60)], 100)).toEqual({ kind: 'done' });
    expect(worker.ledger.stopped?.code).toBe('budget');
  });

  it('never passes it with others that ask at the same time, and hardly any of it is left over', async () => {
    const request = fc.record({
      most: fc.integer({ min: 10, max: 100 }),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    const property = fc.asyncProperty(
      fc.array(fc.array(request, { minLength: 15, maxLength: 30 }), { minLength: 2, maxLength: 4 }),
      async (asked) => {
        const limit = 600;
        const ledger = new MemoryLedger();
        let billed = 0;
        let inFlight = 0;
        let highest = 0;
        const working = asked.map((requests) => {
          const worker = new TestWorker(ledger);
          worker.called.push = (call: CallOf) => {
            const { most = 0, share = 0 } = requests[call.row - 1] ?? {};
            inFlight += most;
            highest = Math.max(highest, billed + inFlight);
            setTimeout(() => {
              inFlight -= most;
              const real = Math.round(most * share);
              billed += real;
              call.end(answered(tokens(real)));
            }, share * 4);
            return 0;
          };
          return worker.run(
            requests.map(({ most }) => tokens(most)),
            limit,
          );
        });
        const ends: VisitEnd[] = await Promise.all(working);
        expect(ends.every(({ kind }) => kind === 'done')).toBe(true);
        expect(highest).toBeLessThanOrEqual(limit);
        if (ledger.stopped !== null) expect(billed).toBeGreaterThan(limit - 100);
        expect(ledger.calls).toMatchObject({ in_flight: 0, prompt_tokens: billed });
      },
    );
    await fc.assert(property, { numRuns: 15 });
  });
});
