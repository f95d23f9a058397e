import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import pLimit, { type LimitFunction } from 'p-limit';
import type { KnownAnswer, SentRequest } from '../../batch/done-files.js';
import { outcomeOfLine, parseResultLine } from '../../batch/result-line.js';
import { costOf, factorOf } from '../../account/summary.js';
import type { Settings } from '../../config/settings.js';
import { within } from '../../core/clock.js';
import { errorText, StopError, UsageError } from '../../core/errors.js';
import { cost, count, counted } from '../../core/figures.js';
import type { Halt } from '../../core/halt.js';
import type { Parameters, Row, Tokens } from '../../core/model.js';
import { atPrice, type Budget, budgetProblem, NO_TOKENS, passed, plus } from '../../pace/budget.js';
import { type RequestPlan, rowRequest } from '../../prompt/row-request.js';
import type { ChunkRow } from '../../queue/chunk.js';
import { BatchApi, lineUrl } from '../../service/batch-api.js';
import { lineBody, type ServedEndpoint } from '../../service/endpoint.js';
import { refusesOlderLimit } from '../../service/verdict.js';
import { clock } from '../../pace/pauses.js';
import { MostBilled } from '../../worker/billing.js';
import { InputFile, type RequestLine } from './input-file.js';
import { CANCEL_MS, errorsName, Journey, Left, outputName, Replaced, type Travel } from './journey.js';
import { type BatchFile, BatchRecord } from './record.js';
import { BatchResults } from './results.js';

/** Longest wait for the removal of what is left at the service when the run has ended, in ms. */
const CLEAR_MS = 60_000;

/** The smallest files are so many times smaller than the job says. */
const SMALLEST_PART = 16;

export interface BatchParts {
  readonly settings: Settings;
  readonly endpoint: ServedEndpoint;
  readonly run: string;
  /** The former name of the run, which goes on under another. @default none */
  readonly from?: string | undefined;
  readonly say: (line: string) => void;
}

/** What the run tells its batches. */
export interface BatchRun {
  /** From the first on. */
  readonly rows: () => AsyncIterable<Row>;
  /** Rows of the run. */
  readonly total: number;
  readonly written: number;
  /** Rows up to this are called ahead of the others; 0 when none are. */
  readonly ahead: number;
  /** Settles when these are good enough. */
  readonly passed: Promise<void>;
  readonly requests: RequestPlan;
  /** False for a row whose answer is known, or copied from an earlier row. Called once for each row to send, in order. */
  readonly needsCall: (row: Row, request: SentRequest) => boolean;
  /** What calls were billed, and the most that those in flight can be. */
  readonly spent: () => Tokens;
  /** No row is being called one by one. */
  readonly isIdle: () => boolean;
  readonly fail: (error: unknown) => void;
}

/**
 * The batch tier of a run: rows in input order become input files, files batches of the service, and their results
 * outcomes. The producer waits for the file that covers its row; what has no answer there is called.
 */
export class HostedBatches {
  readonly #api: BatchApi;
  readonly #limit: LimitFunction;
  readonly #left = new AbortController();
  readonly #over = new AbortController();
  readonly #results = new Map<BatchFile, BatchResults>();
  readonly #mostBilled = new MostBilled();
  /** Wakes whoever waits for a file that is planned, has ended, or was written. */
  #changed = signal();
  #work: Promise<void> = Promise.resolve();
  readonly #journeys = new Set<Promise<void>>();
  /** Rows up to this one need not be waited for. */
  #free = 0;
  /** The last row of which the planner knows that it needs no call, or whose file is planned. */
  #examined = 0;
  #current: BatchFile | null = null;
  /** No further file will be planned. */
  #planned = false;
  /** Of the budget: for the file that is being written. */
  #reserved: Tokens = NO_TOKENS;
  /** Most that the rows in the window may be billed, which were sent while batches ran. */
  #sent: Tokens = NO_TOKENS;
  /** The budget has no room for the next row. */
  #short: StopError | null = null;
  /** The model wants the newer name of `max_tokens`. */
  #isNewer = false;
  #run: BatchRun | null = null;
  #fail: (error: unknown) => void = () => {};

