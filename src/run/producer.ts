import type { Settings } from '../config/settings.js';
import type { CalledOutcome, Row } from '../core/model.js';
import type { KnownAnswer, SentRequest } from '../batch/done-files.js';
import { NO_TOKENS } from '../pace/budget.js';
import { promptText } from '../prompt/prompt-text.js';
import { type RequestPlan, rowRequest } from '../prompt/row-request.js';
import type { Chunk, ChunkRow, OnInvalid } from '../queue/chunk.js';
import { MOST_LOSSES } from '../queue/chunk-queue.js';
import type { Execution } from '../resume/resume.js';
import { mapped } from '../service/endpoint-spec.js';
import type { Tier } from '../service/response.js';
import { NOTHING } from '../store/ledger.js';
import { AnswerCheck } from '../worker/answer-check.js';
import type { HostedBatches } from './batch/hosted-batches.js';
import type { Canary } from './canary.js';
import type { Input } from './input.js';
import type { Plan } from './plan.js';
import type { Window, WindowChunk, WindowRow } from './window.js';

/** Bytes after which a chunk is closed, however few rows it has: long prompts stay small entries. */
export const CHUNK_BYTES = 1024 * 1024;
/** Chunks per write to the queue. */
const BATCH = 16;

interface ProducerParts
  extends Pick<Execution, 'store' | 'queue' | 'committer' | 'reuse' | 'before' | 'deaths'> {
  /** Null for a job without the batch tier. */
  readonly batches: HostedBatches | null;
  readonly input: Input;
  readonly plan: Pick<Plan, 'requests'>;
}

interface UnfitAnswer {
  readonly row: number;
  readonly outcome: CalledOutcome;
  readonly interim: number;
}

export class Producer {
  readonly #common: Omit<Chunk, 'first' | 'rows'>;
  /** Approximate size of that in each entry; thousands of labels may make it large. */
  readonly #commonBytes: number;
  /** Answers of batches that do not fit, so that their rows are asked again. */
  #askedAgain = 0;

