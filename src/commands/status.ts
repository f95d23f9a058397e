import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { readEnvironment } from '../config/environment.js';
import { readJobFile } from '../config/job-file.js';
import { UsageError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import { asStarted } from '../core/started.js';
import { readRuns, readWorkers } from '../ops/heartbeat.js';
import { type Status, statusOf } from '../ops/status.js';
import { statusDocument } from '../ops/status-document.js';
import { optionsOf, renderTerminal } from '../render/terminal.js';
import { openBoard, QUEUE_FORMS, type Board } from '../store/open.js';
import type { Exit } from './signals.js';

interface Options {
  readonly queue?: string;
  readonly json?: boolean;
  readonly watch?: boolean;
}

/** Milliseconds between updates with `--watch`. */
const WATCH_MS = 1_000;
const HOME_AND_CLEAR = '\u001b[H\u001b[J';

const EXAMPLES = `
Examples:
  $ promptmill status
      runs and workers of the queue in PROMPTMILL_QUEUE
  $ promptmill status jobs/sentiment.yaml --watch
      one job, again every second until Ctrl-C
  $ promptmill status --queue redis://localhost:6379 --json |
      jq '.runs[] | [.job, .rows.known, .eta_s]'

Running and lost runs, and the last few that ended. A run is lost when its
process was killed or cannot reach the queue; the same command resumes it. With
--watch --json, one line for each look. Exit codes: 0 shown; 2 there is no such
job.
`;

export function statusCommand(exit: Exit): Command {
  return new Command('status')
    .description('say what runs, waits and fails, and on which workers')
    .argument('[job]', 'only runs of this job: its name, or its file')
    .option('--queue <url>', `${QUEUE_FORMS} (default: embedded)`)
    .option('--json', 'print it as JSON')
    .option('--watch', 'print it again every second, until Ctrl-C')
    .addHelpText('after', EXAMPLES)
    .action(async (job: string | undefined, options: Options) => {
      await status(job, options);
      exit(0);
    });
}

async function status(job: string | undefined, { queue, json, watch }: Options): Promise<void> {
  const environment = readEnvironment(process.env);
  const name = job === undefined ? null : existsSync(job) ? readJobFile(job).name : job;
  const opened = await openBoard(queue ?? environment.queue, {
    stateDir: environment.stateDir,
    onWarning: () => {},
  });
  const ended = new AbortController();
  const end = (): void => ended.abort();
  // A store that became unreachable may never answer.
  const asked = new Promise<null>((resolve) => {
    ended.signal.addEventListener('abort', () => resolve(null), { once: true });
  });
  process.once('SIGINT', end).once('SIGTERM', end);
  process.stdout.once('error', end);
  try {
    if (name !== null && name === job) await assertKnown(name, opened);
    do {
      const found = await Promise.race([look(opened, name), asked]);
      if (found === null) break;
      process.stdout.write(
        json ? jsonText(found, watch === true) : asStarted(screenText(found, opened, watch === true)),
      );
      if (watch) await sleep(WATCH_MS, undefined, { signal: ended.signal }).catch(() => {});
    } while (watch && !ended.signal.aborted);
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end);
    process.stdout.off('error', end);
    await opened.close();
  }
}

async function look({ keyValue }: Board, job: string | null): Promise<Status> {
  const [runs, workers] = await Promise.all([keyValue.list('run'), keyValue.list('worker')]);
  return statusOf(readRuns(runs), readWorkers(workers), job);
}

/** An unknown name is usually a typo; the file of a job that has not run yet is not. */
async function assertKnown(job: string, { keyValue, describe }: Board): Promise<void> {
  const jobs = new Set(readRuns(await keyValue.list('run')).map(({ beat }) => beat.summary.job));
  if (jobs.has(job)) return;
  const near = nearest(job, jobs);
  throw new UsageError(
    'no_such_job',
    `no run of a job ${JSON.stringify(job)} at ${describe()}, and no job file of that name here` +
      (near === null ? '' : `; did you mean ${near}?`),
    'promptmill status shows all runs; they are remembered for 30 days.',
  );
}

const jsonText = (found: Status, watch: boolean): string =>
  `${watch ? JSON.stringify(found) : JSON.stringify(found, null, 2)}\n`;

function screenText(found: Status, { describe }: Board, watch: boolean): string {
  const terminal = process.stdout.isTTY === true;
  const { width, color } = optionsOf(process.stdout);
  const text = renderTerminal(statusDocument(found, describe()), { width: terminal ? width : 80, color });
  if (!watch) return text;
  return terminal ? HOME_AND_CLEAR + text : `${text}\n`;
}
