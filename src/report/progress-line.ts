import { count, duration, rate } from '../figures.js';
import { cells, clip, plain } from './terminal-text.js';

/** What a progress line tells. */
export interface ProgressView {
  /** Rows of the input. */
  readonly total: number;
  /** Rows whose outcome is known, those of earlier executions included. */
  readonly done: number;
  /** What is counted, where it is not the rows of a run. */
  readonly unit?: string | undefined;
  /** Calls under way; `null` where nothing is called. */
  readonly inFlight: number | null;
  /** Rows that ended `failed`. */
  readonly failed: number;
  /** What the run waits for, in words; while it waits, rate and time left would mean nothing. */
  readonly waiting: string | null;
  /** Rows per second; `null` while it is not known. */
  readonly rate: number | null;
}

/** A piece of the bar line; where room is short, the pieces of lowest importance give way. */
interface Piece {
  readonly text: string;
  /** 1 is the most important. */
  readonly importance: number;
}

const GAP = '  ';

/** Fewer cells than `least` show nothing, more than `most` show nothing more. */
const BAR = { least: 8, most: 30 } as const;

/** For logs: `12,000 / 100,000 rows  12 %  850/s  about 1 min 43 s left  50 in flight  3 failed`. */
export function plainLine(view: ProgressView): string {
  const left = timeLeft(view);
  return [
    `${rowsDone(view)} ${view.unit ?? 'rows'}`,
    percentDone(view),
    ...(view.rate === null || view.waiting !== null ? [] : [rate(view.rate)]),
    ...(left === null ? [] : [`about ${left} left`]),
    ...(view.waiting === null ? [] : [plain(view.waiting)]),
    ...(view.inFlight === null ? [] : [`${count(view.inFlight)} in flight`]),
    ...(view.inFlight === null && view.failed === 0 ? [] : [`${count(view.failed)} failed`]),
  ].join(GAP);
}

/** For a terminal: the same behind a bar, in at most `width` cells. */
export function barLine(view: ProgressView, width: number): string {
  const left = timeLeft(view);
  const percent = percentDone(view);
  const bar: Piece = { text: ' '.repeat(BAR.least), importance: 6 };
  const pieces: readonly Piece[] = [
    bar,
    { text: percent, importance: 1 },
    { text: view.unit === undefined ? rowsDone(view) : `${rowsDone(view)} ${view.unit}`, importance: 3 },
    { text: view.rate === null || view.waiting !== null ? '' : rate(view.rate), importance: 7 },
    { text: left === null ? '' : `${left} left`, importance: 4 },
    // The reason for standing still is shown in part rather than not at all.
    {
      text: clip(plain(view.waiting ?? ''), Math.max(1, width - cells(percent) - GAP.length)),
      importance: 2,
    },
    { text: view.inFlight === null ? '' : `${count(view.inFlight)} in flight`, importance: 8 },
    { text: view.failed === 0 ? '' : `${count(view.failed)} failed`, importance: 5 },
  ].filter(({ text }) => text !== '');

  let room = width + GAP.length;
  const kept = new Set<Piece>();
  for (const piece of pieces.toSorted((a, b) => a.importance - b.importance)) {
    const taken = cells(piece.text) + GAP.length;
    if (taken > room) break;
    room -= taken;
    kept.add(piece);
  }
  const draw = (piece: Piece) => (piece === bar ? drawnBar(view, BAR.least + room) : piece.text);
  return pieces
    .filter((piece) => kept.has(piece))
    .map(draw)
    .join(GAP);
}

function drawnBar(view: ProgressView, room: number): string {
  const length = Math.min(BAR.most, room);
  const full = Math.floor(fractionDone(view) * length);
  return '█'.repeat(full) + '░'.repeat(length - full);
}

const rowsDone = ({ done, total }: ProgressView): string => `${count(done)} / ${count(total)}`;

/** Rounded down: 100 % only when every row is done. */
const percentDone = (view: ProgressView): string => `${Math.floor(fractionDone(view) * 100)} %`;

const fractionDone = ({ done, total }: ProgressView): number => (total === 0 ? 1 : Math.min(1, done / total));

function timeLeft({ total, done, waiting, rate: perSecond }: ProgressView): string | null {
  if (waiting !== null || perSecond === null || perSecond === 0 || done >= total) return null;
  return duration(Math.ceil((total - done) / perSecond));
}
