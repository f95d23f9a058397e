import { type StoredSummary, summarise } from '../../src/account/summary.js';
import { readEnvironment } from '../../src/config/environment.js';
import { jobSchema } from '../../src/config/job-schema.js';
import { type RunFlags, type Settings, settle } from '../../src/config/settings.js';
import type { CallCounts } from '../../src/core/counters.js';
import { Halt } from '../../src/core/halt.js';
import type { Outcome } from '../../src/core/model.js';
import type { RecordFormat } from '../../src/output/record.js';
import { Committer, type RowRecord } from '../../src/resume/committer.js';
import type { Manifest } from '../../src/resume/manifest.js';
import { findTarget, type OutputTarget } from '../../src/resume/output-target.js';
import { beginManifest } from '../../src/resume/resume.js';
import { WholeOutput } from '../../src/resume/whole-output.js';
import { type Ending, finish as finishRun } from '../../src/run/finishing.js';
import { type Plan, planRows } from '../../src/run/plan.js';
import type { Finishing } from '../../src/run/step.js';
import { csv } from '../../src/source/csv.js';
import { DETAILS } from '../account/summary-parts.js';

/** A run's files without a run: its rows have made-up outcomes and are committed as the collector does it. */
export interface Rows {
  readonly header: string;
  readonly format: Plan['format'];
  /** What row *n* becomes, at index *n* − 1. */
  readonly records: readonly RowRecord[];
  /** The output when every row is in it. */
  readonly text: string;
}

const NOW = new Date(2026, 10, 21, 2, 0);
const COLUMNS = ['id', 'note'];
/** Stands for the input and the job, which do not change here. */
const PRINT = { input: 'same' };

export function settingsFor(output: string, job: object = {}, flags: RunFlags = {}): Settings {
  const parsed = jobSchema.parse({
    service: { deployment: 'd' },
    input: { path: 'in.csv' },
    prompt: '{{ note }}',
    ...job,
    output: { path: output, ...('output' in job ? Object(job.output) : {}) },
  });
  return settle({ ...parsed, name: 'nightly' }, readEnvironment({}, '/no/such/file'), flags);
}

/** @param outcomes of the rows, in their order; the notes are their input */
export async function rowsOf(
  settings: Settings,
  outcomes: readonly { readonly note: string; readonly outcome: Outcome }[],
): Promise<Rows> {
  const survey = {
    rows: outcomes.length,
    badRows: 0,
    sha256: 'same',
    bytes: 1,
    digests: { blockBytes: 1, bytes: Buffer.alloc(0) },
    columns: COLUMNS,
  };
  const plan: Plan = await planRows(settings, { format: csv, ...survey });
  const records = outcomes.map(({ note, outcome }, i) => {
    const fields = new Map([
      ['id', String(i + 1)],
      ['note', note],
    ]);
    return plan.recordOf({ number: i + 1, line: i + 2, fields, bytes: 10 }, outcome);
  });
  return {
    header: plan.header,
    format: plan.format,
    records,
    text: plan.header + records.map(({ text }) => text).join(''),
  };
}

/** Opens the committer as a process does that begins or continues the run. */
export async function openCommitter(
  settings: Settings,
  { header, records }: Rows,
  total = records.length,
  taken?: OutputTarget,
): Promise<{ readonly target: OutputTarget; readonly committer: Committer }> {
  const target = taken ?? (await findTarget(settings, NOW));
  const manifest = beginManifest(target, settings, PRINT, NOW);
  return { target, committer: await Committer.open(target, manifest, header, process.stdout, total) };
}

/** Commits the rows up to a number, in one go. */
export async function commitTo(committer: Committer, rows: Rows, last: number): Promise<void> {
  await committer.commit(rows.records.slice(committer.manifest.rows, last));
}

/** Commits all rows that are not committed yet, some at a time. */
export async function commitAll(committer: Committer, rows: Rows, rowsInCommit: number): Promise<void> {
  const { length } = rows.records;
  while (committer.manifest.rows < length)
    await commitTo(committer, rows, Math.min(length, committer.manifest.rows + rowsInCommit));
}

/** A run as its last steps have it. */
export const finishingOf = (
  committer: Committer,
  settings: Settings,
  format: RecordFormat,
  survey: Finishing['survey'] = { sha256: 'same', rows: committer.manifest.rows },
  { say, halt }: Pick<Finishing, 'say' | 'halt'> = { say: () => {}, halt: new Halt() },
): Finishing => ({ committer, whole: new WholeOutput(committer), settings, format, survey, say, halt });

/** Ends a run whose rows are committed. @param others of a run with more than its output and its summary */
export async function finish(
  committer: Committer,
  summary: StoredSummary,
  others: Partial<Ending> = {},
): Promise<void> {
  const settings = settingsFor(summary.output, { report: false });
  const { format } = await rowsOf(settings, []);
  const none = { steps: [], reuse: null, review: null, summary: () => summary };
  await finishRun({ ...finishingOf(committer, settings, format), ...none, ...others });
}

export function summaryOf(
  {
    manifest,
  }: {
    readonly manifest: Pick<Manifest, 'run' | 'job' | 'rows' | 'started_at' | 'tally' | 'calls'> &
      Partial<Pick<Manifest, 'fingerprint' | 'values' | 'execution'>>;
  },
  output: string,
  calls: CallCounts = manifest.calls,
): StoredSummary {
  return summarise({
    run: manifest.run,
    job: manifest.job,
    deployment: 'd',
    api_version: '2023-09-15-preview',
    emulated: false,
    input: { path: 'in.csv', sha256: 'same', rows: manifest.rows },
    output,
    started_at: manifest.started_at,
    finished_at: manifest.started_at,
    duration_s: 1,
    stopped: null,
    missed: null,
    tally: manifest.tally,
    calls,
    prices: null,
    details: {
      ...DETAILS,
      settings: manifest.values ?? DETAILS.settings,
      state: {
        fingerprint: manifest.fingerprint ?? PRINT,
        execution: manifest.execution ?? 1,
        prompt_tokens: manifest.calls.prompt_tokens,
        completion_tokens: manifest.calls.completion_tokens,
      },
    },
  });
}
