import { count, duration, rate } from '../figures.js';
import { asStarted } from '../started.js';
import { cells, clip, type Paint, plain } from './terminal-text.js';

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
  /** Completed rows whose answer is invalid. @default 0 */
  readonly invalid?: number;
  /** What the run waits for, in words; while it waits, rate and time left would mean nothing. */
  readonly waiting: string | null;
  /** Rows per second; `null` while it is not known. */
  readonly rate: number | null;
  /** Seconds until all is done; `null` while it is not known. */
  readonly secondsLeft: number | null;
}

/** A piece of a line; where room is short, the pieces of lowest importance give way. An empty one is none. */
export interface Piece {
  readonly text: string;
  /** 1 is the most important. */
  readonly importance: number;
  /** @default as it is */
  readonly style?: Parameters<Paint>[0];
  /** A bar in place of the text, which stands for the least of it: so much of it is full. */
  readonly full?: number;
  /** Cells that a bar takes at most, where there is room. @default those of its text */
  readonly most?: number;
}

const GAP = '  ';

/** Fewer cells than `least` show nothing, more than `most` show nothing more. */
export const BAR = { least: 8, most: 30 } as const;

const unpainted: Paint = (_style, text) => text;

/** For logs: `12,000 / 100,000 rows known  12 %  850/s  about 1 min 43 s left  50 in flight  3 failed  7 invalid`. */
export function plainLine(view: ProgressView): string {
  const left = timeLeft(view);
  return [
    `${rowsDone(view)} ${view.unit ?? 'rows known'}`,
    percentDone(view),
    rateText(view),
    left && `about ${left} left`,
    asStarted(plain(view.waiting ?? '')),
    inFlightText(view),
    view.inFlight === null && view.failed === 0 ? '' : `${count(view.failed)} failed`,
    invalidText(view),
  ]
    .filter((text) => text !== '')
    .join(GAP);
}

/** For a terminal: the same behind a bar, in at most `width` cells. */
export function barLine(view: ProgressView, width: number): string {
  const percent = percentDone(view);
  const left = timeLeft(view);
  const pieces: readonly Piece[] = [
    { ...bar(fractionDone(view), 6, BAR.least), most: BAR.most },
    { text: percent, importance: 1 },
    { text: view.unit === undefined ? rowsDone(view) : `${rowsDone(view)} ${view.unit}`, importance: 3 },
    { text: rateText(view), importance: 7 },
    { text: left && `${left} left`, importance: 4 },
    // The reason for standing still is shown in part rather than not at all.
    {
      text: clip(asStarted(plain(view.waiting ?? '')), Math.max(1, width - cells(percent) - GAP.length)),
      importance: 2,
    },
    { text: inFlightText(view), importance: 8 },
    { text: view.failed === 0 ? '' : `${count(view.failed)} failed`, importance: 5 },
    { text: invalidText(view), importance: 5 },
  ];
  return fitted(pieces, width);
}

/** @param full the part of it that is full */
export const bar = (full: number, importance: number, length: number): Piece => ({
  text: ' '.repeat(length),
  importance,
  full,
});

/** As many of the pieces as fit into a width, in their order; a bar that may be longer takes the rest. */
export function fitted(pieces: readonly Piece[], width: number, paint: Paint = unpainted): string {
  let room = width + GAP.length;
  const kept = new Set<Piece>();
  const shown = pieces.filter(({ text }) => text !== '');
  for (const piece of shown.toSorted((a, b) => a.importance - b.importance)) {
    const taken = cells(piece.text) + GAP.length;
    if (taken > room) break;
    room -= taken;
    kept.add(piece);
  }
  const draw = ({ text, style, full, most = 0 }: Piece): string => {
    const length = Math.max(text.length, Math.min(most, text.length + room));
    if (full !== undefined) return drawnBar(full, length, paint);
    return style === undefined ? text : paint(style, text);
  };
  return shown
    .filter((piece) => kept.has(piece))
    .map(draw)
    .join(GAP);
}

/** A bar of so many cells. */
export function drawnBar(fraction: number, length: number, paint: Paint = unpainted): string {
  const full = Math.floor(Math.min(1, fraction) * length);
  return paint('green', '█'.repeat(full)) + paint('dim', '░'.repeat(length - full));
}

const rateText = (view: ProgressView): string =>
  view.rate === null || view.waiting !== null ? '' : rate(view.rate);

export const inFlightText = ({ inFlight }: ProgressView): string =>
  inFlight === null ? '' : `${count(inFlight)} in flight`;

const invalidText = ({ invalid = 0 }: ProgressView): string =>
  invalid === 0 ? '' : `${count(invalid)} invalid`;

export const rowsDone = ({ done, total }: ProgressView): string => `${count(done)} / ${count(total)}`;

/** Rounded down: 100 % only when every row is done. */
export const percentDone = (view: ProgressView): string => `${Math.floor(fractionDone(view) * 100)} %`;

export const fractionDone = ({ done, total }: ProgressView): number =>
  total === 0 ? 1 : Math.min(1, done / total);

/** Empty where nothing can be said. */
export const timeLeft = ({ total, done, waiting, secondsLeft }: ProgressView): string =>
  waiting !== null || secondsLeft === null || done >= total ? '' : duration(Math.ceil(secondsLeft));
