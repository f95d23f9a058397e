import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it, vi } from 'vitest';
import type { StoredSummary } from '../../src/account/summary.js';
import { retryOutput } from '../../src/amend/retry.js';
import { readSelection, selectionText } from '../../src/amend/selection.js';
import { Halt } from '../../src/core/halt.js';
import type { Store } from '../../src/store/store.js';
import { type Crash, CrashFolder } from '../support/crashing-disk.js';
import { MemoryMachine, type MemoryOptions } from '../support/memory-run.js';
import { mortally, mortalStore } from '../support/mortal.js';
import type { ScriptedReply, ScriptedRequest } from '../support/scripted-service.js';
import { unknownAfter } from '../support/unknown.js';

vi.mock('node:fs/promises', async (original) =>
  (await import('../support/crashing-disk.js')).crashingPromises(await original()),
);
vi.mock('node:fs', async (original) =>
  (await import('../support/crashing-disk.js')).crashingFs(await original()),
);
// The system takes the lock of a process with its life; these processes are all one.
vi.mock('../../src/resume/output-lock.js', () => ({
  OutputLock: class {
    tookOver = false;
    async take(): Promise<void> {}
    isHeld(): boolean {
      return true;
    }
    release(): void {}
  },
}));

const ROWS = 10;
const CONCURRENCY = 4;
/** As the tokenizer of the model counts `row 1`. */
const TOKENS = { prompt_tokens: 3, completion_tokens: 1 };
const EACH = TOKENS.prompt_tokens + TOKENS.completion_tokens;

const inputs = mkdtempSync(join(tmpdir(), 'promptmill-inputs-'));
// Not by what can crash.
afterAll(() => process.getBuiltinModule('node:fs').rmSync(inputs, { recursive: true, force: true }));
const input = join(inputs, 'in.csv');
// Rows 8 and 9 ask what rows 1 and 2 ask.
writeFileSync(input, `id,q\n${Array.from({ length: ROWS }, (_, i) => `${i + 1},${(i % 7) + 1}\n`).join('')}`);

/** A machine whose processes may die, and a service that lives on and counts what it has billed. */
class Mortals {
  readonly folder = new CrashFolder();
  /** Calls answered and billed, by prompt. */
  readonly billed = new Map<string, number>();
  #machine = new MemoryMachine();
  /** Of the process that lives now. */
  #halt = new Halt();

  constructor(private readonly answer: (request: ScriptedRequest) => ScriptedReply) {}

  async begin(): Promise<void> {
    await this.folder.begin();
    this.billed.clear();
    this.#machine = new MemoryMachine((request) =>
      mortally(
        this.#halt,
        async () => {
          this.billed.set(request.prompt, (this.billed.get(request.prompt) ?? 0) + 1);
          return this.answer(request);
        },
        'reset',
      ),
    );
  }

  /** One process. @returns whether it came to its end */
  async lives(job: object, crash: Crash, as?: Pick<MemoryOptions, 'work' | 'flags'>): Promise<boolean> {
    const halt = new Halt();
    this.#halt = halt;
    const options = { halt, storeOf: (own: Store) => mortalStore(own, halt), ...as };
    return await this.folder.lives(crash, () => this.#machine.run(job, null, options));
  }

  get isFinished(): boolean {
    return this.folder.isFinished('out.jsonl');
  }

  get summary(): StoredSummary {
    return JSON.parse(this.folder.text('out.summary.json'));
  }

  get calls(): number {
    return [...this.billed.values()].reduce((sum, times) => sum + times, 0);
  }

  records(name = 'out.jsonl') {
    const lines = this.folder.text(name).trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line));
  }
}

const NEVER: Crash = { after: Number.POSITIVE_INFINITY, power: false, latency: 1, dice: [0] };

/** What is checked when a run came to its end although processes of it died. */
interface Ended {
  readonly mortals: Mortals;
  /** Most calls of which nobody knows what came of them. */
  readonly unknown: number;
}

