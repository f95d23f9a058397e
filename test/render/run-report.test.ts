import { describe, expect, it } from 'vitest';
import { type SummaryParts, summarise } from '../../src/account/summary.js';
import { emptyTally, fold } from '../../src/account/tally.js';
import { renderMarkdown } from '../../src/render/markdown.js';
import type { ReportTable } from '../../src/render/report-rows.js';
import { runDocument } from '../../src/render/run-document.js';
import { type RunReport, runReport } from '../../src/render/run-report.js';
import { renderTerminal } from '../../src/render/terminal.js';
import { completed } from '../account/outcomes.js';
import { parts } from '../account/summary-parts.js';
import { sampleReport } from './sample-reports.js';

const table: ReportTable = {
  columns: [
    { name: 'answer', of: 'answer' },
    { name: 'id', of: 'row' },
  ],
  rows: [{ row: 3, outcome: 'failed', gold: '', cells: ['', '3'] }],
  ...{ records: 4, outcomes: { failed: 1, answered: 3 }, answers: {} },
};
const reportOf = (changed: Partial<SummaryParts> = {}): RunReport =>
  runReport(summarise({ ...parts, ...changed }), table);

/** What a job says that says nothing but its speed. */
const LIMITS = [
  ['most calls at once', '20'],
  ['requests a minute', '600'],
  ['time for a call', '2 min 0 s'],
  ['calls for a row, at most', '6'],
  ['a call that is lost', 'is made again'],
  ['budget', 'none'],
  ['gives up without an answer for', '1 h 0 min'],
];

describe('a report', () => {
  it('says how the run ended, and what to do next', () => {
    expect(reportOf().verdict).toEqual({
      state: 'some_failed',
      text: 'Finished, and 1 row failed.',
      next: [
        { text: 'Call the rows that failed again, in place:', command: 'promptmill retry out/reviews.csv' },
      ],
    });
    const answered = fold(emptyTally(), [completed('positive')]);
    expect(reportOf({ tally: answered }).verdict).toMatchObject({ state: 'finished', next: [] });
    expect(
      runReport({ ...summarise(parts), answers_invalid: 2 }, table, "moved/it's.csv").verdict,
    ).toMatchObject({
      text: 'Finished, and 1 row failed, 2 answers are invalid.',
      next: [
        { command: "promptmill retry 'moved/it'\\''s.csv'" },
        { command: "promptmill retry 'moved/it'\\''s.csv' --invalid" },
      ],
    });
    const { job_file: _, ...library } = summarise({ ...parts, tally: answered });
    expect(runReport({ ...library, answers_refused: 1, answers_abstained: 3 }, table).verdict).toEqual({
      state: 'some_invalid',
      text: 'Finished, and 1 answer is a refusal, 3 rows abstained.',
      next: [
        {
          text: 'Call the rows with an invalid answer again:',
          command: 'promptmill retry out/reviews.csv --invalid --job FILE',
        },
        {
          text: 'Give the rows that abstained their answers in the file for review, and put them in:',
          command: 'promptmill merge-review out/reviews.csv REVIEW --job FILE',
        },
      ],
    });
    const missed = { code: 'answers_invalid', message: 'too few are valid' };
    expect(reportOf({ tally: answered, missed }).verdict).toMatchObject({
      state: 'missed',
      text: 'Finished, but answers_invalid: too few are valid',
    });
    const stopped = { code: 'deadline', message: 'after 1 h' };
    expect(reportOf({ tally: answered, stopped }).verdict).toMatchObject({
      state: 'stopped',
      text: 'Stopped after 1 of 4 rows: deadline: after 1 h',
    });
  });

  it('has the rows, the template and the timeline, and says why where it has no rows', () => {
    const report = reportOf();
    expect(report.reconciliation).toBe('4 rows = 2 completed + 1 filtered + 1 failed + 0 skipped');
    expect(report.prompt).toBe('Review: {{ review }}');
    expect(report.settings).toEqual(LIMITS);
    expect(report.charts.timeline.at(-1)).toMatchObject({ to_s: 1, rows: 1, latency_max_ms: 400 });
    expect(report.table?.rows).toHaveLength(1);
    const without = runReport(summarise(parts), 'out/reviews.csv is gone');
    expect([without.table, without.table_note]).toEqual([null, 'out/reviews.csv is gone']);
  });

  it('says settings in words', () => {
    const settings = {
      'the way the input is read': '[null,null,null]',
      parameters: '{"max_tokens":5,"temperature":0,"stop":["\\n"],"suffix":null}',
      service: '{"deployment":"d","apiVersion":"v"}',
      row_parameters: '[]',
      answer: '{"kind":"labels","labels":["good","bad"],"confidence":false,"abstainBelow":0.5}',
      output: '["csv",null,"protect"]',
      'answer.gold': '"label"',
      '--emulate': 'true',
      old: '{"cut in the mi',
    };
    expect(reportOf({ details: { ...parts.details, settings } }).settings).toEqual([
      ['input', 'as its name and its first bytes say'],
      ['parameters', 'max_tokens 5, temperature 0, stop ("\\n")'],
      ['service', 'deployment d, api version v'],
      ['answer', 'kind labels, labels (good, bad), confidence no, abstain below 0.5'],
      ['output', 'csv, all columns, formulas: protect'],
      ['answer.gold', 'label'],
      ['emulator', 'yes, it answered in place of the service'],
      ['old', '{"cut in the mi'],
      ...LIMITS,
    ]);
  });

  it('says limits and budget in words', () => {
    const { details } = parts;
    const limits = {
      ...details.limits,
      ...{ tokens_per_minute: 90_000, prompts_per_request: 20, unknown_outcome: 'hold', deadline_s: 28_800 },
      ...{
        budget: { tokens: 1_000_000, cost: 0.5 },
        stop_after: { failures: 50, abstained: 0.2 },
        canary: 30,
      },
    };
    expect(reportOf({ details: { ...details, limits } }).settings).toEqual([
      ['most calls at once', '20'],
      ['requests a minute', '600'],
      ['tokens a minute', '90,000'],
      ['prompts in a request', '20'],
      ['time for a call', '2 min 0 s'],
      ['calls for a row, at most', '6'],
      ['a call that is lost', 'is not made again'],
      ['budget', '0.50 and 1,000,000 tokens'],
      ['gives up without an answer for', '1 h 0 min'],
      ['deadline', '8 h 0 min'],
      ['stops after', '50 failed or invalid, 20.0 % abstained'],
      ['canary', 'the first 30 rows'],
    ]);
  });

  it('says as text how a run of more than a minute went over time', () => {
    const report = sampleReport('plain');
    expect(renderMarkdown(runDocument(report))).toContain('## Over time\n\n| from | rows |');
    const text = renderTerminal(runDocument(report), { width: 100, color: false });
    expect(text).toMatch(/over time {7}from +rows .*\n +0 s +\d+ /);
  });
});
