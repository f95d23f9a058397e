import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { steadyNow } from '../../core/clock.js';
import { StopError } from '../../core/errors.js';
import { count, counted, duration } from '../../core/figures.js';
import { syncFile } from '../../output/plain-file.js';
import { syncFolder, writing } from '../../output/writer.js';
import { NO_TOKENS } from '../../pace/budget.js';
import type { BatchApi, No, Page, RemoteBatch, Reply } from '../../service/batch-api.js';
import type { BatchFile, BatchRecord } from './record.js';

/** Milliseconds before the first looks at a batch; then a look a minute. */
const FIRST_LOOK_MS = 10_000;
const LOOKS_MS = [20_000, 40_000];
const LATER_MS = 60_000;
/** Milliseconds before what failed is tried again, and before a second look for what may be there. */
const SOON_MS = 1_000;
const AGAIN_MS = 10_000;
/** Milliseconds in which the service cancels a batch, by its specification. */
export const CANCEL_MS = 10 * 60_000;
/** Milliseconds after which a batch that the service had no room for is tried again. */
const NO_ROOM_MS = 60_000;
/** Tries to remove what is left at the service. */
const REMOVALS = 3;
/** Most pages of a list in which a file or batch of this run is looked for: 5,000 entries. */
const MOST_PAGES = 50;

/** What the journeys of a run share. */
export interface Travel {
  readonly api: BatchApi;
  readonly record: BatchRecord;
  /** Aborts when this process leaves the batches alone. */
  readonly left: AbortSignal;
  /** Aborts when the rest is called one by one: what runs is cancelled. */
  readonly over: AbortSignal;
  /** Longest wait for a batch that is cancelled, in ms. */
  readonly cancelMs: number;
  /** After so many ms without an answer the run stops. */
  readonly giveUpMs: number;
  /** Resolves when a batch of the run has ended. */
  readonly anotherEnds: () => Promise<void>;
  /** Divides the file in two, because the service has no room for all of it; false when it has one request. */
  readonly divide: (file: BatchFile) => Promise<boolean>;
  /** Leaves out the requests of these lines, from 1; their rows are called one by one. */
  readonly withoutLines: (file: BatchFile, lines: ReadonlySet<number>) => Promise<void>;
  readonly say: (line: string) => void;
}

/** The process leaves; the next one goes on from the last step. */
export class Left extends Error {}

/** The file was replaced by others: there is nothing more to do for it. */
export class Replaced extends Error {}

/** An input file from this disk to the service, and its results back. Ends when they are on this disk. */
export class Journey {
  #failingSince: number | null = null;
  /** Until the first look, in ms: at once for a batch that an earlier execution has created. */
  #firstLookMs = 0;

  constructor(
    private readonly file: BatchFile,
    private readonly travel: Travel,
  ) {}

  /**
   * @throws Left
   * @throws Replaced
   * @throws StopError
   * @throws WriteError
   */
  async toResults(): Promise<void> {
    for (;;) {
      switch (this.file.step) {
        case 'planned':
        case 'uploading':
        case 'uploaded':
        case 'creating':
          if (this.travel.over.aborted && this.file.step !== 'creating') return await this.#forgo();
          await this.#begin();
          break;
        case 'running':
          await this.#watch();
          break;
        case 'ended':
          await this.#fetch();
          break;
        default:
          return;
      }
    }
  }

  /** Removes what is left at the service, once the results are safe. */
  async clear(): Promise<void> {
    const { file } = this;
    const { api, record } = this.travel;
    if (file.step !== 'read') return;
    let isLeft = false;
    for (const name of ['file', 'output', 'errors'] as const) {
      const id = file[name];
      if (id === null) continue;
      for (let tries = 0; tries < REMOVALS; tries++) {
        const { kind } = await api.removeFile(id);
        if (kind === 'ok' || kind === 'missing') break;
        const isLast = tries === REMOVALS - 1 || kind === 'refused' || kind === 'stop';
        if (isLast) {
          isLeft = true;
          break;
        }
        await this.#pause(AGAIN_MS);
      }
    }
    if (!isLeft) await record.note(file, { step: 'cleared' });
  }

