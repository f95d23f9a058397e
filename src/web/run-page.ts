import { factsOf } from '../report/run-report.js';
import { type ReportSection, sectionsOf } from '../report/sections.js';
import { reconciliation } from '../report/terminal.js';
import { plain } from '../report/terminal-text.js';
import { type Figure, finishedText, type Share, sharesOf } from './front-page.js';
import type { WatchedRun } from './watch.js';

/** `GET /api/runs/ID`: what the page of a run shows. */
export interface RunPage {
  readonly id: string;
  readonly job: string;
  /** Whether it changes yet. */
  readonly ended: boolean;
  readonly stateText: string;
  readonly note: string | null;
  readonly startedAt: string;
  readonly rowsText: string;
  readonly shares: readonly Share[];
  readonly facts: readonly Figure[];
  readonly sections: readonly ReportSection[];
}

/** The facts and sections of a report, of a run that goes on or has ended. */
export function runPageOf({ beat, standing }: WatchedRun): RunPage {
  const { summary } = beat;
  const { rows } = summary;
  return {
    id: beat.run,
    job: plain(summary.job),
    ended: beat.state !== 'running',
    stateText: {
      running: beat.waiting === null ? 'Running' : 'Waiting',
      lost: 'Lost',
      finished: finishedText(summary),
      stopped: 'Stopped',
      interrupted: 'Interrupted',
    }[standing],
    note: plainOrNull(summary.stopped ?? summary.missed ?? beat.waiting),
    startedAt: summary.started_at,
    rowsText: reconciliation(summary),
    shares: sharesOf(rows),
    facts: [
      ...factsOf(summary),
      ...(beat.emulated ? [['Calls', 'to an emulator'] as const] : []),
      ['Process', `${plain(beat.host)}, ${beat.pid}`],
    ],
    sections: sectionsOf(summary),
  };
}

const plainOrNull = (text: string | null): string | null => (text === null ? null : plain(text));
