import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerLines, type Checked, checkLines, type Work } from './batch-lines.js';
import { type BatchFault, isHit } from './batch-settings.js';
import type { Files } from './files.js';
import type { Body } from './operation.js';
import type { Service } from './options.js';
import { batchEnded, idNotFound } from './refusal.js';

type Status =
  | 'validating'
  | 'failed'
  | 'in_progress'
  | 'finalizing'
  | 'completed'
  | 'expired'
  | 'cancelling'
  | 'cancelled';

/** What the creator of a batch says. */
export interface BatchOrder extends Omit<Work, 'number'> {
  readonly metadata: Readonly<Record<string, string>> | null;
}

interface Results {
  readonly outputId: string | null;
  readonly errorId: string | null;
  readonly completed: number;
  readonly failed: number;
}

interface Batch extends BatchOrder {
  readonly id: string;
  readonly number: number;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  cancelledAt: number | null;
  readonly checking: Promise<void>;
  checked: Checked | null;
  /** Begins when somebody looks after the end. */
  finishing: Promise<void> | null;
  results: Results | null;
}

type Stage = readonly [status: Status, at: number];

/** Parts of the time that a batch takes; the requests have the rest. */
const VALIDATING = 0.1;
const FINALIZING = 0.1;

const DAY = 86_400_000;

/** Milliseconds that a look waits for work that should be done by the clock. */
const PATIENCE_MS = 2000;

const ENDS: readonly Status[] = ['failed', 'completed', 'expired', 'cancelled'];

const EXPIRED = {
  code: 'batch_expired',
  message: 'This request could not be executed before the completion window expired.',
};
const CANCELLED = {
  code: 'batch_cancelled',
  message: 'This request was not executed before the batch was cancelled.',
};

/** Batches advance by the clock; what is due is done when somebody looks. */
export class Batches {
  readonly #batches = new Map<string, Batch>();
  /** Input files are checked one after the other, so that each knows what is enqueued before it. */
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

  isInput(fileId: string): boolean {
    return this.all.some(({ input, results }) => input.id === fileId && results === null);
  }

  create(order: BatchOrder): Batch {
    const id = `batch_${randomUUID().replaceAll('-', '')}`;
    const checking = this.#checks.then(() => this.#check(batch));
    // A look reports it.
    this.#checks = checking.catch(() => {});
    const batch: Batch = {
      ...order,
      id,
      number: this.#batches.size + 1,
      createdAt: this.service.now(),
      cancelledAt: null,
      checking,
      checked: null,
      finishing: null,
      results: null,
    };
    this.#batches.set(id, batch);
    this.service.received.batchCreated();
    return batch;
  }

  /** @throws Refusal when it has ended */
  async cancel(batch: Batch): Promise<Body> {
    const [status] = this.#last(batch);
    if (ENDS.includes(status)) throw batchEnded(status);
    batch.cancelledAt ??= this.service.now();
    return this.look(batch);
  }

  async look(batch: Batch): Promise<Body> {
    if (batch.checked === null) await patiently(batch.checking);
    const [status] = this.#last(batch);
    if (ENDS.includes(status) && batch.results === null) {
      batch.finishing ??= this.#finish(batch, status);
      batch.finishing.catch(() => {});
      await patiently(batch.finishing);
    }
    return this.body(batch);
  }

