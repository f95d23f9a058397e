import { count, counted, duration, rate } from '../figures.js';
import { cells, clip, flow, type Paint, padEnd, painter, plain } from '../report/terminal-text.js';
import type { RunStatus, Status, WorkerStatus } from './status.js';

interface StatusTextOptions {
  /** Cells of the terminal. */
  readonly width: number;
  readonly color: boolean;
  /** Where the store is, for one without a run. */
  readonly place: string;
}

const BAR = 10;
const GAP = '  ';
/** Cells of a number; a larger one than any that is meant would push the others out of their columns. */
const NUMBER = 15;
/** Rows of a table, and lines of a note, at most: others can write into a store (fault 85). `--json` has all. */
const MOST_ROWS = 200;
const MOST_NOTE_LINES = 6;

const FINISHED = 'finished';

/** The lines of `promptmill status`, for people: two for a run that waits or stopped, one for everything else. */
export function renderStatus({ runs, workers }: Status, options: StatusTextOptions): string {
  const paint = painter(options.color);
  const { width } = options;
  const lines = [
    ...table('runs', RUN_COLUMNS, runs, runNote, width, paint),
    ...(runs.length === 0 ? [`no runs at ${plain(options.place)}`] : []),
    '',
    ...table('workers', WORKER_COLUMNS, workers, workerNote, width, paint),
    ...(workers.length === 0 ? ['no workers'] : []),
  ];
  return `${lines.join('\n')}\n`;
}

interface Column<T> {
  readonly title: string;
  readonly text: (row: T) => string;
  /** Numbers stand to the right. */
  readonly right?: boolean;
}

const RUN_COLUMNS: readonly Column<RunStatus>[] = [
  { title: 'job', text: ({ job }) => clip(plain(job), 18) },
  { title: 'run', text: ({ run }) => clip(plain(run), 22) },
  { title: '', text: bar },
  { title: 'known', text: ({ rows }) => count(rows.known), right: true },
  {
    title: 'rows/s',
    text: ({ rows_per_second: r }) => (r === null ? '' : rate(r).replace('/s', '')),
    right: true,
  },
  { title: 'left', text: ({ eta_s: s }) => (s === null ? '' : duration(s)), right: true },
];

const WORKER_COLUMNS: readonly Column<WorkerStatus>[] = [
  { title: 'host', text: ({ host }) => clip(plain(host), 20) },
  { title: 'pid', text: ({ pid }) => String(pid), right: true },
  { title: 'calls', text: ({ in_flight }) => count(in_flight), right: true },
  { title: 'now', text: (worker) => count(allowedNow(worker)), right: true },
  { title: 'most', text: ({ concurrency }) => count(concurrency), right: true },
  { title: 'rows/s', text: ({ rows_per_second: r }) => rate(r).replace('/s', ''), right: true },
  { title: 'rows', text: ({ rows }) => count(rows), right: true },
];

/** Calls at once that it may make now: each of its queues has a limit, and all together have the process's. */
const allowedNow = ({ queues, concurrency }: WorkerStatus): number =>
  Math.min(
    concurrency,
    queues.reduce((sum, queue) => sum + queue.concurrency, 0),
  );

function bar({ rows: { known, total } }: RunStatus): string {
  const done = total === 0 ? 1 : Math.min(1, known / total);
  const full = Math.floor(done * BAR);
  return `${'█'.repeat(full)}${'░'.repeat(BAR - full)} ${String(Math.floor(done * 100)).padStart(3)} %`;
}

/** What a line has no room for. */
const runNote = (run: RunStatus): string[] => [
  ...(run.emulated ? ['rehearsal, answered by an emulator'] : []),
  ...standingNote(run),
];

function standingNote(run: RunStatus): string[] {
  const { state, waiting, stopped, missed, rows, beyond, answers_invalid: invalid } = run;
  const { seen_s, host, pid } = run;
  const failed = [
    ...(rows.failed > 0 ? [`${count(rows.failed)} failed`] : []),
    ...(invalid > 0 ? [`answers.invalid ${count(invalid)}`] : []),
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
        ...(beyond > 0 ? [`${counted(beyond, 'row')} left behind its --limit`] : []),
      ];
    case 'interrupted':
      return [...failed, stopped ?? state];
    default:
      return [...failed, `${state}${stopped === null ? '' : `, ${stopped}`}`];
  }
}

function workerNote({ draining, queues }: WorkerStatus): string[] {
  return [
    ...(draining ? ['finishing its last calls'] : []),
    ...(queues.length === 0 && !draining ? ['no run needs it'] : []),
    ...queues.flatMap(({ deployment, waiting }) => (waiting === null ? [] : [`${deployment}: ${waiting}`])),
  ];
}

function table<T>(
  title: string,
  columns: readonly Column<T>[],
  rows: readonly T[],
  noteOf: (row: T) => readonly string[],
  width: number,
  paint: Paint,
): string[] {
  if (rows.length === 0) return [];
  const shown = rows.slice(0, MOST_ROWS);
  const texts = shown.map((row) =>
    columns.map((column) => (column.right ? clip(column.text(row), NUMBER) : column.text(row))),
  );
  const widths = columns.map((column, i) =>
    Math.max(cells(column.title), ...texts.map((row) => cells(row[i] ?? ''))),
  );
  const line = (row: readonly string[]): string =>
    clip(
      row
        .map((text, i) => {
          const size = widths[i] ?? 0;
          return columns[i]?.right ? ' '.repeat(Math.max(0, size - cells(text))) + text : padEnd(text, size);
        })
        .join(GAP)
        .trimEnd(),
      width,
    );
  return [
    paint('bold', title),
    paint('dim', line(columns.map((column) => column.title))),
    ...texts.flatMap((row, i) => {
      const of = shown[i];
      return [line(row), ...(of === undefined ? [] : noteLines(noteOf(of), width - 2, paint))];
    }),
    ...(shown.length < rows.length ? [`and ${count(rows.length - shown.length)} more: --json has all`] : []),
  ];
}

function noteLines(notes: readonly string[], width: number, paint: Paint): string[] {
  const words = clip(plain(notes.map((note) => note.replace(/\.$/, '')).join('; ')), width * MOST_NOTE_LINES)
    .split(' ')
    .filter(Boolean)
    .map((word) => clip(word, width));
  const lines = flow(words, ' ', width).slice(0, MOST_NOTE_LINES);
  // Yellow is for what somebody may have to do something about.
  const style = notes.length === 1 && notes[0] === FINISHED ? 'green' : 'yellow';
  return lines.map((line) => paint(style, `  ${line}`));
}
