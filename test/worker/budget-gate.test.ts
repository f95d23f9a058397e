import fc from 'fast-check';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { NO_TOKENS, plus, type Tokens } from '../../src/budget/budget.js';
import type { Counters, Fault } from '../../src/model.js';
import type { Chunk, ChunkBudget } from '../../src/queue/chunk.js';
import { NO_CALLS } from '../../src/store/counters.js';
import type { Flights, Ledger, Progress } from '../../src/store/ledger.js';
import { BudgetGate, type Passage } from '../../src/worker/budget-gate.js';
import { Recorder, type Request } from '../../src/worker/recorder.js';

const TIMEOUT_MS = 60_000;
const CHUNK: Chunk = {
  run: 'run',
  execution: 1,
  first: 1,
  deployment: 'd',
  apiVersion: 'v',
  style: 'deployments',
  timeoutMs: TIMEOUT_MS,
  promptsPerRequest: 1,
  parameters: {},
  budget: null,
  hold: false,
  rows: [{ row: 1, prompt: 'p', parameters: null }],
};
const REQUEST: Request = { run: 'run', execution: 1, first: 1, rows: [1], call: 'any:1:a', hold: false };
const NOT_HELD = (): boolean => false;
const tokens = (prompt_tokens: number, completion_tokens = 0): Tokens => ({
  prompt_tokens,
  completion_tokens,
});

/** The counters of one run, as a store has them for all workers. */
class MemoryLedger implements Pick<Ledger, 'record' | 'progress' | 'stop'> {
  calls: Counters = NO_CALLS;
  opened = true;
  stopped: Fault | null = null;
  refuses = false;

  async record(
    _: unknown,
    calls: ReadonlyMap<string, Partial<Counters>>,
    { announced, settled }: Flights,
  ): Promise<readonly boolean[]> {
    const added = Object.entries(calls.get(CHUNK.run) ?? {});
    const sums: Record<string, number> = { ...this.calls };
    for (const [name, by] of added) sums[name] = (sums[name] ?? 0) + by;
    const in_flight = this.calls.in_flight + announced.length - settled.length;
    this.calls = { ...this.calls, ...sums, in_flight };
    return announced.map(() => true);
  }

  async progress(): Promise<Progress> {
    if (this.refuses) throw new Error('the store is away');
    return { counts: [], calls: this.calls, opened: this.opened, stop: null };
  }

  async stop(_run: string, _execution: number, fault: Fault): Promise<void> {
    this.stopped ??= fault;
  }
}

/** A worker as far as its gate needs one. Its pauses are short, and its clock is the test's. */
class TestWorker {
  now = 0;
  /** Known to be spent before this worker called anything. */
  begun = NO_TOKENS;
  readonly recorder: Recorder;
  readonly gate: BudgetGate;

  constructor(readonly ledger: MemoryLedger) {
    const full = { ...ledger, record: ledger.record.bind(ledger) };
    // Of the ledger a recorder uses nothing but `record`.
    this.recorder = new Recorder(full as unknown as Ledger, pino({ level: 'silent' }));
    this.gate = new BudgetGate({
      ledger,
      recorder: this.recorder,
      atLeast: (run) => plus(this.begun, this.recorder.totals(run)),
      now: () => this.now,
      random: () => -0.95,
    });
  }

  pass(limit: number, reserve: Tokens, isHeld = NOT_HELD, unheard = 0): Promise<Passage> {
    const budget: ChunkBudget = { tokens: limit, cost: null, prices: null, unheard };
    return this.gate.pass(CHUNK, budget, { request: REQUEST, reserve, isHeld, onAnnounced: () => {} });
  }

  /** The call has ended. */
  settle(reserve: Tokens, billed: Tokens): void {
    this.recorder.settle(REQUEST, reserve, billed);
    this.gate.settled(CHUNK);
  }
}

const sumOf = ({ prompt_tokens, completion_tokens }: Tokens): number => prompt_tokens + completion_tokens;
const untilTrue = async (happened: () => boolean): Promise<void> => {
  while (!happened()) await new Promise((resolve) => setImmediate(resolve));
};

