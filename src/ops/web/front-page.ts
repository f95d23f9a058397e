import { ratesOf } from '../../account/rate.js';
import { invalidIn, outcomeParts, type Summary, unansweredTexts } from '../../account/summary.js';
import { cost, count, duration, percent, rate } from '../../core/figures.js';
import { STATUSES } from '../../core/model.js';
import type { Section } from '../../render/document.js';
import { jobTitle } from '../../render/run-words.js';
import { escapeControls } from '../../render/terminal-text.js';
import type { RunHeartbeat, SeenWorker, WorkerHeartbeat } from '../heartbeat.js';
import { allowedNow } from '../status-document.js';
import type { View, WatchedRun } from './watch.js';

export interface Share {
  readonly name: string;
  readonly count: string;
  readonly percent: string;
  readonly fraction: number;
}

export type Figure = readonly [label: string, value: string];

export type FrontPage = ReturnType<typeof frontPageOf>;
export type RunCard = ReturnType<typeof cardOf>;
export type PastRun = ReturnType<typeof pastOf>;
export type WorkerRow = ReturnType<typeof workerOf>;

export const NONE = '–';

/**
 * `GET /api/state`, with all texts ready: the page only puts them in place. Text from a beat is made plain: no
 * control characters, nothing that changes its direction. Times are ISO 8601, for the reader's time zone.
 * @param problems what somebody has to repair: job files that cannot be read
 */
export function frontPageOf(
  view: View,
  version: string,
  now: Date,
  problems: readonly string[] = [],
  queues: readonly Section[] = [],
) {
  return {
    at: now.toISOString(),
    version,
    problems: problems.map(escapeControls),
    store: { ready: view.ready, text: storeText(view) },
    running: view.runs.filter(({ beat }) => beat.state === 'running').map(cardOf),
    past: view.runs.filter(({ beat }) => beat.state !== 'running').map(pastOf),
    workers: view.workers.map(workerOf),
    queues,
  };
}

function storeText({ ready, silentMs }: View): string {
  if (ready) return 'Live';
  return silentMs === null
    ? 'The store does not answer'
    : `The store has not answered for ${duration(Math.round(silentMs / 1000))}`;
}

export function cardOf({ beat, ageMs, observed, samples }: WatchedRun) {
  const lost = observed === 'lost';
  const { summary, known } = beat;
  const total = summary.input.rows;
  const reachMs = (samples.at(-1)?.at ?? 0) - (samples[0]?.at ?? 0);
  const recent = ratesOf(samples).map((rows) => Math.round(rows * 10) / 10);
  const state: 'running' | 'waiting' | 'lost' = lost ? 'lost' : beat.waiting === null ? 'running' : 'waiting';
  return {
    id: beat.run,
    job: jobTitle(summary),
    state,
    stateText: { running: 'Running', waiting: 'Waiting', lost: 'Lost' }[state],
    /** What it waits for, or what happened to it; null while it makes progress. */
    note: lost
      ? `No word from it for ${duration(Math.round(ageMs / 1000))}: its process has ended or cannot reach the store. ` +
        'The same command continues it.'
      : beat.waiting && escapeControls(beat.waiting),
    done: Math.min(known, total),
    total,
    progressText: `${count(known)} of ${count(total)} rows known, ${count(summary.rows.total)} of them written`,
    percentText: total === 0 ? '100 %' : `${Math.floor(Math.min(1, known / total) * 100)} %`,
    figures: [
      ...speedFigures(beat, state),
      ['Running for', duration(Math.round(summary.duration_s))],
      ['Tokens', count(summary.usage.total_tokens)],
      ['Cost so far', money(summary)],
      ['Calls', count(summary.calls.sent)],
      ['Rate limited', count(summary.calls.rate_limited)],
      ['Retries', count(summary.calls.retried)],
      ['Latency p50', latency(summary.latency_ms.p50)],
      ['Latency p95', latency(summary.latency_ms.p95)],
      ...invalidFigure(summary),
    ] satisfies Figure[],
    shares: [...sharesOf(summary, total), ...knownShare(beat)],
    where: [
      ['Run', beat.run],
      ['Deployment', escapeControls(summary.deployment)],
      ['Input', escapeControls(summary.input.path)],
      ['Output', escapeControls(summary.output)],
      ['Process', `${escapeControls(beat.host)}, ${beat.pid}`],
    ] satisfies Figure[],
    /** Rows per second over the last five minutes, oldest first. */
    speeds: lost ? [] : recent,
    speedsText: `Last ${duration(Math.round(reachMs / 1000))}, peak ${rate(Math.max(0, ...recent), ' rows')}`,
  };
}

const speedFigures = (
  { rows_per_second: speed, seconds_left: left }: RunHeartbeat,
  state: 'running' | 'waiting' | 'lost',
): Figure[] => [
  ['Speed', speed === null || state === 'lost' ? NONE : rate(speed, ' rows')],
  ['Time left', left === null || state !== 'running' ? NONE : duration(Math.ceil(left))],
];

