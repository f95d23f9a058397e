import { createReadStream, existsSync, readdirSync, statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Settings } from '../config/settings.js';
import { UsageError } from '../core/errors.js';
import { count } from '../core/figures.js';
import { makePrivateFolder } from '../core/folder.js';
import type { Parameters, Prompt, Row } from '../core/model.js';
import { MOST_KEYS, OffsetIndex } from '../core/offset-index.js';
import { syncFolder, writeAside, writing } from '../output/writer.js';
import { idReader, type Key, type RowKeys, rowKeys } from '../prompt/reuse-keys.js';
import type { ServedEndpoint } from '../service/endpoint.js';
import type { EndpointSpec, Several } from '../service/endpoint-spec.js';
import type { Survey } from '../source/source.js';
import { OUTCOME_TTL_MS } from '../store/ledger.js';
import type { Manifest } from './manifest.js';
import {
  ANSWERED,
  answeredPath,
  cannotStore,
  isFinishedBy,
  OutcomeFile,
  OutcomeReader,
  type OutcomeSource,
  outcomesPath,
  type StoredOutcome,
  scan,
  takenOver,
} from './outcome-file.js';

/** Suffix of an unfinished copy; its name begins with the original's, so that the next try replaces it. */
const COPY = '.tmp';

export interface ReuseMatch {
  readonly keys: RowKeys;
  /** Null: the row is sent. */
  readonly source: OutcomeSource | null;
}

type Taken = Pick<StoredOutcome, 'outcome' | 'run'>;

export type KnownRow = Taken & Pick<ReuseMatch, 'keys'>;

interface ReuseParts {
  readonly settings: {
    readonly job: string;
    readonly stateDir: string;
    readonly reuse: Settings['reuse'];
    readonly parameters: Parameters;
    readonly endpoints: Several<{ readonly spec: EndpointSpec }>;
    readonly emulated: boolean;
  };
  /** In the order of the settings. */
  readonly endpoints: Several<ServedEndpoint>;
  /** `total`: rows that the run will have. */
  readonly input: { readonly survey: Survey; readonly total: number };
  readonly manifest: Pick<Manifest, 'run' | 'rows' | 'since' | 'sample' | 'retry'>;
  /** The run's former name: its outcomes are taken along. @default none */
  readonly from?: string | undefined;
  /** Most distinct requests remembered. @default {@link MOST_KEYS} */
  readonly most?: number;
}

/** Outcomes of another run. */
interface OtherRun {
  /** In messages. */
  readonly name: string;
  /** Null when its file is gone. */
  readonly reader: OutcomeReader | null;
  /** That no file before it has. */
  readonly rows: number;
}

/**
 * Finds rows that need not be called, and keeps outcomes for later rows of this run (`input.dedupe`), of the
 * job's next one (`input.only_new`), or of others over the same input (`reuse.keeps`).
 *
 * Outcomes go to their own file, synced before the manifest of the same commit: it never has less than the
 * manifest counts, and a resume cuts off the rest. If it is missing, rows are called.
 */
export class Reuse {
  private constructor(
    private readonly parts: ReuseParts,
    private readonly paths: { readonly own: string; readonly answered: string },
    private readonly keysOf: ReturnType<typeof rowKeys>,
    private readonly asked: OffsetIndex,
    /** Rows that other runs answered; instead of a row, a key has the number of its file. */
    private readonly answers: OffsetIndex,
    /** By the number of the file, from 1. */
    private readonly others: readonly OtherRun[],
    /** Null when the run was killed after giving its file the final name. */
    private readonly file: OutcomeFile | null,
    private readonly isNew: boolean,
  ) {}