  constructor(
    settings: Settings,
    private readonly parts: ProducerParts,
    private readonly window: Window,
    private readonly canary: Canary,
    /** Null in a job that asks for none. */
    tier: Tier | null = null,
  ) {
    const { endpoints, parametersByOperation: parameters, limits } = settings;
    const { run, execution } = parts.committer.manifest;
    const orphaned = Math.max(0, parts.before.in_flight);
    this.#common = {
      run,
      execution,
      endpoints: mapped(endpoints, ({ spec }) => spec),
      promptsPerRequest: limits.promptsPerRequest,
      parameters,
      ...(tier !== null && { tier }),
      budget: limits.budget && { ...limits.budget, ...settings.budgetPrices, orphaned },
      hold: limits.unknownOutcome === 'hold',
      asks: asksOf(settings),
    };
    this.#commonBytes = JSON.stringify(this.#common).length;
  }

  /** Answers that this process has handed to the ledger. */
  get askedAgain(): number {
    return this.#askedAgain;
  }

  /**
   * Ends with the input, or when stopped.
   * @param onGrown called with the bytes of an input that has grown since it was read in full
   */
  async run(signal: AbortSignal, onGrown: (to: number) => void): Promise<void> {
    const { window, canary } = this;
    const { input, plan, queue, committer, reuse, batches, deaths } = this.parts;
    const { rows: committed, chunk_size: chunkSize } = committer.manifest;
    let first = committed + 1;
    let rows: WindowRow[] = [];
    let requests: ChunkRow[] = [];
    let unfit: UnfitAnswer[] = [];
    let bytes = 0;
    let held = 0;
    let batch: Chunk[] = [];

    const send = async (): Promise<void> => {
      if (batch.length > 0) await queue.add(batch);
      batch = [];
    };
    const close = async (): Promise<void> => {
      const waits = batches?.room(requests) ?? null;
      if (waits !== null) {
        await send();
        await waits;
      }
      await this.#keep(first, unfit);
      const isApart = requests.some(({ row }) => (deaths.get(row) ?? 0) >= MOST_LOSSES);
      window.add({ first, rows, sent: requests.length, bytes: held + this.#commonBytes, isApart });
      if (requests.length > 0 && !isApart) batch.push({ ...this.#shared, first, rows: requests });
      first += rows.length;
      [rows, requests, unfit, bytes, held] = [[], [], [], 0, 0];
      if (batch.length >= BATCH || window.full) await send();
      await window.room();
    };

    for await (const row of input.rows({ onGrown })) {
      if (row.number <= committed) continue;
      if (row.number > input.total || signal.aborted) break;
      if (batches?.isBehind(row.number)) {
        if (rows.length > 0) await close();
        await send();
        await batches.reach(row.number);
        if (signal.aborted) break;
      }
      const request = rowRequest(row, plan.requests);
      if (request.kind === 'send') {
        const looked = reuse?.match(row, request.prompt, request.parameters) ?? null;
        const answered = looked?.source ? null : this.#answerTo(row, request);
        const again = answered && this.#unfit(row, request, answered);
        if (again !== null) unfit.push(again);
        const known = again === null ? answered : null;
        if (!looked?.source && known === null) requests.push(toSend(row, request));
        rows.push({ row, settled: known?.outcome ?? null, looked });
        held += known?.bytes ?? 0;
        // Counted even if not sent: a resume that knows fewer rows must end its chunks at the same rows.
        const { length } = promptText(request.prompt);
        bytes += length;
        held += length;
      } else {
        rows.push({ row, settled: request.outcome, looked: null });
      }
      bytes += row.bytes;
      held += row.memoryBytes ?? row.bytes;
      if (rows.length >= chunkSize || bytes >= CHUNK_BYTES || row.number === canary.last) await close();
      if (row.number === canary.last && row.number < input.total) {
        await send();
        await canary.passed;
      }
    }
    if (signal.aborted) return;
    if (rows.length > 0) await close();
    await send();
    window.close();
  }

  /** Paid for outside the calls of this run; null for a row that is called. */
  #answerTo(row: Row, request: SentRequest): KnownAnswer | null {
    const { input, batches } = this.parts;
    return input.done?.answerTo(row, request) ?? batches?.answerTo(row, request) ?? null;
  }

  /** Null when the answer stands. One of `input.done` does. */
  #unfit(row: Row, request: SentRequest, { outcome }: KnownAnswer): UnfitAnswer | null {
    const { asks } = this.#common;
    if (asks === null || outcome.elsewhere !== 'batch') return null;
    // The next call's outcome has both, and is one of this run.
    const { elsewhere: _, ...called } = outcome;
    const judged = new AnswerCheck(asks).judge(toSend(row, request), called);
    return judged.interim === undefined
      ? null
      : { row: row.number, outcome: judged.outcome, interim: judged.interim };
  }

  /** Their rows go on from them as from answers to calls. An earlier execution may have got further. */
  async #keep(first: number, unfit: readonly UnfitAnswer[]): Promise<void> {
    if (unfit.length === 0) return;
    const { ledger } = this.parts.store;
    const { run, execution } = this.parts.committer.manifest;
    const look = {
      ...{ run, first, execution, call: '', hold: false, bounds: null, looks: true },
      rows: unfit.map(({ row }) => ({ row, most: NO_TOKENS })),
    };
    const [answer] = await ledger.write({ ...NOTHING, reservations: [look] });
    const isNew = ({ row }: UnfitAnswer, i: number): boolean =>
      answer?.rows[i] !== 'known' && answer?.interim.has(row) !== true;
    const settled = unfit.filter(isNew).map((each) => ({ run, first, call: null, ...each }));
    this.#askedAgain += settled.length;
    if (settled.length > 0) await ledger.write({ ...NOTHING, settled });
  }

  /** With what batches take of the budget now. */
  get #shared(): Omit<Chunk, 'first' | 'rows'> {
    const { budget } = this.#common;
    const { batches } = this.parts;
    return budget === null || batches === null
      ? this.#common
      : { ...this.#common, budget: { ...budget, batches: batches.claimed } };
  }

  /** Null when none of the chunk's rows are sent. */
  again(chunk: WindowChunk): Chunk | null {
    if (chunk.sent === 0) return null;
    return { ...this.#shared, first: chunk.first, rows: sentAgain(chunk, this.parts.plan.requests) };
  }
}

/** Null when workers need not read the answers. */
function asksOf({ onInvalid, answer }: Settings): OnInvalid | null {
  if (onInvalid === null || (onInvalid.askAgain === 0 && onInvalid.deployment === null)) return null;
  const { askAgain: again, prompt, deployment } = onInvalid;
  return { answer, again, prompt, deployment };
}

/** Rows that reuse an outcome, or have one, are not sent. */
export const sentAgain = ({ rows }: WindowChunk, requests: RequestPlan): readonly ChunkRow[] =>
  rows.flatMap(({ row, settled, looked }) => {
    const request = settled !== null || looked?.source ? null : rowRequest(row, requests);
    return request?.kind === 'send' ? [toSend(row, request)] : [];
  });

const toSend = ({ number }: Row, { prompt, parameters }: SentRequest): ChunkRow => ({
  row: number,
  prompt,
  parameters,
});
