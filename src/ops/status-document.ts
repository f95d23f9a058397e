import { count, counted, duration, rate } from '../core/figures.js';
import { type Document, section, type Table, type TableRow, text } from '../render/document.js';
import type { RunStatus, Status, WorkerStatus } from './status.js';

const BAR = 10;
/** Width of a number, in cells; a larger one than any real figure would push others out of their columns. */
const NUMBER = 15;
/** Others can write into a store (fault 85). */
const MOST_ROWS = 200;

const FINISHED = 'finished';

/** @param place where the store is, shown when there are no runs */
export function statusDocument({ runs, workers }: Status, place: string): Document {
  return {
    title: 'Status',
    lead: [],
    sections: [
      runs.length === 0
        ? section('runs', '', [text(`no runs at ${place}`)])
        : section('runs', 'Runs', [runTable(runs)]),
      workers.length === 0
        ? section('workers', '', [text('no workers')])
        : section('workers', 'Workers', [workerTable(workers)]),
    ],
    rest: 'in --json',
    isWide: true,
  };
}

const number = (name: string) => ({ name, isNumber: true, most: NUMBER });

const runTable = (runs: readonly RunStatus[]): Table => ({
  kind: 'table',
  caption: 'Runs',
  columns: [
    { name: 'job', most: 18 },
    { name: 'run', most: 22 },
    { name: '' },
    ...['known', 'rows/s', 'left'].map(number),
  ],
  rows: runs.map((run) => {
    const { job, rows, rows_per_second: speed, eta_s: left } = run;
    const cells = [job, run.run, bar(run), count(rows.known), speed === null ? '' : perSecond(speed)];
    return { cells: [...cells, left === null ? '' : duration(left)], ...noteOf(runNotes(run)) };
  }),
  most: MOST_ROWS,
});

const workerTable = (workers: readonly WorkerStatus[]): Table => ({
  kind: 'table',
  caption: 'Workers',
  columns: [{ name: 'host', most: 20 }, ...['pid', 'calls', 'now', 'most', 'rows/s', 'rows'].map(number)],
  rows: workers.map((worker) => {
    const { host, pid, in_flight, concurrency, rows_per_second: speed, rows } = worker;
    const calls = [in_flight, allowedNow(worker), concurrency].map(count);
    return {
      cells: [host, String(pid), ...calls, perSecond(speed), count(rows)],
      ...noteOf(workerNotes(worker)),
    };
  }),
  most: MOST_ROWS,
});

/** Without `/s`, which the column's head says. */
const perSecond = (rows: number): string => rate(rows).replace('/s', '');

/** Calls at once that it may make now: each queue has a limit, and all together have the process's. */
export const allowedNow = ({ queues, concurrency }: Pick<WorkerStatus, 'queues' | 'concurrency'>): number =>
  Math.min(
    concurrency,
    queues.reduce((sum, queue) => sum + queue.concurrency, 0),
  );

function bar({ rows: { known, total } }: RunStatus): string {
  const done = total === 0 ? 1 : Math.min(1, known / total);
  const full = Math.floor(done * BAR);
  return `${'█'.repeat(full)}${'░'.repeat(BAR - full)} ${String(Math.floor(done * 100)).padStart(3)} %`;
}

/** What a line has no room for; a warning when somebody may have to act. */
function noteOf(notes: readonly string[]): Pick<TableRow, 'note'> {
  if (notes.length === 0) return {};
  const text = notes.map((note) => note.replace(/\.$/, '')).join('; ');
  return { note: { text, tone: text === FINISHED ? 'good' : 'warn' } };
}

const runNotes = (run: RunStatus): string[] => [
  ...(run.emulated ? ['rehearsal, answered by an emulator'] : []),
  ...standingNotes(run),
  ...(run.state === 'finished' ? [] : batchNotes(run)),
];

/** Batches shown one by one. */
const MOST_BATCHES = 3;

function batchNotes({ batches = [] }: RunStatus): string[] {
  const open = batches.filter(({ ended_at }) => ended_at === null);
  const shown = open.slice(0, MOST_BATCHES).map(({ id, status, answered, requests, created_at: at }) => {
    const age = at === null ? '' : `, ${duration((Date.now() - Date.parse(at)) / 1000)} old`;
    return `${id}: ${status}, ${count(answered ?? 0)} of ${counted(requests, 'row')} answered${age}`;
  });
  return open.length > shown.length
    ? [...shown, `${count(open.length - shown.length)} further batches`]
    : shown;
}

function standingNotes(run: RunStatus): string[] {
  const {
    state,
    waiting,
    stopped,
    missed,
    rows,
    beyond,
    answers_invalid: invalid,
    answers_refused: refused,
  } = run;
  const { seen_s, host, pid } = run;
  const failed = [
    ...(rows.failed > 0 ? [`${count(rows.failed)} failed`] : []),
    ...(invalid > 0 ? [`answers.invalid ${count(invalid)}`] : []),
    ...(refused > 0 ? [`answers.refused ${count(refused)}`] : []),
  ];
  switch (state) {
    case 'running':
      return waiting === null ? failed : [...failed, waiting];
    case 'lost':
      return [
        ...failed,
        `lost: resume with the same command (process ${pid} on ${host}, silent for ${duration(seen_s)})`,
      ];
    case 'finished':
      return [
        FINISHED,
        ...failed,
        ...(missed === null ? [] : [missed]),
        ...(beyond > 0 ? [`${counted(beyond, 'row')} left out`] : []),
      ];
    case 'interrupted':
      return [...failed, stopped ?? state];
    default:
      return [...failed, `${state}${stopped === null ? '' : `, ${stopped}`}`];
  }
}

const workerNotes = ({ draining, queues }: WorkerStatus): string[] => [
  ...(draining ? ['finishing its last calls'] : []),
  ...(queues.length === 0 && !draining ? ['no run needs it'] : []),
  ...queues.flatMap(({ deployment, waiting }) => (waiting === null ? [] : [`${deployment}: ${waiting}`])),
];