/**
 * Lets a run die at each of its steps, one after the other: on the disk, with its ledger, at the service. The process after
 * it dies at a step of its own, and the third lives.
 * @param first lives before, and does not die
 */
async function dyingAtEachStep(
  mortals: Mortals,
  job: (output: string) => object,
  check: (ended: Ended) => void,
  {
    as,
    first,
    isDone = () => mortals.isFinished,
    powers = [false, true],
  }: {
    readonly as?: Pick<MemoryOptions, 'work' | 'flags'>;
    readonly first?: () => Promise<unknown>;
    readonly isDone?: () => boolean;
    /** Whether the machine goes down with the first process, and with the second. @default only with the second */
    readonly powers?: readonly [boolean, boolean];
  } = {},
): Promise<void> {
  const wanted = job(mortals.folder.at('out.jsonl'));
  const chances = fc.sample(fc.double({ min: 0, max: 0.999, noNaN: true }), { numRuns: 1_000, seed: 42 });
  for (let after = 0; ; after++) {
    await mortals.begin();
    await first?.();
    const dice = [0, 1, 2].map((i) => chances[(after * 3 + i) % chances.length] ?? 0);
    const crash = { after, power: powers[0], latency: 1, dice };
    const isWhole = await mortals.lives(wanted, crash, as);
    let died = isWhole ? 0 : 1;
    if (!isWhole && !isDone()) {
      const second = { ...crash, power: powers[1], after: Math.floor((dice[0] ?? 0) * 120) };
      if (!(await mortals.lives(wanted, second, as))) died++;
    }
    if (!isWhole && !isDone()) await mortals.lives(wanted, NEVER, as);
    check({ mortals, unknown: died * unknownAfter(CONCURRENCY) });
    if (!isWhole) continue;
    // Otherwise nothing was tried: some thirty steps are on the disk alone.
    expect(after).toBeGreaterThan(60);
    return;
  }
}

const numbers = Array.from({ length: ROWS }, (_, i) => i + 1);
const limits = { concurrency: CONCURRENCY, chunk_size: 3 };

/** Each row has one record, in the order of the input, with its own answer. */
function expectWhole({ mortals }: Ended, textOf = (id: number): string => ` re row ${id}`): void {
  expect(mortals.records().map(({ input: { id }, text }) => [Number(id), text])).toEqual(
    numbers.map((id) => [id, textOf(id)]),
  );
  expect(mortals.summary.rows).toMatchObject({ total: ROWS, completed: ROWS });
  expect(mortals.folder.names).toEqual(['out.jsonl', 'out.summary.json']);
}

/** What was paid twice is what deaths made unknown, and it is said. */
function expectPaid({ mortals, unknown }: Ended, rows: number): void {
  const { repeated } = mortals.summary.calls;
  expect(mortals.calls).toBeLessThanOrEqual(rows + unknown);
  expect(repeated).toBeGreaterThanOrEqual(mortals.calls - rows);
  expect(repeated).toBeLessThanOrEqual(unknown);
}

