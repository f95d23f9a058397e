import { count, duration, rate } from '../core/figures.js';
import { asStarted } from '../core/started.js';
import { cells, clip, escapeControls, type Paint } from './terminal-text.js';

export interface ProgressView {
  readonly total: number;
  /** Rows with a known outcome, including earlier executions. */
  readonly done: number;
  readonly unit?: string | undefined;
  /** `null` if nothing is called. */
  readonly inFlight: number | null;
  readonly failed: number;
  /** Completed rows with an invalid answer. @default 0 */
  readonly invalid?: number;
  /** In words. While the run waits, rate and time left mean nothing. */
  readonly waiting: string | null;
  /** Rows per second; `null` while unknown. */
  readonly rate: number | null;
  /** `null` while unknown. */
  readonly secondsLeft: number | null;
}

/** Where room is short, the least important pieces are dropped. An empty piece is not shown. */
export interface Piece {
  readonly text: string;
  /** 1 is the most important. */
  readonly importance: number;
  /** @default unstyled */
  readonly style?: Parameters<Paint>[0];
  /** Draws a bar instead of the text, filled to this fraction; the text gives its minimum length. */
  readonly full?: number;
  /** Cells of a bar if there is room. @default the length of its text */
  readonly most?: number;
}

const GAP = '  ';

/** Cells: shorter shows nothing, longer nothing more. */
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
    asStarted(escapeControls(view.waiting ?? '')),
    inFlightText(view),
    view.inFlight === null && view.failed === 0 ? '' : `${count(view.failed)} failed`,
    invalidText(view),
  ]
    .filter((text) => text !== '')
    .join(GAP);
}

/** For a terminal: the same after a bar, in at most `width` cells. */
export function barLine(view: ProgressView, width: number): string {
  const percent = percentDone(view);
  const left = timeLeft(view);
  const pieces: readonly Piece[] = [
    { ...bar(fractionDone(view), 6, BAR.least), most: BAR.most },
    { text: percent, importance: 1 },
    { text: view.unit === undefined ? rowsDone(view) : `${rowsDone(view)} ${view.unit}`, importance: 3 },
    { text: rateText(view), importance: 7 },
    { text: left && `${left} left`, importance: 4 },
    // A reason for waiting that is too long is cut, not dropped.
    {
      text: clip(
        asStarted(escapeControls(view.waiting ?? '')),
        Math.max(1, width - cells(percent) - GAP.length),
      ),
      importance: 2,
    },
    { text: inFlightText(view), importance: 8 },
    { text: view.failed === 0 ? '' : `${count(view.failed)} failed`, importance: 5 },
    { text: invalidText(view), importance: 5 },
  ];
  return fitted(pieces, width);
}

/** @param full fraction from 0 to 1 */
export const bar = (full: number, importance: number, length: number): Piece => ({
  text: ' '.repeat(length),
  importance,
  full,
});

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

/** Empty if unknown. */
export const timeLeft = ({ total, done, waiting, secondsLeft }: ProgressView): string =>
  waiting !== null || secondsLeft === null || done >= total ? '' : duration(Math.ceil(secondsLeft));
