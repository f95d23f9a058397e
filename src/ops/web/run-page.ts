import { moment } from '../../core/figures.js';
import { figure } from '../../render/document.js';
import { identityOf, timesOf } from '../../render/run-report.js';
import { jobTitle, reconciliation } from '../../render/run-words.js';
import { type ReportSection, sectionsOf } from '../../render/sections.js';
import { escapeControls } from '../../render/terminal-text.js';
import type { RunHeartbeat, SeenWorker } from '../heartbeat.js';
import { cardOf, endOf, type Figure, NONE, sharesOf, workerOf } from './front-page.js';
import type { WatchedRun } from './watch.js';

export type RunPage = ReturnType<typeof runPageOf>;

/** `GET /api/runs/ID`. While a run is going on, the shares are of all its rows. */
export function runPageOf(run: WatchedRun, workers: readonly SeenWorker[]) {
  const { beat } = run;
  const { summary } = beat;
  const facts = identityOf(summary);
  const process: Figure = ['Process', `${escapeControls(beat.host)}, ${beat.pid}`];
  const page = { id: beat.run, job: jobTitle(summary) };
  if (beat.state !== 'running') {
    return {
      ...page,
      ...endOf(beat),
      ended: true,
      note: escapedOrNull(summary.stopped ?? summary.missed),
      rowsText: reconciliation(summary),
      shares: sharesOf(summary),
      figures: [],
      facts: [...facts, ...timesOf(summary), process],
      sections: sectionsOf(summary),
    };
  }
  const { state, stateText, note, percentText, progressText, shares, figures } = cardOf(run);
  return {
    ...page,
    ...{ state, stateText, note, shares },
    ended: false,
    rowsText: `${percentText}: ${progressText}`,
    figures: figures.slice(0, PACE_FIGURES),
    facts: [...facts, ['Running since', moment(summary.started_at)], process],
    sections: [...workerSection(beat, workers), ...sectionsOf(summary)],
  };
}

/** The figures of a card that the sections lack: speed, time left, running time. */
const PACE_FIGURES = 3;

function workerSection({ run, queue }: RunHeartbeat, workers: readonly SeenWorker[]): ReportSection[] {
  const rows = workers
    .filter(
      ({ beat }) => beat.run === run || (beat.run === null && beat.queues.some((of) => of.queue === queue)),
    )
    .map((worker) => {
      const { name, inFlight, speed, note } = workerOf(worker);
      const waits = note === NONE ? '' : `, ${note}`;
      return figure(name, `${inFlight} in flight, ${speed}${waits}`);
    });
  return rows.length === 0 ? [] : [{ id: 'workers', title: 'Workers', rows }];
}

const escapedOrNull = (text: string | null): string | null => (text === null ? null : escapeControls(text));