describe('a whole run that dies at any of its steps', () => {
  const plain = () => new Mortals(({ prompt }) => ({ answer: { text: ` re ${prompt}`, ...TOKENS } }));

  it.each([
    ['by kill -9', [false, false]],
    ['without power', [true, true]],
  ] as const)(
    'faults 40 and 42: %s has one record for each row, and repeats no call in silence',
    async (_, powers) => {
      const job = (path: string) => ({ input: { path: input }, output: { path }, limits });
      await dyingAtEachStep(
        plain(),
        job,
        (ended) => {
          expectWhole(ended);
          expectPaid(ended, ROWS);
        },
        { powers },
      );
    },
  );

  it('faults 40 and 89: calls no row twice with unknown_outcome: hold', async () => {
    const held = { ...limits, unknown_outcome: 'hold' };
    const job = (path: string) => ({ input: { path: input }, output: { path }, limits: held });
    const mortals = plain();
    await dyingAtEachStep(mortals, job, ({ unknown }) => {
      expect(Math.max(...mortals.billed.values())).toBe(1);
      expect(mortals.records().map(({ input: { id } }) => Number(id))).toEqual(numbers);
      const failed = mortals.records().filter(({ status }) => status === 'failed');
      expect(failed.length).toBeLessThanOrEqual(unknown);
      for (const { error } of failed) expect(error.code).toBe('outcome_unknown');
      expect(mortals.summary.rows).toMatchObject({ total: ROWS, failed: failed.length });
    });
  });

  it('fault 40: passes no budget', async () => {
    // Room for a few calls that deaths make unknown: each keeps what was reserved for it.
    const tokens = 12 * EACH;
    const job = (path: string) => ({
      input: { path: input },
      output: { path },
      parameters: { max_tokens: 1 },
      limits: { ...limits, budget: { tokens } },
    });
    const mortals = plain();
    await dyingAtEachStep(mortals, job, () => {
      expect(mortals.calls * EACH).toBeLessThanOrEqual(tokens);
    });
  });

  it('fault 40: goes on with the row that it was asking again', async () => {
    const mortals = new Mortals(({ prompt }) => ({
      answer: {
        text: prompt.endsWith('row 4') && !prompt.startsWith('again') ? ' perhaps' : ' yes',
        ...TOKENS,
      },
    }));
    const job = (path: string) => ({
      input: { path: input },
      output: { path },
      limits,
      answer: { labels: ['yes', 'no'], on_invalid: { ask_again: 1, prompt: 'again {{ prompt }}' } },
    });
    await dyingAtEachStep(mortals, job, (ended) => {
      expectWhole(ended, () => ' yes');
      expectPaid(ended, ROWS + 1);
      expect(mortals.summary.answer_sources).toMatchObject({ asked_again: 1, read: ROWS - 1 });
    });
  });

  it('fault 40: has a copy only beside its original', async () => {
    const mortals = plain();
    const job = (path: string) => ({
      input: { path: input, dedupe: true },
      parameters: { temperature: 0 },
      prompt: 'row {{ q }}',
      output: { path },
      limits,
    });
    await dyingAtEachStep(mortals, job, (ended) => {
      expectWhole(ended, (id) => ` re row ${((id - 1) % 7) + 1}`);
      expectPaid(ended, 7);
    });
  });

  it('fault 40: as a retry, leaves every other byte, and the output is the old one or the new one', async () => {
    let isRetry = false;
    const mortals = new Mortals(({ prompt }) =>
      isRetry || !/[369]$/.test(prompt)
        ? { answer: { text: ` re ${prompt}`, ...TOKENS } }
        : { status: 400, json: { error: { code: 'bad', message: 'no' } } },
    );
    const job = (path: string) => ({ input: { path: input }, output: { path }, limits });
    let before: string[] = [];
    const first = async (): Promise<void> => {
      isRetry = false;
      await mortals.lives(job(mortals.folder.at('out.jsonl')), NEVER);
      mortals.folder.synced();
      mortals.billed.clear();
      before = mortals.folder.text('out.jsonl').split('\n');
      isRetry = true;
    };
    const selection = readSelection({});
    const as: Pick<MemoryOptions, 'work' | 'flags'> = {
      flags: { retry: selectionText(selection) },
      work: (settings, context) => retryOutput(settings, selection, context),
    };
    await dyingAtEachStep(
      mortals,
      job,
      (ended) => {
        expectWhole(ended);
        const after = mortals.folder.text('out.jsonl').split('\n');
        for (const [i, line] of before.entries()) if (![2, 5, 8].includes(i)) expect(after[i]).toBe(line);
        expect(mortals.calls).toBeLessThanOrEqual(3 + ended.unknown);
      },
      // A retry that finds nothing to call leaves the output as it is.
      { as, first, isDone: () => false },
    );
  });
});
