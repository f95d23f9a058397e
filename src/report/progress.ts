import { createRequire } from 'node:module';
import type { MultiBar, Options } from 'cli-progress';
import { count, duration, rate } from '../figures.js';
import { type RateWindow, rateOf, sampled } from './rate.js';
import { cells, clip, plain, words } from './terminal-text.js';

const require = createRequire(import.meta.url);

/** What changes while a run goes on. */
type ProgressUpdate = Pick<ProgressView, 'done' | 'failed' | 'invalid'> & {
  /** Calls under way. @default 0 */
  readonly inFlight?: number;
  /** What the run waits for, in words: "waiting for the service until 10:42:05". @default null */
  readonly waiting?: string | null;
};

/** Shows a person how a run gets on. */
export interface ProgressDisplay {
  /** Takes the current figures; they are shown when the next line is due. Cheap enough for every row. */
  update(now: ProgressUpdate): void;
  /** Prints a line at once, above the bar. */
  note(message: string): void;
  /** Removes the bar. Nothing is printed after it. */
  stop(): void;
}

interface ProgressOptions {
  /** Where to print: standard error. */
  readonly stream: NodeJS.WritableStream & { readonly columns?: number };
  /** A bar instead of lines; the stream must be a terminal that obeys escape codes. */
  readonly isTTY: boolean;
  /** Rows of the input. */
  readonly total: number;
  /** What is counted, where it is not the rows of a run: then nothing is called either. */
  readonly unit?: string;
  /** Rows that earlier executions of the run have done. */
  readonly done: number;
  /** Print nothing at all. */
  readonly quiet: boolean;
  /** Milliseconds between two lines where there is no bar. @default 5000 */
  readonly everyMs?: number;
}

/** Redraws of the bar per second: enough to look alive, little to send over a slow line. */
const REDRAWS = 5;

/** Where nothing moves, a line a minute says that the run is alive. */
const UNCHANGED_MS = 60_000;

export function startProgress(options: ProgressOptions): ProgressDisplay {
  if (options.quiet) return { update: () => {}, note: () => {}, stop: () => {} };
  const gauge = new Gauge(options.total, options.done, options.unit);
  return options.isTTY ? startBar(options, gauge) : startLines(options, gauge);
}

/** The figures of the run, and the rate that follows from them. */
class Gauge {
  #now: ProgressUpdate;
  #window: RateWindow;

  constructor(
    private readonly total: number,
    done: number,
    private readonly unit?: string,
  ) {
    this.#now = { done, failed: 0 };
    this.#window = sampled([], { at: performance.now(), done });
  }

  set(now: ProgressUpdate): void {
    this.#now = now;
  }

  /** Samples the rate as well: every line is a sample, so a run that stands still slows down on the display. */
  read(): ProgressView {
    this.#window = sampled(this.#window, { at: performance.now(), done: this.#now.done });
    const { inFlight = 0, ...now } = this.#now;
    return {
      waiting: null,
      ...now,
      inFlight: this.unit === undefined ? inFlight : null,
      total: this.total,
      unit: this.unit,
      rate: rateOf(this.#window),
    };
  }
}

function startLines({ stream, everyMs = 5000 }: ProgressOptions, gauge: Gauge): ProgressDisplay {
  let shown = { ...gauge.read(), at: performance.now() };
  const timer = setInterval(() => {
    const view = gauge.read();
    const at = performance.now();
    const same = view.done === shown.done && view.waiting === shown.waiting;
    if (same && at - shown.at < UNCHANGED_MS) return;
    shown = { ...view, at };
    stream.write(`${plainLine(view)}\n`);
  }, everyMs);
  timer.unref();
  let stopped = false;
  return {
    update: (now) => gauge.set(now),
    note(message) {
      if (!stopped) stream.write(`${plain(message)}\n`);
    },
    stop() {
      stopped = true;
      clearInterval(timer);
    },
  };
}

interface Bar extends MultiBar {
  /** The library's own timer, which its types leave out. */
  readonly timer: NodeJS.Timeout | null;
}

/**
 * A multi-bar of one bar: unlike the single bar it prints lines above itself, and it does not move the cursor
 * to a saved place when it ends, which by then may hold other text.
 */
function startBar({ stream, total, done }: ProgressOptions, gauge: Gauge): ProgressDisplay {
  // Loaded for a terminal only.
  const { MultiBar }: { MultiBar: new (options: Options) => Bar } = require('cli-progress');
  const bars = new MultiBar({
    stream,
    fps: REDRAWS,
    // One cell stays free: a line that fills the terminal makes some of them wrap.
    format: (_options, { maxWidth }) => barLine(gauge.read(), maxWidth - 1),
    // The line is cut to fit, so the terminal's wrapping need not be switched off, nor back on after a crash.
    linewrap: true,
    clearOnComplete: true,
    // Otherwise a bar that did not change is not drawn again below a note.
    forceRedraw: true,
    gracefulExit: false,
  });
  bars.on('update-post', () => bars.timer?.unref());
  bars.create(total, done);
  bars.update();
  let stopped = false;
  return {
    update: (now) => gauge.set(now),
    note(message) {
      if (stopped) return;
      const lines = words(plain(message), stream.columns ?? 80);
      bars.log(`${lines.join('\n')}\n`);
      bars.update();
    },
    stop() {
      if (stopped) return;
      stopped = true;
      bars.stop();
    },
  };
}

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

/** For logs: `12,000 / 100,000 rows  12 %  850/s  about 1 min 43 s left  50 in flight  3 failed  7 invalid`. */
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
    invalidText(view),
  ]
    .filter((text) => text !== '')
    .join(GAP);
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
    { text: invalidText(view), importance: 5 },
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

const invalidText = ({ invalid = 0 }: ProgressView): string =>
  invalid === 0 ? '' : `${count(invalid)} invalid`;

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