describe('the gate of a budget', () => {
  it('announces what fits, with the most that it can be billed', async () => {
    const worker = new TestWorker(new MemoryLedger());
    expect(await worker.pass(100, tokens(60, 40))).toBe('reserved');
    const { sent, in_flight, prompt_tokens, completion_tokens } = worker.ledger.calls;
    expect({ sent, in_flight, prompt_tokens, completion_tokens }).toEqual({
      sent: 1,
      in_flight: 1,
      prompt_tokens: 60,
      completion_tokens: 40,
    });
  });

  it('stops the run when nothing is in flight and the next call does not fit, and leaves nothing announced', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.ledger.calls = { ...NO_CALLS, sent: 3, prompt_tokens: 50 };
    expect(await worker.pass(100, tokens(40, 11))).toBe('stopped');
    expect(worker.ledger.stopped?.code).toBe('budget');
    await worker.recorder.flushed();
    expect(worker.ledger.calls).toEqual({ ...NO_CALLS, sent: 3, prompt_tokens: 50 });
    expect(await worker.pass(100, tokens(1)), 'a small request afterwards').toBe('stopped');
  });

  it('waits while a call in flight may leave room, and goes on when it has', async () => {
    const worker = new TestWorker(new MemoryLedger());
    expect(await worker.pass(100, tokens(60))).toBe('reserved');
    let second: Passage | null = null;
    const passing = worker.pass(100, tokens(60)).then((passage) => {
      second = passage;
    });
    await untilTrue(() => worker.ledger.calls.in_flight === 2);
    await untilTrue(() => worker.ledger.calls.in_flight === 1);
    expect(second).toBeNull();
    worker.settle(tokens(60), tokens(40));
    await passing;
    expect(second).toBe('reserved');
    expect(worker.ledger.stopped).toBeNull();
  });

  it('waits for a call of another worker until it is over time, and takes it then for one that was killed', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.ledger.calls = { ...NO_CALLS, sent: 1, in_flight: 1, prompt_tokens: 60 };
    const passing = worker.pass(100, tokens(60));
    await untilTrue(() => worker.ledger.calls.in_flight === 2);
    await untilTrue(() => worker.ledger.calls.in_flight === 1);
    expect(worker.ledger.stopped).toBeNull();
    worker.now = TIMEOUT_MS * 2;
    expect(await passing).toBe('stopped');
    expect(worker.ledger.calls).toMatchObject({ in_flight: 1, prompt_tokens: 60 });
  });

  it('waits ten seconds for calls of an earlier execution, whose worker may be alive', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.ledger.calls = { ...NO_CALLS, sent: 4, in_flight: 4, prompt_tokens: 60 };
    const passing = worker.pass(100, tokens(60), NOT_HELD, 4);
    await untilTrue(() => worker.ledger.calls.in_flight === 5);
    await untilTrue(() => worker.ledger.calls.in_flight === 4);
    expect(worker.ledger.stopped).toBeNull();
    worker.now = 10_000;
    expect(await passing).toBe('stopped');
  });

  it('gives a request back when something holds all calls', async () => {
    const worker = new TestWorker(new MemoryLedger());
    expect(await worker.pass(100, tokens(60))).toBe('reserved');
    let held = false;
    const passing = worker.pass(100, tokens(60), () => held);
    await untilTrue(() => worker.ledger.calls.in_flight === 2);
    held = true;
    expect(await passing).toBe('held');
    await worker.recorder.flushed();
    expect(worker.ledger.calls).toMatchObject({ in_flight: 1, prompt_tokens: 60 });
  });

  it('fault 35: lets nothing pass by the counters of a store that came back empty', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.ledger.opened = false;
    await expect(worker.pass(100, tokens(60))).rejects.toThrow('does not know run');
    await worker.recorder.flushed();
    expect(worker.ledger.calls).toEqual(NO_CALLS);
    worker.ledger.opened = true;
    worker.begun = tokens(50);
    expect(await worker.pass(100, tokens(60))).toBe('stopped');
  });

  it('takes an announcement back when the store does not say what is spent', async () => {
    const worker = new TestWorker(new MemoryLedger());
    worker.ledger.refuses = true;
    await expect(worker.pass(100, tokens(60))).rejects.toThrow('the store is away');
    await worker.recorder.flushed();
    expect(worker.ledger.calls).toEqual(NO_CALLS);
  });

  it('is never passed by workers that ask at the same time, and hardly any of it is left over', async () => {
    const request = fc.record({
      most: fc.integer({ min: 10, max: 100 }),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    const property = fc.asyncProperty(
      fc.array(fc.array(request, { minLength: 15, maxLength: 30 }), { minLength: 2, maxLength: 4 }),
      async (asked) => {
        const limit = 600;
        const ledger = new MemoryLedger();
        let billed = NO_TOKENS;
        let inFlight = 0;
        let highest = 0;
        const ends = await Promise.all(
          asked.map(async (requests) => {
            const worker = new TestWorker(ledger);
            const passages = await Promise.all(
              requests.map(async ({ most, share }) => {
                const reserve = tokens(most);
                const passage = await worker.pass(limit, reserve);
                if (passage !== 'reserved') return passage;
                inFlight += most;
                highest = Math.max(highest, sumOf(billed) + inFlight);
                await new Promise((resolve) => setTimeout(resolve, share * 4));
                inFlight -= most;
                const real = tokens(Math.round(most * share));
                billed = plus(billed, real);
                worker.settle(reserve, real);
                return passage;
              }),
            );
            await worker.recorder.flushed();
            return passages;
          }),
        );
        expect(highest).toBeLessThanOrEqual(limit);
        if (ends.flat().includes('stopped')) expect(sumOf(billed)).toBeGreaterThan(limit - 100);
        else expect(ledger.stopped).toBeNull();
        expect(ledger.calls).toMatchObject({ in_flight: 0, ...billed });
      },
    );
    await fc.assert(property, { numRuns: 15 });
  }, 60_000);
});
