import { setTimeout as sleep } from 'node:timers/promises';
import type { CalledOutcome, Counters, Fault, Outcome, Row } from '../model.js';
import type { Committer } from '../resume/committer.js';
import type { RowKeys } from '../reuse/keys.js';
import { LEASE_MS, type Ledger } from '../store/ledger.js';
import type { Plan, RowRecord } from './plan.js';
import type { Reuse, Taken } from './reuse.js';
import { expected, type Window, type WindowChunk } from './window.js';

/** Pause between two looks at the ledger, and so the shortest time between two commits, in milliseconds. */
const LOOK_MS = 100;
/** Chunks looked at in one go. */
const LOOK_AHEAD = 256;
/** Rows in one commit, at most: bounds the text that is built in memory. */
const COMMIT_ROWS = 2_000;
/** The oldest chunk is looked after when nothing has come of it for this time, in milliseconds. */
const STUCK_MS = 5_000;
/** The same for a chunk that was taken apart: its rows go into the queue one after the other. */
const APART_MS = 250;

export interface CollectorParts {
  readonly run: string;
  readonly window: Window;
  readonly ledger: Ledger;
  readonly committer: Committer;
  /** The record of a row, and what the tally counts of it. */
  readonly recordOf: Plan['recordOf'];
  /** Has the outcomes of rows that were not sent, and keeps others for them; null for a job that reuses nothing. */
  readonly reuse: Pick<Reuse, 'take' | 'keep'> | null;
  /** Opens the run in the ledger, or renews its lease. */
  readonly open: () => Promise<void>;
  /** Looks after the oldest chunk when it is stuck. */
  readonly rescue: (head: WindowChunk) => Promise<'whole' | 'apart'>;
  /** True when the producer has added its last chunk. */
  readonly produced: () => boolean;
  /** Told after each look: rows on disk or known to the ledger. */
  readonly onProgress: (known: number) => void;
  /** A worker asked for the run to stop. */
  readonly onStop: (reason: Fault) => void;
  /** True when the run was halted and no call is in flight any more. */
  readonly drained: () => boolean;
}

/**
 * Reads the ledger in input order, appends to the output, and forgets what is safely on disk. Ends when every
 * row is on disk, or, once the run is halted and its calls have ended, when nothing more is complete.
 */
export async function collect(parts: CollectorParts): Promise<void> {
  const { window, committer } = parts;
  let renewAt = performance.now() + LEASE_MS / 4;
  let oldest = { first: 0, known: 0, since: performance.now(), patience: STUCK_MS };

  for (;;) {
    const last = parts.drained();
    const look = await lookAt(parts);
    if (look.opened) committer.count(look.calls);
    if (look.stop !== null) parts.onStop(look.stop);
    const rows = await commit(parts, look);
    parts.onProgress(committer.manifest.rows + look.known);
    if (rows === 0 && (last || (parts.produced() && window.empty))) return;

    const now = performance.now();
    const head = window.heads(1)[0];
    if (head?.first !== oldest.first || look.headKnown !== oldest.known) {
      const patience = head?.first === oldest.first ? oldest.patience : STUCK_MS;
      oldest = { first: head?.first ?? 0, known: look.headKnown, since: now, patience };
    } else if (head !== undefined && now - oldest.since > oldest.patience) {
      const patience = (await parts.rescue(head)) === 'apart' ? APART_MS : STUCK_MS;
      oldest = { ...oldest, since: now, patience };
    }
    if (now >= renewAt) {
      renewAt = now + LEASE_MS / 4;
      await parts.open();
    }
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
async function lookAt({ window, ledger, run }: CollectorParts): Promise<Look> {
  const heads = window.heads(LOOK_AHEAD);
  const called = heads.filter((chunk) => expected(chunk) > 0);
  const { counts, calls, opened, stop } = await ledger.progress(run, called.map(firstOf));
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
  const { ledger, run, committer, window, reuse } = parts;
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
    const ended = endOf(chunk, outcomes[i] ?? NO_OUTCOMES, parts, taken);
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
  { run, reuse }: Pick<CollectorParts, 'run' | 'reuse'>,
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
