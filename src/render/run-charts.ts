import { coarser, pointsOf, type Timeline, type TimelinePoint } from '../account/timeline.js';
import { duration, percent } from '../core/figures.js';
import type { Chart } from './document.js';
import type { RunReport } from './run-report.js';

/** With fewer points, a picture shows no more than a table. */
const FEWEST = { bins: 2, buckets: 4 } as const;
const MOST_STEPS = 60;

type ChartId = `${'rows' | 'latency' | 'calls' | 'tokens'}-over-time` | 'reliability' | 'coverage';

type RunChart = Chart & { readonly id: ChartId };

export const runCharts = ({ charts, summary: { details } }: RunReport): RunChart[] => [
  ...scoreCharts(charts),
  ...timeCharts(stepsOf(details.timeline), charts),
];

function stepsOf(timeline: Timeline): readonly TimelinePoint[] {
  const points = pointsOf(coarser(timeline, MOST_STEPS));
  return points.length < FEWEST.buckets ? [] : points;
}

const SHARE = { format: '.0%' } as const;

function scoreCharts({ reliability, coverage }: RunReport['charts']): RunChart[] {
  if (reliability.length < FEWEST.bins) return [];
  const accuracies = coverage.map(({ accuracy }) => accuracy);
  const least = Math.min(0.9, Math.floor(Math.min(...accuracies) * 10) / 10);
  const whole: readonly [number, number] = [0, 1];
  return [
    {
      id: 'reliability',
      title: 'Reliability',
      description:
        'How often answers of a confidence are right. On the dashed line they are right as often as the model is sure.',
      x: {
        title: 'confidence',
        domain: whole,
        ...SHARE,
        values: reliability.map(({ confidence }) => confidence),
        texts: reliability.map(
          ({ from, to, rows, confidence }) =>
            `${percent(from, 1)} to ${percent(to, 1)}, mean ${percent(confidence, 1)}, ${rows} rows`,
        ),
      },
      y: { title: 'right', domain: whole, ...SHARE },
      series: [
        inShares(
          'right',
          reliability.map(({ accuracy }) => accuracy),
        ),
      ],
      diagonal: true,
    },
    {
      id: 'coverage',
      title: 'Coverage against accuracy',
      description: 'What is right of the answers that are left, when those below a confidence are left out.',
      x: {
        title: 'answers left',
        domain: whole,
        ...SHARE,
        values: coverage.map(({ coverage }) => coverage),
        texts: coverage.map(
          ({ threshold, coverage }) => `above ${percent(threshold, 1)}: ${percent(coverage, 1)} left`,
        ),
      },
      y: { title: 'right', domain: [least, 1], ...SHARE },
      series: [inShares('right', accuracies)],
    },
  ];
}

const inShares = (name: string, values: readonly number[]) => ({
  name,
  kind: 'first' as const,
  values,
  texts: values.map((value) => percent(value, 1)),
});

function timeCharts(
  timeline: readonly TimelinePoint[],
  { requests_per_minute, tokens_per_minute }: RunReport['charts'],
): RunChart[] {
  const [first] = timeline;
  if (first === undefined) return [];
  const x = workedTime(timeline);
  // The last period is incomplete: dividing by its short time would show a peak.
  const least = (first.to_s - first.from_s) / 2;
  const perSecond = (value: (point: TimelinePoint) => number) =>
    timeline.map((point) => value(point) / Math.max(least, point.to_s - point.from_s));
  const perMinute = (value: (point: TimelinePoint) => number) => perSecond((point) => value(point) * 60);
  const slow = timeline.some(({ latency_max_ms: ms }) => (ms ?? 0) >= 2_000);
  const inUnit = (ms: number | null) => (ms === null || !slow ? ms : ms / 1000);
  return [
    {
      id: 'rows-over-time',
      title: 'Rows over time',
      description: 'Rows that ended in a second, those included that needed no call.',
      x,
      y: { title: 'rows per second' },
      form: 'areas',
      series: [
        ...(timeline.some(({ failed }) => failed > 0)
          ? [{ name: 'failed', kind: 'failed' as const, values: perSecond(({ failed }) => failed) }]
          : []),
        {
          name: 'others',
          kind: 'first',
          values: perSecond(({ rows, failed }) => Math.max(0, rows - failed)),
        },
      ],
    },
    {
      id: 'latency-over-time',
      title: 'Latency over time',
      description: 'How long the calls took that rows ended with.',
      x,
      y: { title: slow ? 'seconds' : 'milliseconds' },
      form: 'steps',
      series: [
        { name: 'mean', kind: 'first', values: timeline.map((point) => inUnit(point.latency_mean_ms)) },
        { name: 'longest', kind: 'second', values: timeline.map((point) => inUnit(point.latency_max_ms)) },
      ],
    },
    {
      id: 'calls-over-time',
      title: 'Calls over time',
      description:
        'Calls in a minute, and those of them that the service refused because there were too many.',
      x,
      y: { title: 'calls per minute' },
      form: 'steps',
      series: [
        { name: 'sent', kind: 'first', values: perMinute(({ sent }) => sent) },
        { name: 'refused', kind: 'filtered', values: perMinute(({ rate_limited }) => rate_limited) },
      ],
      limit: requests_per_minute,
    },
    {
      id: 'tokens-over-time',
      title: 'Tokens over time',
      description: 'Tokens that the service billed in a minute.',
      x,
      y: { title: 'tokens per minute' },
      form: 'areas',
      series: [
        {
          name: 'completion',
          kind: 'second',
          values: perMinute(({ completion_tokens }) => completion_tokens),
        },
        { name: 'prompt', kind: 'first', values: perMinute(({ prompt_tokens }) => prompt_tokens) },
      ],
      limit: tokens_per_minute,
    },
  ];
}

function workedTime(timeline: readonly TimelinePoint[]): Chart['x'] {
  const end = timeline.at(-1)?.to_s ?? 0;
  const [unit, seconds] = UNITS.find(([, , most]) => end <= most) ?? UNITS[2];
  return {
    title: `${unit} of work`,
    domain: [0, end / seconds],
    values: timeline.map(({ from_s }) => from_s / seconds),
    end: end / seconds,
    texts: timeline.map(({ from_s, to_s }) => `${duration(from_s)} to ${duration(to_s)}`),
  };
}

/** Up to a length of the run in seconds. */
const UNITS = [
  ['seconds', 1, 180],
  ['minutes', 60, 3 * 3600],
  ['hours', 3600, Number.POSITIVE_INFINITY],
] as const;
