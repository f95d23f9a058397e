import { retryCommandFor } from '../account/retry-command.js';
import type { Scores } from '../account/scores.js';
import { calledPerSecond, invalidIn, type StoredSummary, type Summary } from '../account/summary.js';
import { pointsOf } from '../account/timeline.js';
import { count, counted, duration, moment, rate } from '../core/figures.js';
import { asStarted, shellWord } from '../core/started.js';
import type { RecordedJob } from '../output/reader.js';
import { type ExampleTexts, exampleTexts } from './example-texts.js';
import { type ReportTable, reportRows } from './report-rows.js';
import { reconciliation, shortfall } from './run-words.js';
import { confusionMatrix } from './score-sections.js';
import { sectionsOf } from './sections.js';
import { settingsInWords } from './setting-words.js';
import { escapeControls } from './terminal-text.js';

export type RunReport = ReturnType<typeof runReport>;

type Fact = readonly [name: string, value: string];

interface Verdict {
  readonly state: 'finished' | 'some_failed' | 'some_invalid' | 'missed' | 'stopped';
  readonly text: string;
  readonly next: readonly { readonly text: string; readonly command: string | null }[];
}

/** @param job null where it is unknown @throws UsageError when the output cannot be read */
export const reportOf = async (
  summary: StoredSummary,
  output: string,
  job: RecordedJob | null,
  warning: string | null = null,
): Promise<RunReport> => {
  const examples = await exampleTexts(output, summary.scores, summary.details.prompt);
  return runReport(summary, await reportRows(output, summary, job ?? undefined), output, warning, examples);
};

/**
 * Everything in a report of a run, whatever its form; printed by `promptmill report --json`. Texts are plain,
 * except for the prompt and the rows, which a renderer must make harmless. Shares are from 0 to 1.
 * @param table its rows, or why there are none
 * @param output its current path
 * @param warning what a reader must know of the rows first
 */
export function runReport(
  summary: StoredSummary,
  table: ReportTable | string,
  output: string = summary.output,
  warning: string | null = null,
  examples: ExampleTexts = {},
) {
  const { details, scores } = summary;
  const verdict = verdictOf(summary, output);
  return {
    job: escapeControls(summary.job),
    verdict: warning === null ? verdict : { ...verdict, text: `${verdict.text} ${escapeControls(warning)}.` },
    reconciliation: reconciliation(summary),
    facts: [...identityOf(summary), ...timesOf(summary)],
    sections: sectionsOf(summary),
    charts: {
      answers: Object.entries(summary.answers)
        .map(([answer, rows]) => ({ answer: escapeControls(answer), rows }))
        .sort((a, b) => b.rows - a.rows),
      /** `null` if the job has no gold, or a row may have several labels. */
      confusion: scores === undefined ? null : plainConfusion(scores),
      reliability: scores?.calibration ?? [],
      coverage: coverageOf(scores?.calibration ?? []),
      timeline: pointsOf(details.timeline),
      requests_per_minute: details.limits.requests_per_minute,
      tokens_per_minute: details.limits.tokens_per_minute,
    },
    /** Texts of the rows that `summary.scores.confusions` names. */
    examples,
    /** The template's first 20,000 characters; `null` if each row has its own prompt, or it is unknown. */
    prompt: details.prompt,
    settings: settingsInWords(details, summary.currency),
    /** `null` if the output is missing, or does not say how rows ended: `table_note` has the reason. */
    table: typeof table === 'string' ? null : table,
    table_note: typeof table === 'string' ? table : null,
    summary,
  };
}