  /**
   * @returns null for a job that reuses nothing
   * @throws UsageError when the state directory is not writable
   */
  static async open(parts: ReuseParts): Promise<Reuse | null> {
    const { settings, input, manifest, from } = parts;
    const { stateDir, reuse } = settings;
    const own = outcomesPath(stateDir, manifest.run);
    try {
      const places = reuse.keeps || reuse.known.length > 0;
      if (!reuse.dedupe && !reuse.onlyNew && !places) return null;
      makePrivateFolder(dirname(own));
      const { where, service } = placeOf(parts);
      const answered = answeredPath(stateDir, settings.job, where);
      const isNew = !existsSync(own);
      const before = from === undefined ? own : outcomesPath(stateDir, from);
      if (isNew && existsSync(before)) await copyAs([before], own);
      const lastRun = { name: 'the last run of this job', path: answered };
      const files = [...reuse.known, ...(reuse.onlyNew ? [lastRun] : [])];
      await sweep(dirname(own), [own, before, ...files.map(({ path }) => path)]);
      const keysOf = rowKeys({
        ...reuse,
        places,
        idOf: idReader(reuse.id, input.survey),
        parameters: settings.parameters,
        service,
      });
      // Both share the memory.
      const both = reuse.dedupe && files.length > 0;
      const most = (parts.most ?? MOST_KEYS) / (both ? 2 : 1);
      const answers = new OffsetIndex(most);
      const others: OtherRun[] = [];
      for (const { name, path } of files) {
        const reader = existsSync(path) ? new OutcomeReader(path) : null;
        const { size } = answers;
        if (reader !== null) {
          await scan(path, ({ row }, at) => {
            if (row !== null) answers.add(row, others.length + 1, at);
            return true;
          });
        }
        others.push({ name, reader, rows: answers.size - size });
      }
      const asked = new OffsetIndex(most);
      // Rows called again or reviewed since have other answers in the output than in the file.
      const { retried, merged_review: merged } = manifest.since ?? {};
      const isAmended = retried !== undefined || merged !== undefined;
      const last = reuse.onlyNew ? (others.at(-1)?.reader ?? null) : null;
      const isKept = last !== null && !existsSync(own) && isFinishedBy(last, manifest.run);
      const file = isKept
        ? null
        : await OutcomeFile.open(own, manifest.rows, ({ request, number }, at) => {
            if (request !== null && !isAmended) asked.add(request, number, at);
          });
      await syncFolder(dirname(own));
      return new Reuse(parts, { own, answered }, keysOf, asked, answers, others, file, isNew);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      throw cannotStore(stateDir, error);
    }
  }

  /** `200 rows are known from the sample` */
  get known(): readonly string[] {
    return this.others.map(({ name, rows }) => `${count(rows)} rows are known from ${name}`);
  }

  get isFull(): boolean {
    return this.asked.isFull || this.answers.isFull;
  }

  /** Call once for each row to be sent, in input order. */
  match(row: Row, prompt: Prompt, own: Parameters | null): ReuseMatch {
    const keys = this.keysOf(row, prompt, own);
    const found = this.#answerTo(keys.place) ?? this.#answerTo(keys.row);
    const first = keys.request === null ? null : this.asked.find(keys.request);
    // A carried row is still an original for later rows with the same request.
    if (keys.request !== null && first === null) this.asked.add(keys.request, row.number, null);
    if (typeof found?.at === 'number')
      return { keys, source: { kind: 'carried', file: found.row, at: found.at } };
    if (keys.request === null || first === null) return { keys, source: null };
    return { keys, source: { kind: 'copied', from: first.row, key: keys.request } };
  }

  /** Tells of rows, in input order and before `match` sees them, whether they need a call: batches are made ahead. */
  ahead(): (row: Row, prompt: Prompt, own: Parameters | null) => boolean {
    const seen = new OffsetIndex(this.parts.most, { offsets: false });
    return (row, prompt, own) => {
      const { place, row: id, request } = this.keysOf(row, prompt, own);
      if (typeof (this.#answerTo(place) ?? this.#answerTo(id))?.at === 'number') return false;
      if (request === null) return true;
      const first = this.asked.find(request) ?? seen.find(request);
      seen.add(request, row.number, null);
      return first === null || first.row === row.number;
    };
  }

  #answerTo(key: Key | null) {
    return key === null ? null : this.answers.find(key);
  }

  /** @param known rows of the commit so far: an original may be among them */
  take(source: OutcomeSource, known: ReadonlyMap<number, KnownRow>): Taken {
    if (source.kind === 'carried') {
      const { outcome, run, usage } = read(this.others[source.file - 1]?.reader ?? null, source.at);
      return { outcome: takenOver(outcome, { carried_from: run, ...(usage && { usage }) }), run };
    }
    const original = known.get(source.from) ?? read(this.file, this.asked.find(source.key)?.at);
    return {
      outcome: takenOver(original.outcome, { copied_from: source.from }),
      run: original.run,
    };
  }

  /**
   * Durable when it resolves.
   * @throws WriteError
   */
  async keep(known: ReadonlyMap<number, KnownRow>): Promise<void> {
    const kept: Omit<StoredOutcome, 'usage'>[] = [];
    for (const [number, { keys, ...taken }] of known) {
      const { request } = keys;
      const row = this.parts.settings.reuse.keeps ? keys.place : keys.row;
      const original = request !== null && this.asked.find(request)?.row === number;
      // A failed row is kept for its copies only: the next run tries it again.
      const answered = row !== null && taken.outcome.status !== 'failed';
      if (!original && !answered) continue;
      kept.push({ ...taken, number, row: answered ? row : null, request: original ? request : null });
    }
    const places = (await this.file?.append(kept)) ?? [];
    for (const [i, { request }] of kept.entries()) {
      const at = places[i];
      if (request !== null && at !== undefined) this.asked.settle(request, at);
    }
  }

  /** @throws WriteError */
  async finish(): Promise<void> {
    const { settings, input, manifest } = this.parts;
    const { stateDir, reuse } = settings;
    await this.#settle();
    // Rows called again are rows of the sample: their new answers come first.
    const sample = manifest.retry?.before.run ?? manifest.sample;
    if (sample === undefined || (!reuse.keeps && input.total < input.survey.rows)) return;
    const { own } = this.paths;
    const others = outcomesPath(stateDir, sample);
    const [to, gone] = manifest.retry === undefined ? [own, others] : [others, own];
    if (reuse.keeps) await copyAs([own, others], to);
    await rm(gone, { force: true });
  }

  /**
   * The run's answers replace those of the job's last run. A partial run (`--limit`) knows less, so it
   * replaces none and keeps its own file to go on with.
   */
  async #settle(): Promise<void> {
    const { settings, input, manifest } = this.parts;
    const { own, answered } = this.paths;
    if (this.file === null) return;
    if (settings.reuse.keeps) {
      await this.close();
      return;
    }
    if (input.total < input.survey.rows) {
      await this.close();
      if (settings.reuse.onlyNew && !existsSync(answered)) await copyAs([own], answered);
      return;
    }
    if (!settings.reuse.onlyNew) {
      await this.discard();
      return;
    }
    await this.file.finish(manifest.run);
    await writing(answered, async () => rename(own, answered));
    await syncFolder(dirname(answered));
  }

