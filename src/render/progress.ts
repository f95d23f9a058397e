import { type RateWindow, rateOf, sampled } from '../account/rate.js';
import { asStarted } from '../started.js';
import { barLine, type ProgressView, plainLine } from './progress-lines.js';
import { Screen, type TerminalStream } from './screen.js';
import { plain, words } from './terminal-text.js';

/** What changes while a run goes on. */
type ProgressUpdate = Pick<ProgressView, 'done' | 'failed' | 'invalid'> & {
  /** Calls under way. @default 0 */
  readonly inFlight?: number;
  /** What the run waits for, in words: "waiting for the service until 10:42:05". @default null */
  readonly waiting?: string | null;
  /** How fast it gets on. @default measured by what is done */
  readonly speed?: { readonly perSecond: number | null; readonly secondsLeft: number | null };
};

/** Shows a person how a run gets on. */
export interface ProgressDisplay {
  /** Takes the current figures; they are shown when the next line is due. Cheap enough for every row. */
  update(now: ProgressUpdate): void;
  /** Prints a line at once, above what is drawn. */
  note(message: string): void;
  /** Removes what is drawn. Nothing is printed after it. */
  stop(): void;
}

interface ProgressOptions {
  /** Where to print: standard error. */
  readonly stream: TerminalStream;
  /** The stream is a terminal: what is told is drawn in its place, instead of line after line. */
  readonly isTTY: boolean;
  /** Rows of the input. */
  readonly total: number;
  /** What is counted, where it is not the rows of a run: then nothing is called either. */
  readonly unit?: string;
  /** Rows that earlier executions of the run have done. */
  readonly done: number;
  /** Print nothing at all. */
  readonly quiet: boolean;
  /** Milliseconds between two lines where nothing is drawn. @default 5000 */
  readonly everyMs?: number;
  /** What a terminal shows, in so many cells. @default one line with a bar */
  readonly lines?: (view: ProgressView, width: number) => readonly string[];
}

/** Redraws a second: enough to look alive, little to send over a slow line. */
const REDRAWS = 5;

/** Where nothing moves, a line a minute says that the run is alive. */
const UNCHANGED_MS = 60_000;

export function startProgress(options: ProgressOptions): ProgressDisplay {
  if (options.quiet) return { update: () => {}, note: () => {}, stop: () => {} };
  const gauge = new Gauge(options.total, options.done, options.unit);
  return options.isTTY ? startScreen(options, gauge) : startLines(options, gauge);
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
    const measured = rateOf(this.#window);
    const { inFlight = 0, speed, ...now } = this.#now;
    const left = measured ? (this.total - now.done) / measured : null;
    return {
      waiting: null,
      ...now,
      inFlight: this.unit === undefined ? inFlight : null,
      total: this.total,
      unit: this.unit,
      rate: speed === undefined ? measured : speed.perSecond,
      secondsLeft: speed === undefined ? left : speed.secondsLeft,
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
      if (!stopped) stream.write(`${asStarted(plain(message))}\n`);
    },
    stop() {
      stopped = true;
      clearInterval(timer);
    },
  };
}

/** The view in lines, again and again in their place. */
function startScreen({ stream, lines = oneLine }: ProgressOptions, gauge: Gauge): ProgressDisplay {
  const screen = new Screen(stream, (width) => lines(gauge.read(), width));
  const timer = setInterval(() => screen.update(), 1000 / REDRAWS);
  timer.unref();
  let stopped = false;
  return {
    update: (now) => gauge.set(now),
    note(message) {
      if (!stopped) screen.above(`${words(asStarted(plain(message)), stream.columns ?? 80).join('\n')}\n`);
    },
    stop() {
      if (stopped) return;
      stopped = true;
      clearInterval(timer);
      screen.end();
    },
  };
}

const oneLine = (view: ProgressView, width: number): string[] => [barLine(view, width)];
