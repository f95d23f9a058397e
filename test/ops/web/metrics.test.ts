import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MemoryBeats, runBeat, workerBeat } from './beats.js';
import { type Dashboard, startDashboard } from './dashboard.js';

const RUN = 'job="review-sentiment",run="20261121-020000-aaaaaa"';
const QUEUE = 'queue="promptmill-lm-35-turbo-instruct-1234abcd"';

const scores = {
  rows: 40,
  unanswered: 2,
  accuracy: { value: 0.9, low: 0.77, high: 0.96 },
  majority: null,
  abstained: 0,
  answered: 40,
  answered_accuracy: 0.9,
  macro_f1: 0.88,
  kappa: 0.8,
  brier: 0.125,
  ece: 0.0625,
  confusions: [],
  calibration: [],
  labels: {},
  confusion: {},
  properties: {},
};

describe('the metrics', () => {
  let dashboard: Dashboard;
  let lines: readonly string[];
  beforeAll(async () => {
    const beats = new MemoryBeats();
    const answer_sources = { read: 300, repaired: 0, asked_again: 115, voted: 0, escalated: 0 };
    await beats.run(runBeat({}, { answers_invalid: 45, answer_sources }));
    await beats.run(runBeat({}, { job: 'scored', scores }, 'scored'));
    await beats.run(runBeat({ waiting: 'the store' }, { job: 'a "b"\n{c}' }, 'odd-name'));
    await beats.run(runBeat({}, { job: 'killed' }, 'killed'), 60_000);
    await beats.run(runBeat({ state: 'finished' }, { finished_at: '2026-01-01T00:00:00.000Z' }, 'long-ago'));
    await beats.worker(workerBeat());
    dashboard = await startDashboard({ beats });
    lines = (await dashboard.get('/metrics')).body.split('\n');
  });
  afterAll(() => dashboard.close());

  it('are those of the board', () => {
    const expected = [
      `promptmill_rows_total{${RUN},outcome="completed"} 460`,
      `promptmill_rows_total{${RUN},outcome="skipped"} 12`,
      `promptmill_answers_invalid_total{${RUN}} 45`,
      `promptmill_answers_total{${RUN},source="read"} 300`,
      `promptmill_answers_total{${RUN},source="asked_again"} 115`,
      `promptmill_tokens_total{${RUN},kind="completion"} 900`,
      `promptmill_run_calls_total{${RUN},what="rate_limited"} 7`,
      `promptmill_run_input_rows{${RUN}} 1000`,
      `promptmill_run_known_rows{${RUN}} 500`,
      `promptmill_run_cost{${RUN}} 0.0198`,
      'promptmill_run_scored_rows{job="scored",run="scored"} 40',
      'promptmill_run_accuracy{job="scored",run="scored"} 0.9',
      'promptmill_run_brier{job="scored",run="scored"} 0.125',
      'promptmill_run_ece{job="scored",run="scored"} 0.0625',
      `promptmill_run_waiting{${RUN}} 0`,
      'promptmill_run_waiting{job="a \\"b\\"\\n{c}",run="odd-name"} 1',
      `promptmill_run_state{${RUN},state="running"} 1`,
      `promptmill_run_state{${RUN},state="lost"} 0`,
      'promptmill_run_state{job="killed",run="killed",state="lost"} 1',
      `promptmill_run_info{${RUN},deployment="lm-35-turbo-instruct",${QUEUE},host="night1"} 1`,
      'promptmill_calls_total{worker="night1-4711-9f3a",status="429"} 7',
      'promptmill_calls_total{worker="night1-4711-9f3a",status="timeout"} 3',
      'promptmill_worker_rows_total{worker="night1-4711-9f3a"} 480',
      `promptmill_concurrency_limit{worker="night1-4711-9f3a",${QUEUE}} 8`,
      `promptmill_in_flight{worker="night1-4711-9f3a",${QUEUE}} 6`,
      `promptmill_worker_waiting{worker="night1-4711-9f3a",${QUEUE}} 0`,
      'promptmill_store_up 1',
      'promptmill_build_info{version="1.2.3"} 1',
    ];
    expect(lines).toEqual(expect.arrayContaining(expected));
  });

  it('have scores of jobs with gold only', () => {
    expect(
      lines.some(
        (line) => /^promptmill_run_(scored_rows|accuracy|brier|ece)\{/.test(line) && line.includes(RUN),
      ),
    ).toBe(false);
  });

  it('have the latency as a histogram in seconds, with buckets that hold the smaller ones', () => {
    const of = (name: string) =>
      lines
        .find((line) => line.startsWith(`promptmill_run_latency_seconds_${name}`) && line.includes(RUN))
        ?.split(' ')[1];
    // Calls of 100, 200, 300 and 900 ms.
    expect([
      of(`bucket{${RUN},le="0.05"}`),
      of(`bucket{${RUN},le="0.25"}`),
      of(`bucket{${RUN},le="0.5"}`),
    ]).toEqual(['0', '2', '3']);
    expect([of(`bucket{${RUN},le="1"}`), of(`bucket{${RUN},le="+Inf"}`), of('count')]).toEqual([
      '4',
      '4',
      '4',
    ]);
    expect(Number(of('sum'))).toBeCloseTo(1.5, 1);
  });

  it('leave out runs that ended more than a day ago', () => {
    expect(lines.filter((line) => line.includes('long-ago'))).toEqual([]);
  });

  it('have the memory and the processor time of the process that serves them', () => {
    expect(lines.some((line) => line.startsWith('process_resident_memory_bytes '))).toBe(true);
  });

  it('outlive beats that somebody forged', async () => {
    const beats = new MemoryBeats();
    await beats.put('run', 'not-json', '{');
    await beats.put('run', 'no-run', '{"v":1}');
    const { calls } = runBeat().summary;
    await beats.run(runBeat({}, { calls: { ...calls, sent: -7 } }, 'negative'));
    await beats.put('run', 'somebody', JSON.stringify(runBeat({}, {}, 'somebody-else')));
    await beats.run(runBeat({ latency: { histogram: 'no histogram', max: 1 } }, {}, 'no-histogram'));
    await beats.worker(workerBeat({ calls: { '200': -5 } }));
    await beats.run(runBeat({}, {}, 'good'));
    const forged = await startDashboard({ beats });
    try {
      const { status, body } = await forged.get('/metrics');
      expect(status).toBe(200);
      expect(body).toContain('run="good",outcome="completed"} 460');
      expect(body).toContain('run="negative",what="sent"} 0');
      expect(body).not.toContain('somebody-else');
      expect(body).toContain('status="200"} 0');
      expect(body).not.toMatch(/latency.*run="no-histogram"/);
    } finally {
      await forged.close();
    }
  });

  it('have every name that the Grafana dashboard asks for', () => {
    const grafana = readFileSync(join(import.meta.dirname, '../../../docs/grafana.json'), 'utf8');
    const asked = new Set(grafana.match(/promptmill_\w+/g));
    const told = new Set(lines.flatMap((line) => /^# TYPE (\S+) (\S+)/.exec(line)?.slice(1, 2) ?? []));
    const histogram = ['_bucket', '_sum', '_count'].map((end) => `promptmill_run_latency_seconds${end}`);
    expect([...asked].filter((name) => !told.has(name) && !histogram.includes(name))).toEqual([]);
    expect(asked.size).toBeGreaterThan(10);
  });
});
