import { within } from '../../core/clock.js';
import { clipped, count, moment } from '../../core/figures.js';
import type { FailedEntry, QueueView } from '../../queue/queue-views.js';
import { type Section, section, type Table, text } from '../../render/document.js';
import { escapeControls } from '../../render/terminal-text.js';

/** Entries change less often than rows, and each look asks for up to 20 queues. */
const FRESH_MS = 2_000;
/** The first look is waited for, so that a page is whole when it opens. */
const FIRST_MS = 500;

/** Characters of an id or a reason: others can write into a store (fault 85). */
const TEXT_LENGTH = 200;

/** A queue as it was seen. */
interface SeenQueue {
  readonly name: string;
  readonly depth: Awaited<ReturnType<QueueView['depth']>>;
  /** Null when they cannot be read. */
  readonly failed: readonly FailedEntry[] | null;
}

/** Looks at the queues once for all viewers. */
export class QueueWatch {
  #seen: readonly SeenQueue[] | null = null;
  #seenAt = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | null = null;

  constructor(private readonly views: () => Promise<readonly QueueView[]>) {}

  /** What was seen last, null before the first look. Nobody waits for a later one: the store may be away. */
  async latest(): Promise<readonly SeenQueue[] | null> {
    if (performance.now() - this.#seenAt > FRESH_MS)
      this.#looking ??= this.#look()
        // The next one tries again.
        .catch(() => {})
        .finally(() => {
          this.#looking = null;
        });
    if (this.#seen === null && this.#looking !== null) await within(FIRST_MS, this.#looking).catch(() => {});
    return this.#seen;
  }

  async #look(): Promise<void> {
    const looks = await Promise.allSettled((await this.views()).map(seenIn));
    // A queue that cannot be read is left out: it was closed meanwhile, or its keys are not a queue's.
    this.#seen = looks.flatMap((look) => (look.status === 'fulfilled' ? [look.value] : []));
    this.#seenAt = performance.now();
  }
}

async function seenIn(view: QueueView): Promise<SeenQueue> {
  const depth = await view.depth();
  // Somebody else's entries may be unreadable; their number is known all the same.
  return { name: view.name, depth, failed: depth.failed === 0 ? [] : await view.failed().catch(() => null) };
}

/** @param seen null before the first look */
export function queueSections(seen: readonly SeenQueue[] | null): readonly Section[] {
  if (seen === null) return [];
  if (seen.length === 0) return withoutQueues('No run has a queue there yet.');
  const failed = failedTable(seen);
  const unreadable = seen.filter((queue) => queue.failed === null).map(({ name }) => name);
  const shownFailed = [
    ...(failed.rows.length === 0 ? [] : [failed]),
    ...(unreadable.length === 0 ? [] : [text(unreadableText(unreadable), { style: 'muted' })]),
  ];
  return [
    section('queues', 'Queues', [depthTable(seen)]),
    ...(shownFailed.length === 0 ? [] : [section('failed', 'Failed entries', shownFailed)]),
  ];
}

const unreadableText = (names: readonly string[]): string =>
  `The failed entries of ${names.join(', ')} cannot be read: one of them is damaged, or not of Promptmill.`;

function withoutQueues(why: string): readonly Section[] {
  return [section('queues', 'Queues', [text(why, { style: 'muted' })])];
}

export const EMBEDDED_QUEUES = withoutQueues(
  'With the embedded store each run has its queue inside its own process, where only that run sees it.',
);

const depthTable = (seen: readonly SeenQueue[]): Table => ({
  kind: 'table',
  caption: 'Entries of each queue',
  columns: [
    { name: 'Queue', isLong: true },
    ...['Waiting', 'Active', 'Delayed', 'Failed'].map((name) => ({ name, isNumber: true })),
  ],
  rows: seen.map(({ name, depth: { waiting, prioritized, active, delayed, failed } }) => ({
    cells: [name, ...[waiting + prioritized, active, delayed, failed].map(count)],
  })),
});

const failedTable = (seen: readonly SeenQueue[]): Table => ({
  kind: 'table',
  caption: 'The latest failed entries of each queue',
  columns: [
    { name: 'Queue', isLong: true },
    { name: 'Entry', isLong: true },
    { name: 'Rows', isNumber: true },
    { name: 'Failed at' },
    { name: 'Reason', isLong: true },
  ],
  rows: seen.flatMap(({ name, failed }) =>
    (failed ?? []).map(({ id, rows, at, reason }) => ({
      cells: [
        name,
        shown(id),
        rows === null ? '–' : `${count(rows[0])}–${count(rows[1])}`,
        at === null ? '–' : moment(new Date(at).toISOString()),
        reason === null ? 'An error whose text may quote a row, so it is not shown' : shown(reason),
      ],
    })),
  ),
});

const shown = (words: string): string => escapeControls(clipped(words, TEXT_LENGTH));
