import type { Counters } from '../core/counters.js';
import type { CalledOutcome, Outcome, Problem } from '../core/model.js';
import type { Committer, RowRecord } from '../resume/committer.js';
import type { RunLease } from '../resume/lease.js';
import type { KnownRow, Reuse } from '../resume/reuse.js';
import type { Ledger } from '../store/ledger.js';
import type { RunEvents } from './events.js';
import type { Plan } from './plan.js';
import type { Requeuer } from './requeuer.js';
import type { Window, WindowChunk, WindowRow } from './window.js';

/** Least time between two looks at the ledger, and so between two commits, in ms; {@link LookTimer} has the exceptions. */
const LOOK_MS = 100;
/** Most time between two looks at a ledger that no other process writes to, in ms. */
const IDLE_MS = 250;
const LOOK_AHEAD = 256;
/** Most rows in one commit: bounds the text built in memory. */
const COMMIT_ROWS = 2_000;

interface CollectorParts {
  readonly window: Window;
  readonly ledger: Pick<Ledger, 'isShared' | 'settled' | 'progress' | 'outcomes' | 'forget'>;
  readonly lease: Pick<RunLease, 'keep'>;
  readonly committer: Pick<Committer, 'manifest' | 'count' | 'saw' | 'commit' | 'keepCounts'>;
  readonly recordOf: Plan['recordOf'];
  /** Outcomes of rows that were not sent; null for a job that reuses nothing. */
  readonly reuse: Pick<Reuse, 'take' | 'keep'> | null;
  readonly requeuer: Pick<Requeuer, 'onProgress'>;
  readonly events: RunEvents;
  readonly stop: (reason: Problem) => void;
  /** Aborts when the run was halted and no call is in flight any more. */
  readonly drained: AbortSignal;
}

/**
 * Reads the ledger in input order, appends to the output, and forgets what is safely on disk. Ends when every
 * row is on disk, or, after a halt and the end of all calls, when no further chunk is complete.
 */
export async function collect(parts: CollectorParts): Promise<void> {
  const { window, committer, lease, requeuer, events, drained } = parts;
  let called = 0;
  const seen = new SeenOutcomes();
  const timer = new LookTimer(parts);
  for (;;) {
    const last = drained.aborted;
    const look = await lookAt(parts);
    if (look.opened) committer.count(look.calls);
    committer.saw(seen.look(look.counts), seen.lost);
    if (look.stop !== null) parts.stop(look.stop);
    const { rows, sent } = await commit(parts, look);
    called += sent;
    events.emit({
      type: 'rows settled',
      known: committer.manifest.rows + look.known,
      called: called + look.called,
      toCall: window.sent - look.called,
    });
    if (window.done || (rows === 0 && last)) return;
    await requeuer.onProgress(window.heads(1)[0], look.headKnown);
    await lease.keep();
    await committer.keepCounts();
    if (rows < COMMIT_ROWS / 2) await timer.wait(look.called);
  }
}

/**
 * Waits between two looks at the ledger: a tenth of a second, so that a commit has many rows, but not once this process
 * has settled all rows that the commit could have. Rows that others settle are found by the clock.
 */
class LookTimer {
  /** Rows that this process has settled since the last look. */
  #settled = 0;
  #isNews = false;
  #wake = (): void => {};

  constructor(private readonly parts: Pick<CollectorParts, 'window' | 'ledger' | 'committer' | 'drained'>) {
    const { window, ledger, committer, drained } = parts;
    const onNews = (): void => {
      this.#isNews = true;
      this.#wake();
    };
    ledger.settled.listen(committer.manifest.run, () => {
      this.#settled++;
      onNews();
    });
    window.onChange(onNews);
    drained.addEventListener('abort', onNews, { once: true });
  }

  /** @param known sent rows in the window whose outcome the last look has found */
  async wait(known: number): Promise<void> {
    const { window, ledger, drained } = this.parts;
    const isAll = (): boolean =>
      this.#isNews && (drained.aborted || (window.isStill && known + this.#settled >= window.sent));
    await this.#until(isAll, LOOK_MS);
    if (!ledger.isShared) await this.#until(() => this.#isNews || drained.aborted, IDLE_MS - LOOK_MS);
    this.#settled = 0;
    this.#isNews = false;
  }

  async #until(isEnough: () => boolean, mostMs: number): Promise<void> {
    let isOver = false;
    const timer = setTimeout(() => {
      isOver = true;
      this.#wake();
    }, mostMs);
    while (!isOver && !isEnough()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    clearTimeout(timer);
  }
}

class SeenOutcomes {
  #counts: ReadonlyMap<number, number> = new Map();
  #lost = 0;

  get lost(): number {
    return this.#lost;
  }

  look(counts: ReadonlyMap<number, number>): number {
    let sum = 0;
    for (const [first, known] of counts) {
      this.#lost += Math.max(0, (this.#counts.get(first) ?? 0) - known);
      sum += known;
    }
    this.#counts = counts;
    return sum;
  }
}