  async #check(batch: Batch): Promise<void> {
    const checked = await checkLines(batch, this.service);
    const limit = this.service.batches.enqueuedTokens ?? Number.POSITIVE_INFINITY;
    const isRefused =
      this.#isHit('token-limit', batch) || checked.tokens + this.#enqueuedBefore(batch, checked) > limit;
    const message =
      'Enqueued token limit reached. Please try again once some in_progress batches have been completed.';
    const problem = { code: 'token_limit_exceeded', message, line: null };
    batch.checked = isRefused ? { ...checked, problems: [...checked.problems, problem] } : checked;
    if (batch.checked.problems.length === 0) this.service.received.batchChecked(checked.places.length);
  }

  /** Tokens of the same model in the batches that had not ended when this one was created. */
  #enqueuedBefore({ number, createdAt }: Batch, { target }: Checked): number {
    return this.all
      .filter((other) => other.number < number && other.checked?.target?.deployment === target?.deployment)
      .filter((other) => !ENDS.includes(this.#last(other, createdAt)[0]))
      .reduce((sum, { checked }) => sum + (checked?.tokens ?? 0), 0);
  }

  async #finish(batch: Batch, status: Status): Promise<void> {
    const { checked } = batch;
    if (checked === null || status === 'failed') {
      batch.results = { outputId: null, errorId: null, completed: 0, failed: 0 };
      return;
    }
    const share = this.#progress(batch, batch.cancelledAt ?? Number.POSITIVE_INFINITY);
    const left = status === 'cancelled' ? CANCELLED : EXPIRED;
    const { output, errors, ...counts } = await answerLines(
      batch,
      checked,
      share,
      left,
      this.files,
      this.service,
    );
    const now = this.service.now();
    const about = { purpose: 'batch_output', createdAt: now, readyAt: now } as const;
    const outputFile = await this.files.keep(output, { filename: `${batch.id}_output.jsonl`, ...about });
    const errorFile = await this.files.keep(errors, { filename: `${batch.id}_error.jsonl`, ...about });
    const idOf = async ({ id, bytes }: typeof outputFile, isKept: boolean) => {
      if (bytes > 0 || isKept) return id;
      await this.files.delete(id, false);
      return null;
    };
    const outputId = await idOf(outputFile, false);
    const errorId = await idOf(errorFile, this.#isHit('odd', batch));
    if (outputId !== null && this.#isHit('no-file', batch)) await this.files.delete(outputId, false);
    batch.results = { outputId, errorId, ...counts };
  }

  /** The share of its requests that were answered at a time, if nothing has stopped it before. */
  #progress(batch: Batch, now: number): number {
    const { seconds, faults } = this.service.batches;
    const worked = now - batch.createdAt - this.#validatingMs(batch);
    const wholeMs = seconds * 1000 * (1 - VALIDATING - FINALIZING);
    const share = worked < 0 ? 0 : Math.min(1, wholeMs === 0 ? 1 : worked / wholeMs);
    if (this.#isHit('hang', batch)) return Math.min(share, 0.5);
    return share * (faults.expire ?? 1);
  }

  #validatingMs(batch: Batch): number {
    const { seconds } = this.service.batches;
    return seconds * 1000 * (this.#isHit('validate-slow', batch) ? 10 : VALIDATING);
  }

  /** The statuses of a batch and when it enters them. */
  #stages(batch: Batch): [Stage, ...Stage[]] {
    const { seconds, faults } = this.service.batches;
    const { createdAt, cancelledAt, checked } = batch;
    const begin: Stage = ['validating', createdAt];
    if (checked === null) return [begin];
    const validated = createdAt + this.#validatingMs(batch);
    if (checked.problems.length > 0) return [begin, ['failed', validated]];
    const finalMs = seconds * 1000 * FINALIZING;
    const end = validated + seconds * 1000 * (1 - VALIDATING);
    const ending: Stage[] =
      faults.expire === undefined
        ? [
            ['finalizing', end - finalMs],
            ['completed', end],
          ]
        : [['expired', end]];
    const run: Stage[] = [['in_progress', validated], ...(this.#isHit('hang', batch) ? [] : ending)];
    if (cancelledAt === null) return [begin, ...run];
    const before = run.filter(([, at]) => at <= cancelledAt);
    return [begin, ...before, ['cancelling', cancelledAt], ['cancelled', cancelledAt + finalMs]];
  }

  #reached(batch: Batch, now: number): [Stage, ...Stage[]] {
    const [first, ...others] = this.#stages(batch);
    return [first, ...others.filter(([, at]) => at <= now)];
  }

  #last(batch: Batch, now = this.service.now()): Stage {
    const reached = this.#reached(batch, now);
    return reached.at(-1) ?? reached[0];
  }

  body(batch: Batch, now = this.service.now()): Body {
    const { id, endpoint, input, metadata, checked, results, createdAt } = batch;
    const reached = this.#reached(batch, now);
    // By the clock it has ended, but its files are not written yet.
    if (results === null && ENDS.includes((reached.at(-1) ?? reached[0])[0])) reached.pop();
    const [status] = reached.at(-1) ?? reached[0];
    const total = status === 'validating' || status === 'failed' ? 0 : (checked?.places.length ?? 0);
    const answered = Math.floor(total * this.#progress(batch, batch.cancelledAt ?? now));
    const { completed, failed } = results ?? { completed: answered, failed: 0 };
    const at = (wanted: Status) => {
      const found = reached.find(([name]) => name === wanted);
      return found ? seconds(found[1]) : null;
    };
    const problems = status === 'failed' ? (checked?.problems ?? []) : [];
    const usual = {
      id,
      object: 'batch',
      endpoint,
      errors:
        problems.length === 0
          ? null
          : { object: 'list', data: problems.map((problem) => ({ ...problem, param: null })) },
      input_file_id: input.id,
      completion_window: '24h',
      status,
      output_file_id: results?.outputId ?? null,
      error_file_id: results?.errorId ?? null,
      created_at: seconds(createdAt),
      in_progress_at: at('in_progress'),
      expires_at: seconds(createdAt + DAY),
      finalizing_at: at('finalizing'),
      completed_at: at('completed'),
      failed_at: at('failed'),
      expired_at: at('expired'),
      cancelling_at: at('cancelling'),
      cancelled_at: at('cancelled'),
      request_counts: { total, completed, failed },
      metadata,
    };
    return this.#isHit('odd', batch) ? { ...usual, ...oddly(status, usual.created_at) } : usual;
  }

  #isHit(kind: BatchFault, { number }: Batch): boolean {
    return isHit(kind, number, { faults: this.service.batches.faults, seed: this.service.seed });
  }
}

/** Forms that were seen. */
const oddly = (status: Status, createdAt: number): Body => ({
  status: status === 'cancelled' ? 'canceled' : `${status.slice(0, 1).toUpperCase()}${status.slice(1)}`,
  created_at: new Date(createdAt * 1000).toISOString(),
  request_counts: null,
  metadata: null,
});

const seconds = (ms: number): number => Math.floor(ms / 1000);

/** Waits for work, but not for long. */
async function patiently(work: Promise<void>): Promise<void> {
  await Promise.race([work, sleep(PATIENCE_MS, undefined, { ref: false })]);
}
