import { setTimeout as sleep } from 'node:timers/promises';
import type { CalledOutcome, Fault, Outcome, Row } from '../model.js';
import type { Committer } from '../resume/committer.js';
import type { RunLease } from '../resume/lease.js';
import type { RowKeys } from '../reuse/keys.js';
import type { Reuse, Taken } from '../reuse/reuse.js';
import type { Counters } from '../store/counters.js';
import type { Ledger } from '../store/ledger.js';
import type { RunEvents } from './events.js';
import type { Plan, RowRecord } from './plan.js';
import type { Rescue } from './rescue.js';
import { expected, type Window, type WindowChunk } from './window.js';

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
  for (;;) {
    const last = drained.aborted;
    const look = await lookAt(parts);
    if (look.opened) committer.count(look.calls);
    if (look.stop !== null) parts.stop(look.stop);
    const rows = await commit(parts, look);
    const { manifest } = committer;
    events.emit({ type: 'rows settled', known: manifest.rows + look.known });
    if (rows === 0 && (last || window.done)) return;
    await rescue.looked(window.heads(1)[0], look.headKnown);
    await lease.keep();
    if (rows < COMMIT_ROWS / 2) await sleep(LOOK_MS);
  }
}

interface Look {
  readonly complete: readonly WindowChunk[];
  /** Rows that are known and stand behind a row that is not. */
  readonly known: number;
  /** Rows of the oldest incomplete chunk that are known. */
  readonly headKnown: number;
  readonly calls: Counters;
  readonly opened: boolean;
  readonly stop: Fault | null;
}

/** What the ledger knows of the oldest chunks. */
async function lookAt({ window, ledger, committer }: CollectorParts): Promise<Look> {
  const heads = window.heads(LOOK_AHEAD);
  const called = heads.filter((chunk) => expected(chunk) > 0);
  const { counts, calls, opened, stop } = await ledger.progress(committer.manifest.run, called.map(firstOf));
  const byChunk = new Map(called.map((chunk, i) => [chunk.first, counts[i] ?? 0]));
  const knownOf = (chunk: WindowChunk): number => byChunk.get(chunk.first) ?? 0;

  const complete: WindowChunk[] = [];
  let rows = 0;
  for (const chunk of heads) {
    if (knownOf(chunk) < expected(chunk)) break;
    if (rows > 0 && rows + chunk.rows.length > COMMIT_ROWS) break;
    rows += chunk.rows.length;
    complete.push(chunk);
  }
  const rest = heads.slice(complete.length);
  const head = rest[0];
  return {
    complete,
    // A row that takes an outcome over needs nothing of its own any more.
    known: rest.reduce((sum, chunk) => sum + knownOf(chunk) + chunk.settled.size + chunk.sources.size, 0),
    headKnown: head === undefined ? 0 : knownOf(head),
    calls,
    opened,
    stop,
  };
}

/**
 * Commit order: append, fsync, manifest, forget. A crash between any two of them loses and doubles nothing.
 * @returns rows committed
 */
async function commit(parts: CollectorParts, look: Look): Promise<number> {
  const { ledger, committer, window, reuse, events } = parts;
  const { run } = committer.manifest;
  const outcomes = await Promise.all(
    look.complete.map(async (chunk) =>
      expected(chunk) > 0 ? await ledger.outcomes({ run, first: chunk.first }) : NO_OUTCOMES,
    ),
  );
  const written: WindowChunk[] = [];
  const records: RowRecord[] = [];
  const taken = new Map<number, Taken>();
  const keys = new Map<number, RowKeys>();
  for (const [i, chunk] of look.complete.entries()) {
    const ended = endOf(chunk, outcomes[i] ?? NO_OUTCOMES, { run, reuse }, taken);
    // The store lost outcomes after it had counted them; they will be called again.
    if (ended === null) break;
    for (const [row, outcome] of ended) records.push(parts.recordOf(row, outcome));
    for (const [row, known] of chunk.keys) keys.set(row, known);
    written.push(chunk);
  }
  if (written.length === 0) return 0;
  await committer.commit({
    text: records.map((record) => record.text).join(''),
    ended: records,
    ...(reuse !== null && { keep: () => reuse.keep(keys, taken) }),
  });
  await ledger.forget(
    run,
    committer.manifest.rows,
    written.filter((chunk) => expected(chunk) > 0).map(firstOf),
  );
  window.release(written.length);
  const { tally, bytes } = committer.manifest;
  events.emit({ type: 'committed', rows: tally.rows, bytes });
  return records.length;
}

const NO_OUTCOMES: ReadonlyMap<number, CalledOutcome> = new Map();

/**
 * How the rows of a chunk ended; null when the ledger does not know of all.
 * @param called what the ledger has of the chunk
 * @param taken outcomes of the commit that rows behind them may take over; those of the chunk are added
 */
function endOf(
  chunk: WindowChunk,
  called: ReadonlyMap<number, CalledOutcome>,
  { run, reuse }: { readonly run: string; readonly reuse: CollectorParts['reuse'] },
  taken: Map<number, Taken>,
): readonly (readonly [Row, Outcome])[] | null {
  const ended: [Row, Outcome][] = [];
  for (const row of chunk.rows) {
    const settled = chunk.settled.get(row.number);
    if (settled !== undefined) {
      ended.push([row, settled]);
      continue;
    }
    // Before a source: an earlier execution that knew less of other rows has paid for it.
    const own = called.get(row.number);
    const source = chunk.sources.get(row.number);
    if (own !== undefined) taken.set(row.number, { outcome: own, run });
    else if (source !== undefined && reuse !== null) taken.set(row.number, reuse.take(source, taken));
    const outcome = taken.get(row.number)?.outcome;
    if (outcome === undefined) return null;
    ended.push([row, outcome]);
  }
  return ended;
}

const firstOf = (chunk: WindowChunk): number => chunk.first;
