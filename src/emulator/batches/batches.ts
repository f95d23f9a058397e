import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Body } from '../operation.js';
import type { Service } from '../options.js';
import { batchEnded, idNotFound } from '../refusal.js';
import type { Draft, Files } from './files.js';
import { type CheckedInput, checkInput, type Work } from './input.js';
import { type Counts, writeResults } from './results.js';
import type { BatchFault } from './settings.js';

/** What the creator of a batch asks for. */
export interface Order extends Work {
  readonly metadata: Readonly<Record<string, string>> | null;
}

export interface Batch extends Order {
  readonly id: string;
  /** From 1, in the order of creation. */
  readonly number: number;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  cancelledAt: number | null;
  readonly checking: Promise<void>;
  checked: CheckedInput | null;
  /** Begins when somebody looks after the end. */
  finishing: Promise<void> | null;
  results: Results | null;
}

interface Results extends Counts {
  readonly outputId: string | null;
  readonly errorId: string | null;
}

const STATUSES = [
  'in_progress',
  'finalizing',
  'completed',
  'failed',
  'expired',
  'cancelling',
  'cancelled',
] as const;

type Status = 'validating' | (typeof STATUSES)[number];

/** A status, and when it began. */
type Stage = readonly [status: Status, at: number];

const ENDS: readonly Status[] = ['completed', 'failed', 'expired', 'cancelled'];

/** Parts of the time that a batch takes; its requests have the rest. */
const VALIDATING = 0.1;
const FINALIZING = 0.1;

/** Milliseconds that a look waits for work that is done by the clock. */
const PATIENCE_MS = 20_000;
const DAY_MS = 86_400_000;

const EXPIRED = {
  code: 'batch_expired',
  message: 'This request could not be executed before the completion window expired.',
};
const CANCELLED = {
  code: 'batch_cancelled',
  message: 'This request was not executed before the batch was cancelled.',
};
const TOKEN_LIMIT = {
  code: 'token_limit_exceeded',
  message:
    'Enqueued token limit reached. Please try again once some in_progress batches have been completed.',
  line: null,
};

const NOTHING: Results = { outputId: null, errorId: null, completed: 0, failed: 0 };

/** Batches advance by the clock of the emulator. What is due is done when somebody looks. */
export class Batches {
  readonly #batches = new Map<string, Batch>();
  /** One input after the other, so that each knows what is enqueued before it. */
  #checks: Promise<void> = Promise.resolve();

  constructor(
    private readonly service: Service,
    private readonly files: Files,
  ) {}

  /** Newest first. */
  get all(): Batch[] {
    return [...this.#batches.values()].reverse();
  }

  /** @throws Refusal */
  get(id: string): Batch {
    const found = this.#batches.get(id);
    if (!found) throw idNotFound('batch', id);
    return found;
  }

  isInputOfRunning(fileId: string): boolean {
    return this.all.some(({ input, results }) => input.id === fileId && results === null);
  }

  create(order: Order): Batch {
    const checking = this.#checks.then(() => this.#check(batch));
    // A look reports it.
    this.#checks = checking.catch(() => {});
    const batch: Batch = {
      ...order,
      id: `batch_${randomUUID().replaceAll('-', '')}`,
      number: this.#batches.size + 1,
      createdAt: this.service.now(),
      ...{ cancelledAt: null, checking, checked: null, finishing: null, results: null },
    };
    this.#batches.set(batch.id, batch);
    this.service.received.batchCreated();
    return batch;
  }

  async look(batch: Batch): Promise<Body> {
    if (batch.checked === null) await patiently(batch.checking);
    const status = this.#statusAt(this.service.now(), batch);
    if (ENDS.includes(status) && batch.results === null) {
      batch.finishing ??= this.#finish(batch, status);
      await patiently(batch.finishing);
    }
    return this.body(batch);
  }

  /** @throws Refusal when it has ended */
  async cancel(batch: Batch): Promise<Body> {
    const status = this.#statusAt(this.service.now(), batch);
    if (ENDS.includes(status)) throw batchEnded(status);
    batch.cancelledAt ??= this.service.now();
    return this.look(batch);
  }

  async #check(batch: Batch): Promise<void> {
    const checked = await checkInput(batch, this.service);
    const { enqueuedTokens } = this.service.batches;
    const isOver = enqueuedTokens !== null && this.#enqueued(batch, checked) > enqueuedTokens;
    const isRefused = isOver || this.#isHit('token-limit', batch);
    batch.checked = isRefused ? { ...checked, problems: [...checked.problems, TOKEN_LIMIT] } : checked;
    if (batch.checked.problems.length === 0) this.service.received.batchChecked(checked.places.length);
  }

