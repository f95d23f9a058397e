import { driftMiss } from '../account/drift.js';
import { bothMissed, invalidOf, missOf } from '../account/require.js';
import type { StepFacts } from '../account/steps.js';
import {
  moneyOf,
  paidFor,
  savedIn,
  type StoredSummary,
  type SummaryParts,
  summarise,
} from '../account/summary.js';
import { goldColumns } from '../answer/gold.js';
import type { Tally } from '../account/tally.js';
import { advanced } from '../account/timeline.js';
import type { Settings } from '../config/settings.js';
import { CALLS, eachOf } from '../core/counters.js';
import type { RecordFormat } from '../output/record.js';
import { partValues } from '../resume/fingerprint.js';
import type { Manifest } from '../resume/manifest.js';

/** Why the scores of an output are dropped when some rows change; null when they are not, or do not exist. */
export function scoresLost(
  settings: Settings,
  before: StoredSummary,
  { inputs }: RecordFormat,
): string | null {
  const { gold, jobFile } = settings;
  if (gold === null) return null;
  const again = `promptmill score makes them again${jobFile === null ? '' : ' from the output'}`;
  if (before.scores === undefined)
    return `the summary will have no scores: the output was made without answer.gold; ${again}`;
  if (before.details.settings['answer.gold'] !== partValues(settings)['answer.gold'])
    return `the summary will have no scores: answer.gold has changed since; ${again}`;
  if (goldColumns(settings)?.columns.some((column) => !inputs.has(column)))
    return `the summary will have no scores: output.columns leaves out ${gold}, the column of answer.gold`;
  return null;
}

/**
 * Rows and answers are counted as they are now; costs of both runs are added.
 * @param own the parts of the retry's own summary
 * @param scored whether the scores can be recomputed
 */
export function summaryWith(
  own: SummaryParts,
  { retry }: Manifest,
  settings: Settings,
  scored: boolean,
): StoredSummary {
  if (retry === undefined) throw new Error('only a retry has an output from before');
  const { before, tally } = retry;
  const { gold, require, reuse } = settings;
  const calls = eachOf(CALLS, (name) => before.calls[name] + own.calls[name]);
  const steps = stepsNow(before.details.steps, tally, settings);
  const asked = require && !scored ? { ...require, accuracy: undefined, f1: undefined } : require;
  const { details: _, ...parts } = own;
  const { details: told, ...now } = summarise({
    ...parts,
    run: before.run,
    input: { ...own.input, rows: before.input.rows },
    started_at: before.started_at,
    duration_s: before.duration_s + own.duration_s,
    missed: bothMissed(
      missOf(tally, asked, scored ? steps.abstain : undefined),
      steps.drift ? driftMiss(steps.drift, own.output, reuse.id) : null,
    ),
    tally,
    steps,
    calls,
    ...(own.byEndpoint && {
      byEndpoint: own.byEndpoint.map((each) => {
        const { calls: then = 0, rate_limited = 0 } = before.endpoints?.[each.name] ?? {};
        return { ...each, calls: each.calls + then, rate_limited: each.rate_limited + rate_limited };
      }),
    }),
    hasGold: gold !== null && scored,
    // The retry itself carries nothing over.
    reuses: own.reuses === true || before.reused !== undefined,
    since: {
      ...(before.merged_review && { merged_review: before.merged_review }),
      retried: { rows: (before.retried?.rows ?? 0) + own.tally.rows.total, at: own.finished_at },
    },
    details: detailsOf(own, before, { tally, calls }, settings),
  });
  return {
    ...now,
    // The prices may have changed since, or be gone.
    ...(before.cost !== null &&
      moneyOf(before.cost + (paidFor(own.tally, own) ?? 0), tally, own.currency ?? before.currency)),
    ...(typeof before.saved === 'number' && {
      saved: before.saved + (savedIn(own.tally, own.prices) ?? 0),
    }),
    ...(before.beyond && { beyond: before.beyond }),
    ...(before.rejected && { rejected: before.rejected }),
    ...(before.last_run && { last_run: before.last_run }),
    details: told,
  };
}

/** Keeps the threshold of `answer.abstain`, with its new coverage, and `drift`, with the current alarm. */
function stepsNow({ abstain, drift, ...others }: StepFacts, tally: Tally, settings: Settings): StepFacts {
  const { rows, abstained = 0 } = tally;
  const answered = rows.completed - invalidOf(tally) - abstained;
  const coverage = rows.completed === 0 ? 0 : answered / rows.completed;
  return {
    ...others,
    ...(abstain && { abstain: { ...abstain, coverage } }),
    ...(drift && { drift: { ...drift, alarm: settings.drift?.alarm ?? drift.alarm } }),
  };
}

function detailsOf(
  own: SummaryParts,
  before: StoredSummary,
  { tally, calls }: Pick<SummaryParts, 'tally' | 'calls'>,
  settings: Settings,
): SummaryParts['details'] {
  const { timeline, state, settings: then } = before.details;
  const totals = {
    rows: tally.rows.total,
    failed: tally.rows.failed,
    prompt_tokens: tally.usage.prompt_tokens,
    completion_tokens: tally.usage.completion_tokens,
    sent: calls.sent,
    rate_limited: calls.rate_limited,
  };
  return {
    ...own.details,
    timeline: advanced(timeline, timeline.until_ms + own.duration_s * 1000, totals),
    settings: partValues(settings),
    state: {
      ...state,
      // Those of the other rows: a run that adds rows must match them.
      values: state.values ?? then,
      prompt_tokens: state.prompt_tokens + own.details.state.prompt_tokens,
      completion_tokens: state.completion_tokens + own.details.state.completion_tokens,
    },
  };
}