interface Look {
  readonly complete: readonly WindowChunk[];
  readonly knownOf: (chunk: WindowChunk) => number;
  /** Outcomes that the ledger has, by the first row of the chunk. */
  readonly counts: ReadonlyMap<number, number>;
  /** Rows with an outcome, behind a row without one. */
  readonly known: number;
  readonly called: number;
  readonly headKnown: number;
  readonly calls: Counters;
  readonly opened: boolean;
  readonly stop: Problem | null;
}

async function lookAt({ window, ledger, committer }: CollectorParts): Promise<Look> {
  const heads = window.heads(LOOK_AHEAD);
  const called = heads.filter((chunk) => chunk.sent > 0);
  const { counts, calls, opened, stop } = await ledger.progress(committer.manifest.run, called.map(firstOf));
  const byChunk = new Map(called.map((chunk, i) => [chunk.first, counts[i] ?? 0]));
  const knownOf = (chunk: WindowChunk): number => byChunk.get(chunk.first) ?? 0;

  const complete: WindowChunk[] = [];
  let rows = 0;
  for (const chunk of heads) {
    if (knownOf(chunk) < chunk.sent) break;
    if (rows > 0 && rows + chunk.rows.length > COMMIT_ROWS) break;
    rows += chunk.rows.length;
    complete.push(chunk);
  }
  const rest = heads.slice(complete.length);
  const head = rest[0];
  return {
    complete,
    knownOf,
    counts: byChunk,
    // A row that reuses an outcome is not sent, so it counts as known.
    known: rest.reduce((sum, chunk) => sum + knownOf(chunk) + chunk.rows.length - chunk.sent, 0),
    called: rest.reduce((sum, chunk) => sum + knownOf(chunk), 0),
    headKnown: head === undefined ? 0 : knownOf(head),
    calls,
    opened,
    stop,
  };
}

/**
 * Commit order: append, fsync, manifest, forget. A crash between any two steps loses and doubles nothing.
 * @returns rows committed, and those of them that needed a call
 */
async function commit(parts: CollectorParts, look: Look): Promise<{ rows: number; sent: number }> {
  const { ledger, committer, window, reuse, events } = parts;
  const { run } = committer.manifest;
  const outcomes = await Promise.all(
    look.complete.map(async (chunk) =>
      chunk.sent > 0 ? await ledger.outcomes({ run, first: chunk.first }, look.knownOf(chunk)) : NO_OUTCOMES,
    ),
  );
  const written: WindowChunk[] = [];
  const records: RowRecord[] = [];
  const known = new Map<number, KnownRow>();
  for (const [i, chunk] of look.complete.entries()) {
    const next = recordsOf(chunk, outcomes[i] ?? NO_OUTCOMES, known, run, parts);
    // The store lost outcomes after it had counted them: their rows will be called again.
    if (next === null) break;
    for (const record of next) records.push(record);
    written.push(chunk);
  }
  if (written.length === 0) return { rows: 0, sent: 0 };
  await committer.commit(records, async () => reuse?.keep(known));
  await ledger.forget(run, committer.manifest.rows, written.filter((chunk) => chunk.sent > 0).map(firstOf));
  window.release(written.length);
  const { tally, bytes } = committer.manifest;
  events.emit({ type: 'committed', rows: tally.rows, bytes });
  return { rows: records.length, sent: written.reduce((sum, chunk) => sum + chunk.sent, 0) };
}

const NO_OUTCOMES: ReadonlyMap<number, CalledOutcome> = new Map();

/**
 * Null when the ledger lacks outcomes of the chunk.
 * @param known outcomes of this commit that later rows may reuse; those of the chunk are added
 */
function recordsOf(
  chunk: WindowChunk,
  called: ReadonlyMap<number, CalledOutcome>,
  known: Map<number, KnownRow>,
  run: string,
  { recordOf, reuse }: Pick<CollectorParts, 'recordOf' | 'reuse'>,
): readonly RowRecord[] | null {
  const records: RowRecord[] = [];
  for (const each of chunk.rows) {
    const outcome = outcomeOf(each, called, known, run, reuse);
    if (outcome === undefined) {
      for (const { row } of chunk.rows) known.delete(row.number);
      return null;
    }
    records.push(recordOf(each.row, outcome));
  }
  return records;
}

function outcomeOf(
  { row, settled, looked }: WindowRow,
  called: ReadonlyMap<number, CalledOutcome>,
  known: Map<number, KnownRow>,
  run: string,
  reuse: CollectorParts['reuse'],
): Outcome | undefined {
  // An earlier execution may have called what is known now.
  const outcome = called.get(row.number) ?? settled ?? undefined;
  if (looked === null || reuse === null || outcome?.status === 'skipped') return outcome;
  // Comes before a source: an earlier execution that had not found the source has paid for this outcome.
  const taken = outcome === undefined ? looked.source && reuse.take(looked.source, known) : { outcome, run };
  if (taken !== null) known.set(row.number, { ...taken, keys: looked.keys });
  return taken?.outcome;
}

const firstOf = (chunk: WindowChunk): number => chunk.first;
