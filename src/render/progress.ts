import { type RateWindow, rateOf, sampled } from '../account/rate.js';
import { asStarted } from '../core/started.js';
import { barLine, type ProgressView, plainLine } from './progress-lines.js';
import { Screen, type TerminalStream } from './screen.js';
import { escapeControls, words } from './terminal-text.js';

type ProgressUpdate = Pick<ProgressView, 'done' | 'failed' | 'invalid'> & {
  /** @default 0 */
  readonly inFlight?: number;
  /** "waiting for the service until 10:42:05". @default null */
  readonly waiting?: string | null;
  /** @default measured from `done` */
  readonly speed?: { readonly perSecond: number | null; readonly secondsLeft: number | null };
};

export interface ProgressDisplay {
  /** Cheap enough to call for every row; shown when the next line is due. */
  update(now: ProgressUpdate): void;
  /** Prints a line at once, above what is drawn. */
  note(message: string): void;
  /** Removes what is drawn; nothing is printed afterwards. */
  stop(): void;
}

interface ProgressOptions {
  readonly stream: TerminalStream;
  /** Draw in place instead of line after line. */
  readonly isTTY: boolean;
  readonly total: number;
  /** What is counted if not rows of a run; then there are no calls either. */
  readonly unit?: string;
  /** Rows done in earlier executions of the run. */
  readonly done: number;
  readonly quiet: boolean;
  /** Milliseconds between lines if nothing is drawn. @default 5000 */
  readonly everyMs?: number;
  /** What a terminal shows in that many cells. @default one line with a bar */
  readonly lines?: (view: ProgressView, width: number) => readonly string[];
}

/** Per second: enough to look alive, little to send over a slow line. */
const REDRAWS = 5;

/** If nothing changes, a line a minute shows that the run is alive. */
const UNCHANGED_MS = 60_000;

export function startProgress(options: ProgressOptions): ProgressDisplay {
  if (options.quiet) return { update: () => {}, note: () => {}, stop: () => {} };
  const gauge = new Gauge(options.total, options.done, options.unit);
  return options.isTTY ? startScreen(options, gauge) : startLines(options, gauge);
}

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

  /** Each line is a sample of the rate, so a run that stands still slows down on the display. */
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
      if (!stopped) stream.write(`${asStarted(escapeControls(message))}\n`);
    },
    stop() {
      stopped = true;
      clearInterval(timer);
    },
  };
}

function startScreen({ stream, lines = oneLine }: ProgressOptions, gauge: Gauge): ProgressDisplay {
  const screen = new Screen(stream, (width) => lines(gauge.read(), width));
  const timer = setInterval(() => screen.update(), 1000 / REDRAWS);
  timer.unref();
  let stopped = false;
  return {
    update: (now) => gauge.set(now),
    note(message) {
      if (!stopped)
        screen.above(`${words(asStarted(escapeControls(message)), stream.columns ?? 80).join('\n')}\n`);
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