  async #begin(): Promise<void> {
    const { file } = this;
    const { record } = this.travel;
    if (file.step === 'planned') {
      await record.note(file, { step: 'uploading' });
      await this.#upload(true);
    } else if (file.step === 'uploading') await this.#upload(false);
    else if (file.step === 'uploaded') {
      await record.note(file, { step: 'creating' });
      if (record.known.since === null) await record.save({ since: steadyNow() });
      await this.#create(true);
    } else await this.#create(false);
  }

  /** @param isFirst nothing can be there yet */
  async #upload(isFirst: boolean): Promise<void> {
    const { file } = this;
    const { api, record } = this.travel;
    const found = isFirst ? null : await this.#find(api.files.bind(api), ({ name }) => name === file.name);
    const reply = found ?? (await api.upload(record.pathOf(file.name), file.name, file.bytes));
    if (reply.kind !== 'ok') return await this.#failed(reply);
    this.#failingSince = null;
    let { value } = reply;
    while (value.status === 'pending' || value.status === 'running') {
      await this.#pause(reply.retryAfterMs ?? AGAIN_MS);
      const look = await api.file(value.id);
      if (look.kind === 'missing') return await record.note(file, { step: 'planned' });
      if (look.kind === 'ok') value = look.value;
      else await this.#failed(look);
    }
    await record.note(file, { step: 'uploaded', file: value.id });
  }

  /** An uncertain create is looked up: a second one would be a second batch, and paid for. */
  async #create(isFirst: boolean): Promise<void> {
    const { file } = this;
    const { api, record, say } = this.travel;
    const isOurs = (batch: RemoteBatch): boolean =>
      batch.inputFile === file.file || batch.metadata['promptmill'] === file.name;
    const found = isFirst ? null : await this.#find(api.batches.bind(api), isOurs);
    if (found === null && this.travel.over.aborted) return await this.#forgo();
    const reply =
      found ?? (await api.create(file.file ?? '', { promptmill: file.name, run: record.known.run }));
    // The uploaded file is gone.
    if (reply.kind === 'missing') return await record.note(file, { step: 'planned', file: null });
    if (reply.kind === 'busy') {
      await record.note(file, { step: 'uploaded' });
      return await this.#failed(reply);
    }
    if (reply.kind !== 'ok') return await this.#failed(reply);
    this.#failingSince = null;
    this.#firstLookMs = found === null ? (reply.retryAfterMs ?? FIRST_LOOK_MS) : 0;
    const { id, status } = reply.value;
    await record.note(file, { step: 'running', batch: id, status, created_at: new Date().toISOString() });
    say(
      `batch ${id}: ${counted(file.requests, 'row')} of ${count(file.first)} to ${count(file.last)}${found === null ? '' : ', found again'}`,
    );
  }

  /** Twice, with a pause between: a list may lag behind. Null when it is not there. */
  async #find<T>(
    list: (after: string | null) => Promise<Reply<Page<T>>>,
    isOurs: (entry: T) => boolean,
  ): Promise<Reply<T> | null> {
    for (const isLast of [false, true]) {
      let after: string | null = null;
      let waitMs = AGAIN_MS;
      for (let page = 0; page < MOST_PAGES; page++) {
        const reply: Reply<Page<T>> = await list(after);
        if (reply.kind !== 'ok') return reply;
        const { value, retryAfterMs } = reply;
        const found = value.entries.find(isOurs);
        if (found !== undefined) return { kind: 'ok', value: found, retryAfterMs };
        waitMs = retryAfterMs ?? waitMs;
        after = value.after;
        if (after === null) break;
      }
      if (!isLast) await this.#pause(waitMs);
    }
    return null;
  }

  async #watch(): Promise<void> {
    const { file } = this;
    const { api, record, over, say, cancelMs } = this.travel;
    const id = file.batch ?? '';
    let cancelledAt: number | null = null;
    let isCancelling = false;
    let waitMs: number | null = this.#firstLookMs;
    for (let looks = 0; ; looks++) {
      const nextMs = waitMs ?? LOOKS_MS[looks - 1] ?? LATER_MS;
      if (cancelledAt === null) await this.#pause(nextMs, over);
      else await this.#pause(Math.max(0, Math.min(nextMs, cancelledAt + cancelMs - steadyNow())));
      const cancels: boolean = over.aborted && !isCancelling;
      if (cancels && cancelledAt === null) {
        cancelledAt = steadyNow();
        looks = 0;
      }
      const reply: Reply<RemoteBatch> = cancels ? await api.cancel(id) : await api.batch(id);
      waitMs = reply.retryAfterMs;
      if (cancelledAt !== null && steadyNow() - cancelledAt >= cancelMs) {
        say(
          `warning: batch ${id} was not cancelled in ${duration(cancelMs / 1000)}: what it may still answer is paid for and not used`,
        );
        return await record.note(file, {
          step: 'read',
          status: 'abandoned',
          ended_at: new Date().toISOString(),
        });
      }
      if (reply.kind === 'missing') {
        say(`warning: the service knows batch ${id} no more: its rows are called`);
        return await record.note(file, {
          step: 'ended',
          status: 'missing',
          ended_at: new Date().toISOString(),
        });
      }
      // A batch that has ended meanwhile refuses to be cancelled: a look tells.
      if (cancels) isCancelling = reply.kind !== 'unsure';
      else if (reply.kind === 'ok') isCancelling = reply.value.status === 'cancelling';
      if ((reply.kind === 'refused' || reply.kind === 'busy') && cancels) {
        waitMs ??= 0;
        continue;
      }
      if (reply.kind !== 'ok') {
        waitMs ??= this.#failingSince === null ? SOON_MS : AGAIN_MS;
        await this.#failed(reply, false);
        continue;
      }
      this.#failingSince = null;
      const { value } = reply;
      if (value.status === 'failed' && value.outputFile === null) return await this.#refused(value, waitMs);
      if (!ENDED.has(value.status)) {
        const { status, counts } = value;
        if (status !== file.status || counts?.completed !== file.counts?.completed)
          await record.note(file, { status, counts });
        continue;
      }
      const { status, counts, outputFile: output, errorFile: errors } = value;
      return await record.note(file, {
        step: 'ended',
        status,
        counts,
        output,
        errors,
        ended_at: new Date().toISOString(),
      });
    }
  }

  /** The input did not pass: no request was made, and nothing is billed. */
  async #refused({ id, errors }: RemoteBatch, waitMs: number | null): Promise<void> {
    const { file } = this;
    const { api, record, anotherEnds, divide, withoutLines, say } = this.travel;
    const [first = { code: 'failed', message: 'the service does not say why', line: null }] = errors;
    if (file.file !== null) await api.removeFile(file.file);
    await record.note(file, { step: 'planned', file: null, batch: null, status: 'failed' });
    if (errors.some(({ code }) => code === 'token_limit_exceeded')) {
      say(`batch ${id}: ${first.message}; it is tried again in two parts`);
      await Promise.race([anotherEnds(), this.#pause(waitMs ?? NO_ROOM_MS)]);
      if (this.travel.left.aborted) throw new Left();
      if (await divide(file)) throw new Replaced();
      return await this.#forgo();
    }
    const lines = new Set(errors.flatMap(({ line }) => line ?? []));
    const isOfLines = errors.every(({ code, line }) => line !== null && !OF_ALL.test(code));
    if (isOfLines && lines.size > 0 && lines.size <= file.requests / 2 && !file.reduced) {
      say(
        `batch ${id}: ${first.message} (line ${first.line}); ${counted(lines.size, 'row')} of it will be called`,
      );
      await withoutLines(file, lines);
      throw new Replaced();
    }
    const where = first.line === null ? '' : ` (line ${first.line} of its input)`;
    throw new StopError(
      'batch_refused',
      `the service does not take the batch: ${first.message} (${first.code})${where}.`,
      'Mend what it names; or write service: { tier: { batch: 0s } }, and the same command calls the rows one by one.',
    );
  }

  async #fetch(): Promise<void> {
    const { file } = this;
    const { api, record } = this.travel;
    for (const [id, name] of [
      [file.output, outputName(file)],
      [file.errors, errorsName(file)],
    ] as const) {
      if (id === null) continue;
      for (;;) {
        const reply = await this.#download(api, id, record.pathOf(name));
        if (reply.kind === 'ok') break;
        if (reply.kind === 'missing') {
          await record.remove(name);
          break;
        }
        await this.#failed(reply);
      }
      this.#failingSince = null;
    }
    await syncFolder(record.folder);
    await record.note(file, { step: 'read' });
    await record.remove(file.name);
  }

  async #download(api: BatchApi, id: string, path: string): Promise<Reply<true>> {
    return await writing(path, async () => {
      const to = await open(path, 'w', 0o600);
      let failure: { readonly error: unknown } | null = null;
      let piece = '';
      const flush = async (): Promise<void> => {
        await to.appendFile(piece).catch((error: unknown) => {
          failure = { error };
          throw error;
        });
        piece = '';
      };
      try {
        let lines = 0;
        const reply = await api.content(id, async (line) => {
          // Each request has one line: what is beyond belongs to nobody.
          if (++lines > MOST_LINES * (this.file.requests + 1)) return false;
          piece += `${line}\n`;
          if (piece.length > PIECE) await flush();
          return true;
        });
        if (failure !== null) throw (failure as { readonly error: unknown }).error;
        await flush();
        await syncFile(to);
        return reply;
      } finally {
        await to.close();
      }
    });
  }

  /** Its rows are called one by one. */
  async #forgo(): Promise<void> {
    const { file } = this;
    const { api, record } = this.travel;
    const uploaded = file.file ?? (file.step === 'uploading' ? await this.#uploaded() : null);
    if (uploaded !== null) await api.removeFile(uploaded);
    await record.note(file, { step: 'cleared', file: null, most: NO_TOKENS });
    await record.remove(file.name);
  }

  async #uploaded(): Promise<string | null> {
    const { api } = this.travel;
    const found = await this.#find(api.files.bind(api), ({ name }) => name === this.file.name);
    return found?.kind === 'ok' ? found.value.id : null;
  }

  /**
   * Waits until it may be tried again.
   * @throws StopError when it will not pass, or when nothing has passed for long
   */
  async #failed({ kind, problem, retryAfterMs }: No, pauses = true): Promise<void> {
    if (this.travel.left.aborted) throw new Left();
    const hint =
      'Mend that, and the same command goes on; or write service: { tier: { batch: 0s } }, and it calls the rows one by one.';
    if (kind === 'stop' || kind === 'refused' || kind === 'missing')
      throw new StopError('batches_refused', `the service refuses batches: ${problem.message}.`, hint);
    const ms = this.#failingSince === null ? SOON_MS : AGAIN_MS;
    this.#failingSince ??= steadyNow();
    if (steadyNow() - this.#failingSince > this.travel.giveUpMs)
      throw new StopError(
        'service_unavailable',
        `nothing was answered for ${duration(this.travel.giveUpMs / 1000)}: ${problem.message}.`,
        hint,
      );
    if (pauses) await this.#pause(retryAfterMs ?? ms);
  }

  /** @param unless ends it early */
  async #pause(ms: number, unless: AbortSignal | null = null): Promise<void> {
    const { left } = this.travel;
    const signal = unless === null ? left : AbortSignal.any([left, unless]);
    await sleep(ms, undefined, { signal }).catch(() => {});
    if (left.aborted) throw new Left();
  }
}

const PIECE = 1024 * 1024;

/** Most lines of a result file, for each request: it may have no end. */
const MOST_LINES = 10;

/** Codes of what is the same in every line. */
const OF_ALL = /model|url|endpoint|method|deployment/;

const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'expired', 'cancelled']);

export const outputName = ({ name }: BatchFile): string => `${name}.output`;
export const errorsName = ({ name }: BatchFile): string => `${name}.errors`;
