import { LateCalls } from '../../src/pace/late-calls.js';
import { Outage } from '../../src/pace/pauses.js';
import { SlowStart } from '../../src/pace/slow-start.js';

/** A server and who calls it, on a clock that only the simulation turns. Times are in milliseconds. */
export interface BusyServer {
  /** Calls that it answers at once; the others wait in its line, the first to come first. */
  readonly slots: number;
  /** Time for which a call has its slot. */
  readonly serviceMs: (random: () => number) => number;
  /** Whether it goes on with a call that was cut. @default false */
  readonly worksOnCutCalls?: boolean;
  /** Times between which no call is answered. @default none */
  readonly silent?: readonly [from: number, to: number];
  readonly concurrency: number;
  /** Most calls at once before they are answered. @default concurrency */
  readonly untilAnswered?: number;
  readonly timeoutMs: number;
  /** Time between an answer and the next call in its place. @default 0 */
  readonly gapMs?: number;
  readonly lastMs: number;
}

/** What became of the calls that ended in one minute. */
export interface Minute {
  answered: number;
  cut: number;
  /** Calls at once at its end. */
  atOnce: number;
}

interface Call {
  readonly row: number;
  readonly startedAt: number;
  ended: boolean;
}

/** Calls the server as a worker does, and tells what came of it minute by minute. */
export function callBusyServer(server: BusyServer, random: () => number): Minute[] {
  const {
    slots,
    serviceMs,
    worksOnCutCalls = false,
    silent = [0, 0],
    gapMs = 0,
    concurrency,
    timeoutMs,
  } = server;
  const start = new SlowStart(concurrency, server.untilAnswered);
  const late = new LateCalls();
  const outage = new Outage();
  const line: Call[] = [];
  const minutes: Minute[] = [];
  const events: { readonly at: number; readonly happen: () => void }[] = [];
  /** In order by themselves. */
  const timeouts: typeof events = [];
  let now = 1;
  let rows = 0;
  let inFlight = 0;
  let busy = 0;
  /** Places of calls whose next one has not begun. */
  let away = 0;

  const later = (ms: number, happen: () => void): void => {
    const at = now + ms;
    const after = events.findLastIndex((event) => event.at <= at);
    events.splice(after + 1, 0, { at, happen });
  };
  const minute = (): Minute => {
    const n = Math.floor(now / 60_000);
    while (minutes.length <= n) minutes.push({ answered: 0, cut: 0, atOnce: 0 });
    return minutes[n] as Minute;
  };
  const take = (): void => {
    while (busy < slots && line.length > 0) {
      const call = line.shift() as Call;
      if (call.ended && !worksOnCutCalls) continue;
      busy++;
      const ms = serviceMs(random);
      later(ms, () => {
        busy--;
        if (now < silent[0] || now >= silent[1]) answer(call);
        take();
      });
    }
  };
  const answer = (call: Call): void => {
    if (call.ended) return;
    call.ended = true;
    minute().answered++;
    outage.answered();
    if (late.answered(call.startedAt, timeoutMs, now)) start.late(now);
    start.answered(now - call.startedAt, inFlight--, now);
    if (gapMs === 0) return;
    away++;
    later(gapMs, () => away--);
  };
  const expire = (call: Call): void => {
    if (call.ended) return;
    call.ended = true;
    minute().cut++;
    start.failed(now);
    const atOnce = Math.min(start.limit, inFlight);
    inFlight--;
    const { startedAt, row } = call;
    const told = late.timedOut(startedAt, timeoutMs, atOnce, start.pausedUntil, now);
    if (told === 'known') return;
    if (told !== 'odd') {
      if (told.kind === 'too many') start.lower(told.most, startedAt, now);
      else start.raise(told.back, now);
      return;
    }
    const problem = { code: 'timeout', message: 'no whole answer in time' };
    const ms = outage.failed(
      { rows: [`${row}`], problem, connected: true, startedAt, mayBeRequest: false },
      now,
      0,
    );
    if (typeof ms !== 'number') return;
    start.paused(now + ms);
    start.again();
  };
  const callMore = (): void => {
    // In an outage one call at a time tries.
    const most = outage.view === null ? start.limit : outage.view.until > now ? 0 : 1;
    while (inFlight + away < most) {
      const call = { row: rows++, startedAt: now, ended: false };
      inFlight++;
      line.push(call);
      timeouts.push({ at: now + timeoutMs, happen: () => expire(call) });
    }
  };
  const pulse = (): void => {
    if (inFlight >= start.limit) start.waited(now);
    later(1_000, pulse);
  };

  pulse();
  while (now < server.lastMs) {
    callMore();
    take();
    minute().atOnce = start.limit;
    const [timeout, event] = [timeouts[0], events[0]];
    const next = (timeout?.at ?? Infinity) < (event?.at ?? Infinity) ? timeouts.shift() : events.shift();
    if (next === undefined) break;
    now = next.at;
    next.happen();
  }
  return minutes;
}