/** Only if there are any: many jobs have no answers that could be invalid. */
const invalidFigure = (summary: Summary): Figure[] =>
  invalidIn(summary) === 0 ? [] : [['Invalid answers', count(invalidIn(summary))]];

const FINISHED = 'Finished';

/** Adds what needs a look: `Finished, 11 failed, 3 invalid` */
function finishedText(summary: Summary): string {
  const { rows, missed, rejected } = summary;
  const invalid = invalidIn(summary);
  const failed = rows.failed > 0 ? `, ${count(rows.failed)} failed` : '';
  const bad = invalid > 0 ? `, ${count(invalid)} invalid` : '';
  return missed === null
    ? FINISHED + failed + bad
    : `${rejected ? 'Rejected' : FINISHED}, below what is asked`;
}

interface End {
  /** `failures`: rows failed, a target is missed, or no answer is valid. `invalid`: some answers are not. */
  readonly state: 'finished' | 'failures' | 'invalid' | 'stopped' | 'interrupted';
  readonly stateText: string;
}

export function endOf({ state, summary }: Pick<RunHeartbeat, 'summary' | 'state'>): End {
  if (state === 'stopped') return { state, stateText: 'Stopped' };
  // `running` never gets here.
  if (state !== 'finished') return { state: 'interrupted', stateText: 'Interrupted' };
  const { rows, missed } = summary;
  const invalid = invalidIn(summary);
  const noneValid = invalid > 0 && invalid === rows.completed;
  const isBad = rows.failed > 0 || missed !== null || noneValid;
  return { state: isBad ? 'failures' : invalid > 0 ? 'invalid' : state, stateText: finishedText(summary) };
}

function pastOf({ beat }: WatchedRun) {
  const { summary } = beat;
  const note = summary.stopped ?? summary.missed;
  return {
    id: beat.run,
    job: jobTitle(summary),
    ...endOf(beat),
    note: note && escapeControls(note),
    startedAt: summary.started_at,
    duration: duration(summary.duration_s),
    rows:
      summary.rows.total === summary.input.rows
        ? count(summary.rows.total)
        : `${count(summary.rows.total)} of ${count(summary.input.rows)}`,
    shares: sharesOf(summary),
    sharesText: sharesText(summary),
    tokens: count(summary.usage.total_tokens),
    cost: money(summary),
  };
}

export function workerOf({ beat }: SeenWorker) {
  const waits = beat.queues.flatMap(({ waiting }) => (waiting === null ? [] : [escapeControls(waiting)]));
  const notes = [...(beat.draining ? ['Draining: takes no more rows'] : []), ...waits];
  const sum = (of: (queue: WorkerHeartbeat['queues'][number]) => number) =>
    beat.queues.reduce((total, queue) => total + of(queue), 0);
  return {
    id: beat.id,
    name: `${escapeControls(beat.host)}, ${beat.pid}`,
    deployments:
      [...new Set(beat.queues.map(({ deployment }) => escapeControls(deployment)))].join(', ') || NONE,
    concurrency: `${count(allowedNow(beat))} of ${count(beat.concurrency)}`,
    inFlight: count(sum((queue) => queue.in_flight)),
    speed: rate(beat.rows_per_second, ' rows'),
    calls:
      Object.entries(beat.calls)
        .map(([status, calls]) => `${escapeControls(status)}: ${count(calls)}`)
        .join(', ') || NONE,
    note: notes.join('; ') || NONE,
  };
}

/** @param whole base of the fractions; the percentages are of the rows that ended */
export function sharesOf(summary: Summary, whole = summary.rows.total): Share[] {
  const { total } = summary.rows;
  return outcomeParts(summary).map(([name, rows]) => ({
    name,
    count: count(rows),
    percent: total === 0 ? '0 %' : percent(rows, total),
    fraction: whole === 0 ? 0 : rows / whole,
  }));
}

/** Rows with an outcome that waits for those before them. */
function knownShare({ known, summary: { rows, input } }: RunHeartbeat): Share[] {
  const ahead = known - rows.total;
  if (ahead <= 0) return [];
  return [{ name: 'known', count: count(ahead), percent: 'not yet written', fraction: ahead / input.rows }];
}

function sharesText(summary: Summary): string {
  const { rows } = summary;
  const shares = STATUSES.filter((name) => rows[name] > 0).map((name) => `${count(rows[name])} ${name}`);
  return [...shares, ...unansweredTexts(summary)].join(', ');
}

const money = ({ cost: value, currency }: Pick<Summary, 'cost' | 'currency'>): string =>
  value === null ? NONE : cost(value, currency);
const latency = (ms: number | null): string => (ms === null ? NONE : duration(ms / 1000));