  /** Its tokens, and those of the model's batches that had not ended when it was created. */
  #enqueued({ number, createdAt }: Batch, { tokens, target }: CheckedInput): number {
    return this.all
      .filter((other) => other.number < number && other.checked?.target?.deployment === target?.deployment)
      .filter((other) => !ENDS.includes(this.#statusAt(createdAt, other)))
      .reduce((sum, { checked }) => sum + (checked?.tokens ?? 0), tokens);
  }

  async #finish(batch: Batch, status: Status): Promise<void> {
    const { number, checked, cancelledAt } = batch;
    if (status === 'failed' || !checked?.target) {
      batch.results = NOTHING;
      return;
    }
    const share = this.#progress(batch, cancelledAt ?? Number.POSITIVE_INFINITY);
    const others = { share, left: status === 'cancelled' ? CANCELLED : EXPIRED };
    const drafts = [await this.files.draft(), await this.files.draft()] as const;
    try {
      const counts = await writeResults(batch, number, checked, checked.target, others, drafts, this.service);
      const outputId = await this.#keep(drafts[0], `${batch.id}_output.jsonl`);
      const errorId = await this.#keep(drafts[1], `${batch.id}_error.jsonl`, this.#isHit('odd', batch));
      if (outputId !== null && this.#isHit('no-file', batch)) await this.files.delete(outputId, false);
      batch.results = { outputId, errorId, ...counts };
    } catch (error) {
      await Promise.all(drafts.map((draft) => this.files.drop(draft)));
      throw error;
    }
  }

  async #keep(draft: Draft, filename: string, evenEmpty = false): Promise<string | null> {
    const now = this.service.now();
    const about = { filename, purpose: 'batch_output', createdAt: now, readyAt: now } as const;
    const { id, bytes } = await this.files.keep(draft, about);
    if (bytes > 0 || evenEmpty) return id;
    await this.files.delete(id, false);
    return null;
  }

  /** The share of its requests that are answered at a time. */
  #progress(batch: Batch, now: number): number {
    const { seconds, faults } = this.service.batches;
    const workMs = seconds * 1000 * (1 - VALIDATING - FINALIZING);
    const workedMs = now - batch.createdAt - this.#validatingMs(batch);
    const share = workedMs >= workMs ? 1 : Math.max(0, workedMs / workMs);
    return this.#isHit('hang', batch) ? Math.min(share, 0.5) : share * (faults.expire ?? 1);
  }

  #validatingMs(batch: Batch): number {
    return this.service.batches.seconds * 1000 * (this.#isHit('validate-slow', batch) ? 10 : VALIDATING);
  }

  /** The statuses that it has had. */
  #reached(now: number, batch: Batch): Stage[] {
    const { createdAt, cancelledAt, checked } = batch;
    const stages: Stage[] = [['validating', createdAt]];
    if (checked === null) return stages;
    const { seconds, faults } = this.service.batches;
    const finalMs = seconds * 1000 * FINALIZING;
    const validated = createdAt + this.#validatingMs(batch);
    const end = validated + seconds * 1000 * (1 - VALIDATING);
    const isFailed = checked.problems.length > 0;
    stages.push([isFailed ? 'failed' : 'in_progress', validated]);
    if (!isFailed && !this.#isHit('hang', batch)) {
      if (faults.expire !== undefined) stages.push(['expired', end]);
      else stages.push(['finalizing', end - finalMs], ['completed', end]);
    }
    const until = (time: number) => stages.filter(([, at]) => at <= time);
    if (cancelledAt === null || isFailed) return until(now);
    const cancelled = cancelledAt + finalMs;
    return [
      ...until(cancelledAt),
      ['cancelling', cancelledAt],
      ...(cancelled <= now ? [['cancelled', cancelled] as const] : []),
    ];
  }

  #statusAt(now: number, batch: Batch): Status {
    return this.#reached(now, batch).at(-1)?.[0] ?? 'validating';
  }

  /** @param now for an earlier moment */
  body(batch: Batch, now = this.service.now()): Body {
    const { id, endpoint, input, metadata, checked, results, createdAt, cancelledAt } = batch;
    // By the clock it may have ended before its files are written.
    const reached = this.#reached(now, batch).filter(([name]) => results !== null || !ENDS.includes(name));
    const status = reached.at(-1)?.[0] ?? 'validating';
    const isCounted = status !== 'validating' && status !== 'failed';
    const total = isCounted ? (checked?.places.length ?? 0) : 0;
    const answered = Math.round(total * this.#progress(batch, cancelledAt ?? now));
    const { completed, failed } = results ?? { completed: answered, failed: 0 };
    const problems = status === 'failed' ? (checked?.problems ?? []) : [];
    const at = (wanted: Status) => secondsOf(reached.find(([name]) => name === wanted)?.[1]);
    return {
      ...{ id, object: 'batch', endpoint, status, input_file_id: input.id, completion_window: '24h' },
      errors: problems.length === 0 ? null : { object: 'list', data: problems },
      output_file_id: results?.outputId ?? null,
      error_file_id: results?.errorId ?? null,
      created_at: secondsOf(createdAt),
      expires_at: secondsOf(createdAt + DAY_MS),
      ...Object.fromEntries(STATUSES.map((name) => [`${name}_at`, at(name)])),
      request_counts: { total, completed, failed },
      metadata,
      ...(this.#isHit('odd', batch) ? oddly(status, createdAt) : {}),
    };
  }

  #isHit(kind: BatchFault, { number }: Batch): boolean {
    return this.service.batchFault(kind, number);
  }
}

/** Forms that were seen. */
const oddly = (status: Status, createdAt: number): Body => ({
  status: status === 'cancelled' ? 'canceled' : `${status.slice(0, 1).toUpperCase()}${status.slice(1)}`,
  created_at: new Date(createdAt).toISOString(),
  request_counts: null,
  metadata: null,
});

const secondsOf = (ms?: number): number | null => (ms === undefined ? null : Math.floor(ms / 1000));

/** Waits for work, but not for long. */
async function patiently(work: Promise<void>): Promise<void> {
  // Whoever looks next sees the error too.
  work.catch(() => {});
  await Promise.race([work, sleep(PATIENCE_MS, undefined, { ref: false })]);
}