function verdictOf(summary: StoredSummary, output: string): Verdict {
  const { stopped, missed, rows, answers_refused: refused, answers_abstained: abstained } = summary;
  const { answers_invalid: invalid } = summary;
  if (stopped !== null) {
    return {
      state: 'stopped',
      text: shortfall(summary),
      next: [{ text: 'The command that began it goes on where it stopped.', command: null }],
    };
  }
  const next = summary.output === '-' ? [] : nextSteps(summary, output);
  if (missed !== null) return { state: 'missed', text: shortfall(summary), next };
  const problems = [
    ...(rows.failed > 0 ? [`${counted(rows.failed, 'row')} failed`] : []),
    ...(invalid > 0 ? [`${counted(invalid, 'answer')} ${invalid === 1 ? 'is' : 'are'} invalid`] : []),
    ...(refused > 0
      ? [`${counted(refused, 'answer')} ${refused === 1 ? 'is a refusal' : 'are refusals'}`]
      : []),
    ...(abstained > 0 ? [`${counted(abstained, 'row')} abstained`] : []),
  ];
  return {
    state: rows.failed > 0 ? 'some_failed' : invalidIn(summary) > 0 ? 'some_invalid' : 'finished',
    text:
      problems.length === 0
        ? 'Finished: every row is answered, filtered or skipped.'
        : `Finished, and ${problems.join(', ')}.`,
    next,
  };
}

/** @param output its current path */
function nextSteps(summary: StoredSummary, output: string): Verdict['next'] {
  const { rows, answers_abstained: abstained, merged_review: merged } = summary;
  // The command asks for a job that the summary does not name.
  const job = summary.job_file === undefined ? ' --job FILE' : '';
  const step = (text: string, command: string) => ({
    text,
    command: asStarted(escapeControls(command)) + job,
  });
  const retry = retryCommandFor(output, summary.emulated);
  return [
    ...(rows.failed > 0 ? [step('Call the rows that failed again, in place:', retry)] : []),
    ...(invalidIn(summary) > 0
      ? [step('Call the rows with an invalid answer again:', `${retry} --invalid`)]
      : []),
    ...(abstained > 0 && merged === undefined
      ? [
          step(
            'Give the rows that abstained their answers in the file for review, and put them in:',
            `promptmill merge-review ${shellWord(output)} REVIEW`,
          ),
        ]
      : []),
  ];
}

export const identityOf = (summary: Summary): Fact[] => [
  ['Run', escapeControls(summary.run)],
  ['Deployment', escapeControls(summary.deployment)],
  ['API version', escapeControls(summary.api_version)],
  ['Input', escapeControls(summary.input.path)],
  ['Rows of the input', count(summary.input.rows)],
  ['SHA-256 of the input', escapeControls(summary.input.sha256)],
  ['Output', escapeControls(summary.output)],
];

export const timesOf = (summary: Summary): Fact[] => [
  ['Started at', moment(summary.started_at)],
  [summary.stopped === null ? 'Finished at' : 'Stopped at', moment(summary.finished_at)],
  ['Duration', duration(summary.duration_s)],
  ['Mean speed', rate(calledPerSecond(summary), ' rows')],
  ...changed('Rows called again since', summary.retried),
  ...changed('Answers of people put in since', summary.merged_review),
];

const changed = (name: string, since: StoredSummary['retried']): Fact[] =>
  since === undefined ? [] : [[name, `${count(since.rows)}, the last at ${moment(since.at)}`]];

function plainConfusion(scores: Scores) {
  const matrix = confusionMatrix(scores);
  if (matrix === null) return null;
  const { down, across, counts } = matrix;
  return { right: down.map(escapeControls), answered: across.map(escapeControls), counts };
}

/** From the threshold that keeps all rows to the one that keeps the surest. */
function coverageOf(bins: Scores['calibration']) {
  const all = bins.reduce((sum, { rows }) => sum + rows, 0);
  return bins.map(({ from }, place) => {
    const above = bins.slice(place);
    const rows = above.reduce((sum, bin) => sum + bin.rows, 0);
    const right = above.reduce((sum, bin) => sum + bin.accuracy * bin.rows, 0);
    return { threshold: from, coverage: rows / all, accuracy: right / rows };
  });
}
