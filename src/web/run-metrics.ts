import { Counter, Gauge, type Registry } from 'prom-client';
import { LatencyHistogram } from './latency-histogram.js';
import type { WatchedRun } from './watch.js';

const STATES = ['running', 'lost', 'finished', 'stopped', 'interrupted'] as const;
const OUTCOMES = ['completed', 'filtered', 'failed', 'skipped'] as const;
const CALLS = ['sent', 'retried', 'rate_limited', 'repeated'] as const;

/** A label out of a beat is cut to this many characters. */
const LABEL_LENGTH = 200;

/** What runs say of themselves, as metrics with the labels `job` and `run`. */
export function addRunMetrics(registry: Registry, runs: readonly WatchedRun[]): void {
  const registers = [registry];
  const of = ['job', 'run'] as const;
  const counter = <L extends string>(name: string, help: string, labels: readonly L[]) =>
    new Counter({ name, help, labelNames: [...of, ...labels], registers });
  const gauge = <L extends string>(name: string, help: string, labels: readonly L[] = []) =>
    new Gauge({ name, help, labelNames: [...of, ...labels], registers });

  const rows = counter('promptmill_rows_total', 'Rows in the output, by how they ended', ['outcome']);
  const tokens = counter('promptmill_tokens_total', 'Tokens that the service billed', ['kind']);
  const calls = counter(
    'promptmill_run_calls_total',
    'Calls of a run: sent; of these retried, refused with 429; rows perhaps paid for twice',
    ['what'],
  );
  const latency = new LatencyHistogram(registry);
  const input = gauge('promptmill_run_input_rows', 'Rows of the input');
  const known = gauge('promptmill_run_known_rows', 'Rows whose outcome is known, on disk or in the ledger');
  const cost = gauge('promptmill_run_cost', 'Cost so far, in the currency of the prices of the job');
  const duration = gauge('promptmill_run_duration_seconds', 'How long a run has taken');
  const waiting = gauge('promptmill_run_waiting', 'Whether a run waits for something');
  const age = gauge('promptmill_run_post_age_seconds', 'Time since a run last said how it gets on');
  const state = gauge('promptmill_run_state', '1 for the state that a run is in, 0 for the others', [
    'state',
  ]);
  const info = gauge('promptmill_run_info', 'Always 1; labels tell about a run', [
    'deployment',
    'queue',
    'host',
  ]);

  for (const { beat, standing, ageMs } of runs) {
    const { summary } = beat;
    const labels = { job: cut(summary.job), run: beat.run };
    for (const outcome of OUTCOMES) rows.inc({ ...labels, outcome }, atLeast0(summary.rows[outcome]));
    tokens.inc({ ...labels, kind: 'prompt' }, atLeast0(summary.usage.prompt_tokens));
    tokens.inc({ ...labels, kind: 'completion' }, atLeast0(summary.usage.completion_tokens));
    for (const what of CALLS) calls.inc({ ...labels, what }, atLeast0(summary.calls[what]));
    latency.add(labels, beat.latency);
    input.set(labels, summary.input.rows);
    known.set(labels, beat.known);
    if (summary.cost !== null) cost.set(labels, summary.cost);
    duration.set(labels, summary.duration_s);
    waiting.set(labels, beat.waiting === null ? 0 : 1);
    age.set(labels, ageMs / 1000);
    for (const one of STATES) state.set({ ...labels, state: one }, one === standing ? 1 : 0);
    info.set(
      { ...labels, deployment: cut(summary.deployment), queue: cut(beat.queue), host: cut(beat.host) },
      1,
    );
  }
}

const cut = (text: string): string => text.slice(0, LABEL_LENGTH);

/** A counter refuses less than 0, which only a forged beat has; the others shall be counted all the same. */
export const atLeast0 = (value: number): number => Math.max(0, value);
