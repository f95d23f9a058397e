import { describe, expect, it } from 'vitest';
import { demandOf, type ServedQueues, unserved } from '../../src/ops/demand.js';
import { RUN_LOST_MS, type RunHeartbeat, readRuns, readWorkers } from '../../src/ops/heartbeat.js';
import { serviceQueue } from '../../src/queue/names.js';
import { runBeat, workerBeat } from './samples.js';

const address = { baseUrl: 'https://here.example', segment: 'openai' };
const queueOf = (deployment: string): string => serviceQueue(deployment, address);
const place: ServedQueues = {
  has: (queue, deployment) => queue === queueOf(deployment),
  deployments: null,
};
const HERE = queueOf('lm-35');

const demand = (beats: readonly (readonly [RunHeartbeat, number])[], where: ServedQueues = place) =>
  demandOf(
    beats.map(([beat, ageMs]) => ({ beat, ageMs })),
    where,
  );

describe('what the board wants of a worker', () => {
  it('is each queue of its own address in which a run goes on, once', () => {
    const second = runBeat({ run: 'b', queue: HERE });
    expect(
      demand([
        [runBeat({ queue: HERE }), 0],
        [second, 0],
      ]).wanted,
    ).toEqual([{ queue: HERE, deployment: 'lm-35', limits: second.limits, answered: true }]);
  });

  it('has the limits of the run that began last', () => {
    const limits = { ...runBeat().limits, requests_per_minute: 60 };
    const later = runBeat({ run: 'b', queue: HERE, limits }, 'reviews', '2026-11-21T03:00:00Z');
    for (const beats of [
      [runBeat({ queue: HERE }), later],
      [later, runBeat({ queue: HERE })],
    ]) {
      expect(demand(beats.map((beat) => [beat, 0])).wanted[0]?.limits.requests_per_minute).toBe(60);
    }
  });

  it('is nothing for runs that ended, were killed, or call an emulator of their own', () => {
    const found = demand([
      [runBeat({ queue: HERE, state: 'finished' }), 0],
      [runBeat({ queue: HERE, run: 'b' }), RUN_LOST_MS + 1],
      [runBeat({ queue: HERE, run: 'c', emulated: true }), 0],
    ]);
    expect(found).toEqual({ wanted: [], elsewhere: [] });
  });

  it('is only what it was started for', () => {
    const other = { ...place, deployments: new Set(['another']) };
    expect(demand([[runBeat({ queue: HERE }), 0]], other)).toEqual({ wanted: [], elsewhere: [] });
    expect(
      demand([[runBeat({ queue: HERE }), 0]], { ...place, deployments: new Set(['lm-35']) }).wanted,
    ).toHaveLength(1);
  });

  it('leaves out runs of other addresses, and tells those that nobody works for', () => {
    const there = runBeat({ queue: serviceQueue('lm-35', { ...address, baseUrl: 'https://there.example' }) });
    const { wanted, elsewhere } = demand([[there, 0]]);
    expect({ wanted, elsewhere }).toEqual({
      wanted: [],
      elsewhere: [{ queue: there.queue, several: false }],
    });
    const busy = workerBeat({
      queues: [
        { queue: there.queue, deployment: 'lm-35', concurrency: 1, in_flight: 1, waiting: null, quota: null },
      ],
    });
    expect(unserved(elsewhere, [{ beat: workerBeat(), ageMs: 0 }])).toEqual(elsewhere);
    expect(unserved(elsewhere, [{ beat: busy, ageMs: 0 }])).toEqual([]);
  });

  it('is told apart for runs with several endpoints', () => {
    const { summary } = runBeat();
    const endpoints = { west: { calls: 0, rows: 0, usage: summary.usage, cost: null, rate_limited: 0 } };
    const of = { ...summary, endpoints, deployment: 'd-west, d-east' };
    const set = runBeat({ queue: 'of-the-set', summary: of });
    const jobs: ServedQueues = { has: (queue) => queue === 'of-the-set', deployments: null };
    expect(demand([[set, 0]])).toEqual({ wanted: [], elsewhere: [{ queue: 'of-the-set', several: true }] });
    expect(demand([[set, 0]], jobs).wanted.map(({ queue }) => queue)).toEqual(['of-the-set']);
  });

  it('fault 58: is a queue whose name it computes, whatever a forged beat says', () => {
    const forged = { ...runBeat().summary, deployment: '../../lm-35' };
    const found = demand([
      [runBeat({ queue: 'bull:victim' }), 0],
      [runBeat({ queue: HERE, summary: forged, run: 'b' }), 0],
    ]);
    expect(found.wanted).toEqual([]);
    expect(found.elsewhere).toHaveLength(2);
    const consistent = runBeat({ queue: queueOf('../../lm-35'), summary: forged });
    expect(demand([[consistent, 0]]).wanted.map(({ queue }) => queue)).toEqual([queueOf('../../lm-35')]);
    expect(queueOf('../../lm-35')).toMatch(/^promptmill-[\w.-]+$/);
  });

  it('is the same queue with a slash at the end of the address', () => {
    expect(serviceQueue('lm-35', { ...address, baseUrl: 'https://here.example/' })).toBe(HERE);
  });
});

describe('the beats of a board', () => {
  const text = JSON.stringify(runBeat());
  const listed = (name: string, content: string) => ({ name, text: content, ageMs: 5 });

  it('are read as they were written', () => {
    expect(readRuns([listed(runBeat().run, text)])).toEqual([{ beat: runBeat(), ageMs: 5 }]);
    const worker = workerBeat();
    expect(readWorkers([listed(worker.id, JSON.stringify(worker))])).toEqual([{ beat: worker, ageMs: 5 }]);
  });

  it.each([
    ['no JSON', 'forged {'],
    ['another version', JSON.stringify({ ...runBeat(), v: 2 })],
    ['an array', '[]'],
    ['a part', JSON.stringify({ ...runBeat(), summary: { run: 'x' } })],
    [
      'limits that no job can have',
      JSON.stringify(runBeat({ limits: { ...runBeat().limits, chunk_size: 0 } })),
    ],
    [
      'a quota below nothing',
      JSON.stringify(runBeat({ limits: { ...runBeat().limits, requests_per_minute: -1 } })),
    ],
  ])('are left out when they are %s', (_, forged) => {
    expect(readRuns([listed(runBeat().run, forged)])).toEqual([]);
    expect(readWorkers([listed(workerBeat().id, forged)])).toEqual([]);
  });

  it('are left out when they hang in the place of another', () => {
    expect(readRuns([listed('another', text)])).toEqual([]);
    expect(readWorkers([listed('another', JSON.stringify(workerBeat()))])).toEqual([]);
  });
});
