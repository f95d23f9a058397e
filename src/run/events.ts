import type { Logger } from 'pino';
import { type RateWindow, rateOf, sampled } from '../account/rate.js';
import type { RowCounts, Tally } from '../account/tally.js';
import type { Settings } from '../config/settings.js';
import type { Counters } from '../core/counters.js';
import { counted, duration } from '../core/figures.js';
import { NO_TOKENS } from '../pace/budget.js';
import type { Quota } from '../pace/shared-pace.js';
import { startProgress } from '../render/progress.js';
import { type RunFigures, runLines } from '../render/run-screen.js';
import { canDraw, type TerminalStream } from '../render/screen.js';
import { painter } from '../render/terminal-text.js';
import type { CallEnded } from '../worker/caller.js';
import type { Speed } from './speed.js';

/** What happens in a run: numbers and ids, never a prompt, an answer or a key. */
export type RunEvent =
  /** The run is open for this execution, and calls begin; `committed` of its rows are on disk already. */
  | {
      readonly type: 'run started';
      readonly run: string;
      readonly execution: number;
      readonly total: number;
      readonly committed: number;
    }
  /** The input has more bytes than at first; the added part is not in the run. */
  | { readonly type: 'input grown'; readonly from: number; readonly to: number }
  /** From the worker of this process; a fleet's workers have their own logs and heartbeats. */
  | CallEnded
  /**
   * `known` rows have an outcome, in the ledger or on disk. Of the rows that need a call, `called` got an
   * outcome in this execution, and `toCall` in the window have none yet.
   */
  | {
      readonly type: 'rows settled';
      readonly known: number;
      readonly called: number;
      readonly toCall: number;
    }
  /** More records are on disk: `rows` and `bytes` are totals of the part file. */
  | { readonly type: 'committed'; readonly rows: RowCounts; readonly bytes: number }
  /** Four times a second. `waiting` says what the run waits for; null when it does not wait. */
  | {
      readonly type: 'pulse';
      readonly known: number;
      readonly failed: number;
      readonly invalid: number;
      readonly inFlight: number;
      readonly waiting: string | null;
      readonly speed: Speed;
      /** Totals of all executions: requests sent and refused, and tokens billed or possibly billed. */
      readonly calls: Pick<Counters, 'sent' | 'rate_limited' | 'prompt_tokens' | 'completion_tokens'>;
      /** Null while nothing is known of the quota. */
      readonly quota: Quota | null;
      /** Rows of a job with another tier are called online from now on. */
      readonly online: boolean;
    }
  /** A worker of another process is silent while others are heard; its rows go to others. */
  | {
      readonly type: 'worker lost';
      readonly host: string;
      readonly pid: number;
      readonly silentMs: number;
      readonly inFlight: number;
    }
  /** The run stops early, by a signal or for its own reasons; calls in flight are finished. */
  | { readonly type: 'run halted'; readonly signal: string | null; readonly inFlight: number }
  /** Producer, worker and collector have ended. */
  | { readonly type: 'run ended'; readonly known: number };

type RunReader = (event: RunEvent) => void;

/** Readers are called synchronously, and not awaited. */
export class RunEvents {
  readonly #readers: RunReader[] = [];

  readBy(...readers: readonly RunReader[]): void {
    this.#readers.push(...readers);
  }

  emit(event: RunEvent): void {
    for (const reader of this.#readers) reader(event);
  }
}

export function logReader(log: Logger): RunReader {
  if (!log.isLevelEnabled('debug')) return () => {};
  return ({ type, ...figures }) => {
    if (type !== 'rows settled' && type !== 'pulse') log.debug(figures, type);
  };
}

interface Shown {
  readonly stderr: TerminalStream & { readonly isTTY?: boolean };
  readonly quiet: boolean;
}

interface Watched {
  readonly settings: Pick<Settings, 'answer' | 'limits' | 'prices'>;
  /** Rows of the run, and how many of them earlier executions wrote. */
  readonly total: number;
  readonly done: number;
  /** The counts of the rows on disk; events do not contain the names of answers. */
  readonly tally: () => Tally;
}

export function progressReader({ stderr, quiet }: Shown, run: Watched): RunReader {
  const { settings, total, done, tally } = run;
  const { limits, prices, answer } = settings;
  const paint = painter(process.env['NO_COLOR'] === undefined);
  const began = performance.now();
  let now: Extract<RunEvent, { type: 'pulse' }> | null = null;
  let sent: RateWindow = [];
  const figures = (): RunFigures => {
    const perSecond = rateOf(sent);
    return {
      seconds: (performance.now() - began) / 1000,
      tokens: now?.calls ?? NO_TOKENS,
      callsPerMinute: perSecond === null ? null : perSecond * 60,
      rateLimited: now?.calls.rate_limited ?? 0,
      quota: now?.quota ?? null,
      tally: tally(),
      namesAnswers: answer.kind !== 'text',
      prices,
      budget: limits.budget,
    };
  };
  const progress = startProgress({
    stream: stderr,
    isTTY: canDraw(stderr),
    total,
    done,
    quiet,
    lines: (view, width) => runLines(view, figures(), width, paint),
  });
  return (event) => {
    if (event.type === 'pulse') {
      now = event;
      sent = sampled(sent, { at: performance.now(), done: event.calls.sent }, MINUTE_MS);
      progress.update({ ...event, done: event.known });
    } else if (event.type === 'run halted') progress.note(stoppingText(event, limits.unknownOutcome));
    else if (event.type === 'worker lost') progress.note(lostText(event, limits.unknownOutcome));
    else if (event.type === 'input grown') progress.note(grownText(event));
    else if (event.type === 'run ended') progress.stop();
  };
}

/** Milliseconds over which calls "a minute" are measured. */
const MINUTE_MS = 60_000;

function stoppingText(
  { signal, inFlight }: Extract<RunEvent, { type: 'run halted' }>,
  unknown: Settings['limits']['unknownOutcome'],
): string {
  if (inFlight === 0) return 'stopping';
  const calls = counted(inFlight, 'call');
  const stopping = `stopping: finishing ${calls} in flight`;
  if (signal === null) return stopping;
  const again = signal === 'SIGINT' ? 'Ctrl-C again' : 'a second signal';
  return `${stopping}; ${again} stops at once, and ${calls} may then ${fateOf(unknown)}`;
}

const fateOf = (unknown: Settings['limits']['unknownOutcome']): string =>
  unknown === 'hold' ? 'end outcome_unknown' : 'be paid for twice';

function lostText(
  { host, pid, silentMs, inFlight }: Extract<RunEvent, { type: 'worker lost' }>,
  unknown: Settings['limits']['unknownOutcome'],
): string {
  const silent = duration(Math.round(silentMs / 1000));
  const lost = `warning: worker ${pid} on ${host} is lost: no word from it for ${silent}. Other workers take its rows`;
  return inFlight === 0 ? lost : `${lost}, and ${counted(inFlight, 'call')} of it may ${fateOf(unknown)}`;
}

const grownText = ({ from, to }: Extract<RunEvent, { type: 'input grown' }>): string =>
  `warning: the input has grown from ${from} to ${to} bytes since the run began; what was added is no part of this run`;
