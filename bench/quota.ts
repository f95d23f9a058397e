import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { type Case, percent, QUOTAS, QuotaTrial } from './quota-trial.js';

/**
 * How much of a quota is used, and how many calls are refused, with the quota in the job file and without it, by one
 * worker and by several on one store. Counted by the emulator. A worker is a run of its own; all of them have one queue
 * and one quota.
 *
 *   npm run bench:quota -- [--seconds 60] [--cases requests,tokens] [--limits configured,none] [--workers 1,4]
 *                          [--store redis] [--silent] [--change] [--log] [--per-minute 1200] [--latency 300] [--busy]
 *
 * Counted is from ten seconds after the first call on. Without the quota of tokens in the job it is from the first call
 * on, for whole minutes, three times `--seconds`: the first seconds use up the quota of a minute, and later ones of that
 * minute can use none.
 *
 * With `--busy` two threads beside the bench take all of two cores.
 *
 * With `--silent` answers say nothing of the quota in their headers, so that only refusals tell. With `--change` the
 * quota of requests is halved after 20 s and given back 40 s later; counted is what is used and refused in the second
 * 20 s after each change, and the changes of the pace in the first 20 s are shown.
 */
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    cases: { type: 'string', default: 'requests,tokens' },
    limits: { type: 'string', default: 'configured,none' },
    workers: { type: 'string', default: '1,4' },
    store: { type: 'string', default: 'redis' },
    latency: { type: 'string', default: '120' },
    'per-minute': { type: 'string' },
    busy: { type: 'boolean', default: false },
    silent: { type: 'boolean', default: false },
    change: { type: 'boolean', default: false },
    log: { type: 'boolean', default: false },
  },
});
const SKIPPED_S = 10;
const SETTLE_S = 20;
const seconds = Number(values.seconds);

const spinning = values.busy ? [0, 1].map(() => new Worker('for (;;) {}', { eval: true })) : [];
const table: object[] = [];
for (const name of values.cases.split(',')) {
  if (name !== 'requests' && name !== 'tokens') throw new Error(`no such case: ${name}`);
  for (const limits of values.limits.split(',')) {
    for (const workers of values.workers.split(',').map(Number)) {
      await withTrial(name, limits === 'configured', workers);
    }
  }
}
await Promise.all(spinning.map((thread) => thread.terminate()));
console.table(table);

async function withTrial(name: Case, configured: boolean, workers: number): Promise<void> {
  const { silent, store, log } = values;
  const trial = await QuotaTrial.begin({
    name,
    configured,
    workers,
    store,
    silent,
    latencyMs: Number(values.latency),
    perMinute: values['per-minute'] === undefined ? null : Number(values['per-minute']),
    onLine: log ? (line) => console.error(line) : () => {},
  });
  const about = {
    quota: `${values['per-minute'] ?? QUOTAS[name].perMinute} ${QUOTAS[name].unit} a minute`,
    limits: configured ? 'configured' : silent ? 'none, silent' : 'none',
    workers,
  };
  try {
    for (const row of await (values.change ? changes(trial) : steady(trial, name, configured))) {
      table.push({ ...about, ...row });
      console.log(JSON.stringify(table.at(-1)));
    }
  } finally {
    await trial.end();
  }
}

async function steady(trial: QuotaTrial, name: Case, configured: boolean): Promise<object[]> {
  const wholeMinutes = name === 'tokens' && !configured;
  if (!wholeMinutes) await sleep(SKIPPED_S * 1000);
  const count = trial.count();
  await sleep(seconds * (wholeMinutes ? 3000 : 1000));
  const counted = count();
  await trial.stop();
  return [
    {
      ...counted,
      'refused from the start': trial.refused,
      'smallest share, %': percent(Math.min(...trial.rows) / trial.rows.reduce((a, b) => a + b)),
      failed: trial.failed,
    },
  ];
}

async function changes(trial: QuotaTrial): Promise<object[]> {
  await sleep(SETTLE_S * 1000);
  const rows: object[] = [];
  for (const factor of [0.5, 1]) {
    trial.setQuota(factor);
    const told = trial.changes.length;
    await sleep(SETTLE_S * 1000);
    const count = trial.count();
    const reasons = trial.changes.slice(told).map(({ reason, rate }) => `${reason} ${rate}`);
    await sleep(SETTLE_S * 1000);
    rows.push({ 'quota ×': factor, ...count(), 'the log says': reasons.join(', ') });
  }
  await trial.stop();
  return rows.map((row) => ({ ...row, failed: trial.failed }));
}
