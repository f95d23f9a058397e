import { setTimeout as sleep } from 'node:timers/promises';
import type { CalledOutcome, Fault, Outcome } from '../model.js';
import type { Committer, RowRecord } from '../resume/committer.js';
import type { RunLease } from '../resume/lease.js';
import type { KnownRow, Reuse } from '../reuse/reuse.js';
import type { Counters } from '../store/counters.js';
import type { Ledger } from '../store/ledger.js';
import type { RunEvents } from './events.js';
import type { Plan } from './plan.js';
import type { Rescue } from './rescue.js';
import type { Window, WindowChunk, WindowRow } from './window.js';

/** Pause between two looks at the ledger, and so the shortest time between two commits, in milliseconds. */
const LOOK_MS = 100;
/** Chunks looked at in one go. */
const LOOK_AHEAD = 256;
/** Rows in one commit, at most: bounds the text that is built in memory. */
const COMMIT_ROWS = 2_000;
interface CollectorParts {
  readonly window: Window;
  readonly ledger: Ledger;
  readonly lease: RunLease;
  readonly committer: Committer;
  /** The record of a row, and what the tally counts of it. */
  readonly recordOf: Plan['recordOf'];
  /** Has the outcomes of rows that were not sent, and keeps others for them; null for a job that reuses nothing. */
  readonly reuse: Pick<Reuse, 'take' | 'keep'> | null;
  /** Looks after the oldest chunk when it is stuck. */
  readonly rescue: Rescue;
  readonly events: RunEvents;
  /** A worker asked for the run to stop. */
  readonly stop: (reason: Fault) => void;
  /** Aborted when the run was halted and no call is in flight any more. */
  readonly drained: AbortSignal;
}

/**
 * Reads the ledger in input order, appends to the output, and forgets what is safely on disk. Ends when every
 * row is on disk, or, once the run is halted and its calls have ended, when nothing more is complete.
 */
export async function collect(parts: CollectorParts): Promise<void> {
  const { window, committer, lease, rescue, events, drained } = parts;
  let called = 0;
  const seen = new SeenOutcomes();
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
    if (rows === 0 && (last || window.done)) return;
    await rescue.looked(window.heads(1)[0], look.headKnown);
    await lease.keep();
    await committer.keepCounts();
    if (rows < COMMIT_ROWS / 2) await sleep(LOOK_MS);
  }
}

/** Outcomes of the chunks in view, and those that the store has lost since they were seen. */
class SeenOutcomes {
  #counts: ReadonlyMap<number, number> = new Map();
  #lost = 0;

  get lost(): number {
    return this.#lost;
  }

  /** @returns how many the ledger has now */
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
  /** Outcomes that the ledger has of a chunk. */
  readonly knownOf: (chunk: WindowChunk) => number;
  /** Outcomes that the ledger has of each chunk that was looked at, by its first row. */
  readonly counts: ReadonlyMap<number, number>;
  /** Rows that are known and stand behind a row that is not. */
  readonly known: number;
  /** Those of them that needed a call. */
  readonly called: number;
  /** Rows of the oldest incomplete chunk that are known. */
  readonly headKnown: number;
  readonly calls: Counters;
  readonly opened: boolean;
  readonly stop: Fault | null;
}

/** What the ledger knows of the oldest chunks. */
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
    // A row that takes an outcome over needs nothing of its own any more.
    known: rest.reduce((sum, chunk) => sum + knownOf(chunk) + chunk.rows.length - chunk.sent, 0),
    called: rest.reduce((sum, chunk) => sum + knownOf(chunk), 0),
    headKnown: head === undefined ? 0 : knownOf(head),
    calls,
    opened,
    stop,
  };
}

/**
 * Commit order: append, fsync, manifest, forget. A crash between any two of them loses and doubles nothing.
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
    // The store lost outcomes after it had counted them; they will be called again.
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
 * The records of a chunk; null when the ledger does not know of all its rows.
 * @param called what the ledger has of the chunk
 * @param known outcomes of the commit that rows behind them may take over; those of the chunk are added
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

/** How a row ended; undefined when the ledger does not know of it. */
function outcomeOf(
  { row, settled, looked }: WindowRow,
  called: ReadonlyMap<number, CalledOutcome>,
  known: Map<number, KnownRow>,
  run: string,
  reuse: CollectorParts['reuse'],
): Outcome | undefined {
  if (settled !== null) return settled;
  const outcome = called.get(row.number);
  if (looked === null || reuse === null) return outcome;
  // Before a source: an earlier execution that knew less of other rows has paid for it.
  const taken = outcome === undefined ? looked.source && reuse.take(looked.source, known) : { outcome, run };
  if (taken !== null) known.set(row.number, { ...taken, keys: looked.keys });
  return taken?.outcome;
}

const firstOf = (chunk: WindowChunk): number => chunk.first;