  /** The run does not begin: leaves no file that was not there before. */
  async abandon(): Promise<void> {
    if (this.isNew && this.file !== null) await this.discard();
    else await this.close();
  }

  /** Nothing will continue this run. */
  async discard(): Promise<void> {
    await this.close();
    await rm(this.paths.own, { force: true });
  }

  async close(): Promise<void> {
    await this.file?.close();
    for (const { reader } of this.others) reader?.close();
  }
}

/** @throws Error for a defect: every source is in a file, or was committed before */
function read(file: OutcomeReader | OutcomeFile | null, at: number | null | undefined): StoredOutcome {
  if (file === null || typeof at !== 'number')
    throw new Error('a row takes an outcome over that is not there');
  return file.at(at);
}

/** Renames the copy only when complete. @param from those that exist, one after the other @throws WriteError */
async function copyAs(from: readonly [string, ...string[]], to: string): Promise<void> {
  const copy = `${from[0]}${COPY}`;
  try {
    await writeAside(copy, bytesOf(from));
    await writing(to, async () => rename(copy, to));
  } catch (error) {
    // On a full disk half a copy takes the space that the next try needs.
    await rm(copy, { force: true }).catch(() => {});
    throw error;
  }
  await syncFolder(dirname(to));
}

async function* bytesOf(paths: readonly string[]): AsyncGenerator<Buffer> {
  for (const path of paths.filter((each) => existsSync(each)))
    yield* createReadStream(path, { highWaterMark: 1024 * 1024 });
}

/** Removes leftover copies, and outcomes of runs idle so long that the ledger dropped theirs, too. */
async function sweep(folder: string, own: readonly string[]): Promise<void> {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const isLeft = name.endsWith('.jsonl') ? !name.endsWith(ANSWERED) : name.endsWith(`.jsonl${COPY}`);
    if (own.includes(path) || !isLeft) continue;
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > OUTCOME_TTL_MS) await rm(path, { force: true });
  }
}

/** What must be the same for an outcome to be reused: every endpoint that may have answered. */
function placeOf({ settings, endpoints }: Pick<ReuseParts, 'settings' | 'endpoints'>) {
  const places = settings.endpoints.map(({ spec }, i) => {
    const { baseUrl, segment } = endpoints[i]?.address ?? {};
    const { operation, deployment, apiVersion, style } = spec;
    const where = settings.emulated ? null : `${baseUrl}/${segment}`;
    return [where, operation, deployment, apiVersion, style] as const;
  });
  // In any order they are the same.
  places.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  const [[where, ...others] = [null], second] = places;
  if (second === undefined) return { where, service: [where, ...others] };
  return { where: JSON.stringify(places.map(([each]) => each)), service: places };
}