  private constructor(
    private readonly parts: BatchParts,
    private readonly record: BatchRecord,
  ) {
    const { settings, endpoint } = parts;
    this.#api = new BatchApi(endpoint, settings.endpoint);
    this.#limit = pLimit(settings.limits.batch.atOnce);
    if (record.known.over) this.#over.abort();
  }

  /**
   * Null for a job without the tier.
   * @throws UsageError
   */
  static async open(parts: BatchParts): Promise<HostedBatches | null> {
    const { settings, run, from } = parts;
    const { stateDir, batch } = settings;
    if (batch === null) return null;
    if (from !== undefined) await BatchRecord.move(stateDir, from, run);
    return new HostedBatches(parts, BatchRecord.find(stateDir, run) ?? BatchRecord.begin(stateDir, run));
  }

  /**
   * Cancels what runs of a run that is given up, and says what it cost.
   * @throws UsageError when the service does not answer, or when this process is to end: the same command tries again
   */
  static async cancel(parts: BatchParts, halt: Halt): Promise<void> {
    const { settings, say } = parts;
    const record = recordToDiscard(parts);
    if (record === null) return;
    const batches = new HostedBatches(parts, record);
    let failure: string | null = null;
    batches.#fail = (error) => {
      failure ??= errorText(error);
      void batches.leave();
    };
    void halt.requested.then(() => batches.leave());
    batches.#over.abort();
    for (const file of batches.#open) batches.#begin(file);
    await Promise.all(batches.#journeys);
    const left = batches.#open.length;
    const results = [...batches.#results.values()];
    const answered = results.reduce((sum, each) => sum + each.answered, 0);
    const billed = results.map((each) => each.billed).reduce(plus, NO_TOKENS);
    await batches.leave();
    if (left > 0) {
      const why = failure ?? 'interrupted';
      throw new UsageError(
        'batches_run',
        `of the run to discard ${left === 1 ? 'one batch is' : `${left} batches are`} not cancelled: ${why}`,
        'The same command tries it again.',
      );
    }
    const price = settings.prices && costOf(billed, settings.prices) * factorOf('batch', settings.prices);
    if (answered > 0)
      say(
        `the cancelled batches had answered ${counted(answered, 'row')}, which are billed: ` +
          (price === null
            ? `${count(billed.prompt_tokens + billed.completion_tokens)} tokens`
            : cost(price, settings.currency)),
      );
    record.discard();
  }

  /** For the summary, in the order of their rows. */
  get list() {
    return this.record.files
      .filter(({ batch }) => batch !== null)
      .map(({ name, batch, requests, counts, status, created_at, ended_at }) => ({
        ...{ id: batch ?? '', file: name, requests, answered: counts?.completed ?? null },
        status: status ?? 'created',
        created_at,
        ended_at,
      }));
  }

  /** When the first batch was created, in ms since 1970. */
  get since(): number | null {
    return this.record.known.since;
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  /** Of the budget: what ended batches were billed, and the most that the others can be. */
  get claimed(): Tokens {
    return this.record.files.map(({ most }) => most).reduce(plus, this.#reserved);
  }

  /**
   * Under a budget batches reserve more than they will be billed: calls that lack only that wait for it.
   * @returns null when there is room
   */
  room(rows: readonly ChunkRow[]): Promise<void> | null {
    const { settings } = this.parts;
    const budget = this.#budget;
    if (budget === null || rows.length === 0 || this.#open.length === 0) return null;
    const at = { endpoint: settings.endpoint, parameters: this.#parameters };
    const most = rows
      .map((row) => atPrice(this.#mostBilled.tokens(at, row), undefined, budget, settings.endpoint.name))
      .reduce(plus);
    return this.#hasRoom(most) ? null : this.#waitForRoom(most);
  }

  #hasRoom(most: Tokens): boolean {
    if (this.#run?.isIdle() === true) this.#sent = NO_TOKENS;
    if (!this.#isInBudget(plus(this.#sent, most))) return false;
    this.#sent = plus(this.#sent, most);
    return true;
  }

  async #waitForRoom(most: Tokens): Promise<void> {
    for (;;) {
      const changed = this.#changed.promise;
      if (this.#left.signal.aborted || this.#open.length === 0 || this.#hasRoom(most)) return;
      await changed;
    }
  }

  /** How the run waits, in words; null while it does not. */
  get waiting(): string | null {
    const open = this.#open;
    if (!this.#isAwaited || open.length === 0) return null;
    const answered = open.reduce((sum, { counts }) => sum + (counts?.completed ?? 0), 0);
    const requests = open.reduce((sum, file) => sum + file.requests, 0);
    const what = open.length === 1 ? '1 batch' : `${count(open.length)} batches`;
    const { since } = this.record.known;
    const { forMs = null } = this.parts.settings.batch ?? {};
    const end =
      forMs === null || since === null ? '' : `; what has no answer at ${clock(since + forMs)} is called`;
    return `waiting for ${what}: ${count(answered)} of ${counted(requests, 'row')} answered${end}`;
  }

  #isAwaited = false;

  get #open(): readonly BatchFile[] {
    return this.record.files.filter(({ step }) => step !== 'read' && step !== 'cleared');
  }

  /** Goes on with the files of earlier executions, and plans the others. */
  start(run: BatchRun): void {
    this.#run = run;
    this.#fail = run.fail;
    const { files } = this.record;
    const from = Math.max(run.written, run.ahead);
    // Rows that are in a file are not called ahead of others.
    this.#free = Math.min(from, (files[0]?.first ?? Number.POSITIVE_INFINITY) - 1);
    this.#examined = Math.max(from, this.record.covered);
    for (const file of files) if (file.step !== 'cleared' || file.last > run.written) this.#begin(file);
    // A run may end within the rows that go ahead.
    const left = new Promise<void>((resolve) => {
      this.#left.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    const passed = run.ahead > run.written ? run.passed : Promise.resolve();
    this.#work = Promise.race([passed, left])
      .then(
        () => this.#plan(run),
        // The run stops.
        () => {},
      )
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#planned = true;
        this.#notify();
      });
  }

  /** Whether the producer must wait before it looks at the row; a chunk ends before it. */
  isBehind(row: number): boolean {
    return row > this.#free;
  }

  /**
   * Resolves when the row's file has ended, when the row is in none, or when the process leaves.
   * @throws StopError when the budget has no room for the row
   */
  async reach(row: number): Promise<void> {
    this.#isAwaited = true;
    for (;;) {
      const changed = this.#changed.promise;
      if (this.#left.signal.aborted) return;
      const file = this.record.files.find(({ first, last }) => first <= row && row <= last);
      if (file !== undefined && (file.step === 'read' || file.step === 'cleared') && this.#isRead(file)) {
        this.#current = file;
        this.#free = file.last;
        break;
      }
      if (file === undefined && row <= this.#examined) {
        const next = this.record.files.find(({ first }) => first > row);
        this.#free = Math.min(this.#examined, (next?.first ?? Number.POSITIVE_INFINITY) - 1);
        break;
      }
      if (file === undefined && this.#short !== null) {
        if (this.#run?.isIdle() === true) throw this.#short;
      } else if (file === undefined && this.#planned) {
        // These rows may be called before the process ends: the next one must not put them into a batch.
        if (!this.record.known.over && row <= (this.#run?.total ?? 0)) await this.record.save({ over: true });
        this.#free = Number.POSITIVE_INFINITY;
        break;
      }
      await changed;
    }
    this.#isAwaited = false;
  }

  /** Null when the row is in no batch, or has no answer there. */
  answerTo({ number }: Row, request: SentRequest): KnownAnswer | null {
    const { endpoint } = this.parts.settings;
    const results = this.#current === null ? null : this.#results.get(this.#current);
    const text = results?.lineOf(number) ?? null;
    const line = text === null ? null : parseResultLine(text);
    if (text === null || line === null) return null;
    if (line.response !== null && refusesOlderLimit(line.response)) {
      this.#isNewer = true;
      return null;
    }
    const outcome = outcomeOfLine(line, endpoint, request, this.#parameters, 'batch');
    return outcome && { outcome, bytes: text.length };
  }

  /** Called after each commit: results of written rows are not needed any more. */
  async written(rows: number): Promise<void> {
    for (const [file, results] of this.#results) {
      if (file.last > rows) continue;
      results.close();
      this.#results.delete(file);
      await this.record.remove(outputName(file));
      await this.record.remove(errorsName(file));
    }
    this.#notify();
  }

  /** From now on rows are called one by one; what runs is cancelled, and its answers are taken. */
  giveUp(): void {
    if (this.isOver) return;
    this.#over.abort();
    this.record.save({ over: true }).catch((error: unknown) => this.#failed(error));
    this.#notify();
  }

  /** Leaves the batches to the next execution. @returns how many run */
  async leave(): Promise<number> {
    this.#left.abort();
    this.#notify();
    await Promise.all([this.#api.close(), this.#work, ...this.#journeys]);
    for (const results of this.#results.values()) results.close();
    this.#results.clear();
    return this.#open.filter(({ step }) => step === 'running' || step === 'creating').length;
  }

  /** Of a run that has all its rows: removes what is left of them, here and at the service. */
  async discard(): Promise<void> {
    // What is too late is said below.
    await within(CLEAR_MS, Promise.all(this.#journeys)).catch(() => {});
    await this.leave();
    const left = this.record.files.filter(({ step }) => step === 'read');
    if (left.length > 0)
      this.parts.say(
        `warning: not all files could be deleted at the service: ${left.map(({ name }) => name).join(', ')}, and the results of their batches`,
      );
    this.record.discard();
  }

  get #parameters(): Parameters {
    const { settings } = this.parts;
    return settings.parametersByOperation[settings.endpoint.operation] ?? settings.parameters;
  }

  #begin(file: BatchFile): void {
    const journey = this.#limit(async () => {
      try {
        const own = new Journey(file, this.#travel);
        await own.toResults();
        await this.#read(file);
        this.#notify();
        await own.clear();
      } catch (error) {
        if (!(error instanceof Replaced)) this.#failed(error);
      }
    });
    this.#journeys.add(journey);
    // Only now another has its place.
    void journey.finally(() => {
      this.#journeys.delete(journey);
      this.#notify();
    });
  }

  get #travel(): Travel {
    const { settings, say } = this.parts;
    const { deadlineMs, giveUpMs } = settings.limits;
    return {
      ...{ api: this.#api, record: this.record, say, giveUpMs },
      ...{ left: this.#left.signal, over: this.#over.signal },
      cancelMs: cancelMs(deadlineMs),
      anotherEnds: () => this.#anotherEnds(),
      divide: (file) => this.#divide(file),
      withoutLines: (file, lines) => this.#without(file, lines),
    };
  }

  async #anotherEnds(): Promise<void> {
    const ended = (): number => this.record.files.length - this.#open.length;
    const before = ended();
    while (ended() <= before && !this.#left.signal.aborted) await this.#changed.promise;
  }

  #isRead(file: BatchFile): boolean {
    return this.#results.has(file) || file.status === null || file.requests === 0;
  }

  async #read(file: BatchFile): Promise<void> {
    const { settings, say } = this.parts;
    if (file.status === null) return;
    const paths = [outputName(file), errorsName(file)].map((name) => this.record.pathOf(name));
    const results = await BatchResults.of(paths, [file.first, file.last]);
    this.#results.set(file, results);
    if (file.step !== 'read') return;
    const { name } = settings.endpoint;
    // Of one that was given up in the middle, whose answers are lost or do not say it, nobody knows what it is billed.
    const named = [file.output !== null, file.errors !== null];
    const isThere = named.includes(true) && paths.every((path, i) => !named[i] || existsSync(path));
    const isKnown = isThere && results.isMetered;
    if (isKnown) await this.record.note(file, { most: atPrice(results.billed, 'batch', this.#budget, name) });
    say(
      `batch ${file.batch}: ${file.status}, ${count(results.answered)} of ${counted(file.requests, 'row')} answered`,
    );
  }

  get #budget(): Budget | null {
    const { limits, budgetPrices } = this.parts.settings;
    return limits.budget && { ...limits.budget, ...budgetPrices };
  }

  async #plan({ rows, total, requests, needsCall }: BatchRun): Promise<void> {
    const start = this.#examined;
    let open: InputFile | null = null;
    let first = 0;
    let last = start;
    for await (const row of rows()) {
      if (row.number > total || this.#left.signal.aborted || this.isOver) break;
      if (row.number <= start) continue;
      const request = rowRequest(row, requests);
      if (request.kind === 'send' && needsCall(row, request)) {
        const line = this.#lineOf(row, request);
        if (open !== null && !this.#take(open, line)) {
          await this.#seal(open, [first, last]);
          open = null;
        }
        if (open === null) {
          open = await this.#next(line);
          if (open === null) break;
          first = row.number;
        }
        await open.add(line);
      }
      last = row.number;
      // Rows before the first of a file need no call.
      if (open === null) this.#examined = last;
    }
    this.#notify();
    if (open === null) return;
    if (this.#left.signal.aborted || this.isOver) {
      this.#reserved = NO_TOKENS;
      await open.abandon();
    } else await this.#seal(open, [first, last]);
  }

  #lineOf(row: Row, { prompt, parameters: own }: SentRequest): RequestLine {
    const { settings } = this.parts;
    const { endpoint: spec } = settings;
    const parameters = { ...this.#parameters, ...own };
    const body = lineBody({ prompts: [prompt], parameters }, spec, this.#isNewer);
    const text = `{"custom_id":"${row.number}","method":"POST","url":"${lineUrl(spec)}","body":${body}}\n`;
    const budget = this.#budget;
    if (budget === null && settings.limits.batch.tokens === null)
      return { text, bytes: Buffer.byteLength(text), enqueued: 0, most: NO_TOKENS };
    const most = this.#mostBilled.tokens(
      { endpoint: spec, parameters: this.#parameters },
      { prompt, parameters: own },
    );
    return {
      ...{ text, bytes: Buffer.byteLength(text), enqueued: most.prompt_tokens },
      most: budget === null ? NO_TOKENS : atPrice(most, 'batch', budget, spec.name),
    };
  }

  /** Reserves the line's share of the budget when the file has room for it. */
  #take(file: InputFile, { bytes, enqueued, most }: RequestLine): boolean {
    const { batch } = this.parts.settings.limits;
    const requests = Math.min(batch.requests, this.record.known.requests ?? batch.requests);
    const fits =
      file.requests < requests &&
      file.bytes + bytes <= batch.bytes &&
      (batch.tokens === null || file.enqueued + enqueued <= batch.tokens) &&
      this.#mayReserve(most);
    if (fits) this.#reserved = plus(this.#reserved, most);
    return fits;
  }

  /** Workers know only what was reserved when their rows were sent: calls under way could take it as well. */
  #mayReserve(most: Tokens): boolean {
    return this.#budget === null || (this.#run?.isIdle() === true && this.#isInBudget(most));
  }

  #isInBudget(most: Tokens): boolean {
    const budget = this.#budget;
    if (budget === null) return true;
    const spent = this.#run?.spent() ?? NO_TOKENS;
    return passed(budget, [spent, this.claimed, most].reduce(plus)) === null;
  }

  /** A new file as soon as there is room for one; null when there will be none. */
  async #next(line: RequestLine): Promise<InputFile | null> {
    const { batch } = this.parts.settings.limits;
    for (;;) {
      const changed = this.#changed.promise;
      if (this.#left.signal.aborted || this.isOver) return null;
      const running = this.#limit.activeCount + this.#limit.pendingCount;
      if (running < batch.atOnce && this.#mayReserve(line.most)) break;
      const budget = this.#budget;
      if (running === 0 && budget !== null && this.#run?.isIdle() === true) {
        const { code, message } = budgetProblem(
          { ...budget, batches: this.claimed },
          this.#run.spent(),
          line.most,
        );
        this.#short = new StopError(code, message);
        return null;
      }
      await changed;
    }
    this.#reserved = line.most;
    const name = this.#name();
    await this.record.save({ next: this.record.known.next + 1 });
    return await InputFile.create(this.record.pathOf(name), name);
  }

  #name(): string {
    return `${this.record.known.run.replace(/[^\w.-]/g, '_')}-${this.record.known.next}.jsonl`;
  }

  async #seal(open: InputFile, [first, last]: readonly [number, number]): Promise<void> {
    await open.seal();
    const file = planned(open, [first, last]);
    const saved = this.record.save({ files: [...this.record.files, file] });
    this.#reserved = NO_TOKENS;
    await saved;
    this.#examined = last;
    this.#begin(file);
    this.#notify();
  }

  async #divide(file: BatchFile): Promise<boolean> {
    const half = Math.floor(file.requests / 2);
    // Others may have taken the room for a while: later files are not the smaller for ever.
    const fewest = Math.ceil(this.parts.settings.limits.batch.requests / SMALLEST_PART);
    const requests = Math.max(fewest, Math.min(half, this.record.known.requests ?? half));
    await this.record.save({ requests });
    if (half === 0) return false;
    const lines = await this.#linesOf(file);
    const border = rowOf(lines[half] ?? '');
    await this.#replace(file, [
      [lines.slice(0, half), [file.first, border - 1]],
      [lines.slice(half), [border, file.last]],
    ]);
    return true;
  }

  async #without(file: BatchFile, left: ReadonlySet<number>): Promise<void> {
    const lines = await this.#linesOf(file);
    const kept = lines.filter((_, i) => !left.has(i + 1));
    await this.#replace(file, [[kept, [file.first, file.last]]], true);
  }

  async #linesOf({ name }: BatchFile): Promise<readonly string[]> {
    return (await readFile(this.record.pathOf(name), 'utf8')).split('\n').filter((line) => line !== '');
  }

  /** Each part keeps the share of what was reserved for the whole. */
  async #replace(
    file: BatchFile,
    parts: readonly (readonly [lines: readonly string[], rows: readonly [number, number]])[],
    reduced = file.reduced,
  ): Promise<void> {
    const made: BatchFile[] = [];
    for (const [lines, rows] of parts) {
      const name = this.#name();
      await this.record.save({ next: this.record.known.next + 1 });
      const open = await InputFile.create(this.record.pathOf(name), name);
      for (const line of lines)
        await open.add({
          text: `${line}\n`,
          bytes: Buffer.byteLength(line) + 1,
          enqueued: 0,
          most: NO_TOKENS,
        });
      await open.seal();
      const share = (tokens: number): number => Math.ceil((tokens * lines.length) / file.requests);
      const most = {
        prompt_tokens: share(file.most.prompt_tokens),
        completion_tokens: share(file.most.completion_tokens),
      };
      made.push({ ...planned(open, rows), most, reduced });
    }
    await this.record.save({ files: this.record.files.flatMap((each) => (each === file ? made : [each])) });
    await this.record.remove(file.name);
    for (const each of made) this.#begin(each);
    this.#notify();
  }

  #failed(error: unknown): void {
    if (!(error instanceof Left)) this.#fail(error);
  }

  #notify(): void {
    const before = this.#changed;
    this.#changed = signal();
    before.resolve();
  }
}

/** Null when there is none, or none that can be read: then nobody knows what runs. */
function recordToDiscard({ settings: { stateDir }, run, say }: BatchParts): BatchRecord | null {
  try {
    return BatchRecord.find(stateDir, run);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    say(`warning: ${error.message}: batches that it names are not cancelled`);
    return null;
  }
}

/** The service cancels a batch in ten minutes; a short deadline has less time for it. */
export const cancelMs = (deadlineMs: number | null): number =>
  Math.min(CANCEL_MS, (deadlineMs ?? Number.POSITIVE_INFINITY) / 10);

const planned = (
  { name, requests, bytes, most }: InputFile,
  [first, last]: readonly [number, number],
): BatchFile => ({
  ...{ name, first, last, requests, bytes, most, reduced: false, step: 'planned' },
  ...{ file: null, batch: null, output: null, errors: null },
  ...{ status: null, counts: null, created_at: null, ended_at: null },
});

const rowOf = (line: string): number => Number(/^\{"custom_id":"(\d+)"/.exec(line)?.[1]);

function signal(): { readonly promise: Promise<void>; resolve(): void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve: () => resolve() };
}
