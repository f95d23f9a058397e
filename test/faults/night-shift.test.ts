import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import './figures.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { Serve } from '../support/serve.js';

const ROWS = 40;
/** The schedule starts a run each time that the clock shows a multiple of this, in milliseconds. */
const EVERY_MS = 2_000;
const CONCURRENCY = 8;
/** Rows of each run that are answered while the others are held back. */
const ANSWERED = 15;

let work: Workplace;
let service: ScriptedService;
let serves: Serve[];
/** Rows in flight, by prompt: two runs of one job at a time would call one row twice at once. */
let inFlight: string[];
let doubled: string[];
let held: Promise<void> | null;
let release: () => void;
let onCall: () => void;

beforeEach(async () => {
  [work, serves, inFlight, doubled, held] = [new Workplace(), [], [], [], null];
  [release, onCall] = [() => {}, () => {}];
  service = await startScriptedService(async ({ prompt }) => {
    if (inFlight.includes(prompt)) doubled.push(prompt);
    inFlight.push(prompt);
    onCall();
    if (Number(prompt.slice('row '.length)) > ANSWERED) await held;
    inFlight.splice(inFlight.indexOf(prompt), 1);
    return { json: completionBody({ text: ` re ${prompt}` }) };
  });
});
afterEach(async () => {
  release();
  for (const { running } of serves) {
    running.process.kill('SIGKILL');
    await running.ended;
  }
  await service.close();
  work.remove();
});

function serve(): Serve {
  const env = { PROMPTMILL_BASE_URL: service.url };
  const started = new Serve(work.start(['serve', '--no-dashboard'], env));
  serves.push(started);
  return started;
}

/** From now on the later rows of each run are not answered, until `release`. */
function hold(): void {
  held = new Promise((resolve) => {
    release = () => {
      held = null;
      resolve();
    };
  });
}

/** Resolves when as many calls are held back as can be in flight. */
async function full(): Promise<void> {
  while (inFlight.length < CONCURRENCY) {
    await new Promise<void>((resolve) => {
      onCall = resolve;
    });
  }
}

/** Dated outputs with this ending, in the order in which their runs began. */
const outputs = (ending: string): string[] =>
  readdirSync(work.path('out'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .sort()
    .map((name) => `out/${name}`);

it('fault 47: runs of a job that takes longer than its schedule never overlap; killed, its run is completed and what was missed caught up once', async ({
  task,
}) => {
  work.job(
    {
      name: 'often',
      input: { path: work.rows(ROWS) },
      output: { path: 'out/{{date}}/{{run}}.csv' },
      limits: { concurrency: CONCURRENCY, chunk_size: 5 },
      schedule: { cron: '*/2 * * * * *', timezone: 'Europe/Berlin' },
    },
    'jobs/often.yaml',
  );

  // Each run is held until the schedule has fired into it.
  hold();
  const first = serve();
  await first.logs(/^skipped: still running since/);
  release();
  await first.logs(/^finished: 40 rows = 40 completed/);
  hold();
  await first.logs(/^skipped: still running since/, first.logged(/^skipped/).length + 1);
  release();
  await first.logs(/^finished/, 2);

  hold();
  await full();
  expect(doubled).toEqual([]);
  first.running.process.kill('SIGKILL');
  await first.running.ended;
  expect(outputs('.run.json')).toHaveLength(1);
  release();
  hold();
  // One more time of the schedule passes while nothing serves.
  await sleep(EVERY_MS - (Date.now() % EVERY_MS) + 1);

  const second = serve();
  await second.logs(/^its run was interrupted, and goes on/);
  // It is due, and waits for the run that was interrupted.
  await second.logs(/^catching up/);
  expect(second.logged(/^finished/)).toEqual([]);
  release();
  await second.logs(/^finished/, 3);
  expect(second.logged(/^continuing run/)).toHaveLength(1);
  expect(second.logged(/^catching up/)).toHaveLength(1);

  hold();
  await full();
  second.running.process.kill('SIGTERM');
  await second.logs(/^leaving: what runs goes on with the next serve/);
  release();
  expect(await second.running.ended).toMatchObject({ code: 0 });

  const whole = outputs('.csv');
  expect(whole).toHaveLength(first.logged(/^finished/).length + second.logged(/^finished/).length);
  expect(outputs('.run.json')).toHaveLength(1);
  for (const path of whole) {
    expect(path).toMatch(/^out\/\d{4}-\d\d-\d\d\/\d{8}-\d{6}-[0-9a-f]{6}\.csv$/);
    const rows = work.records(path).map(({ id, status, answer }) => `${id} ${status} ${answer}`);
    expect(rows).toEqual(Array.from({ length: ROWS }, (_, i) => `${i + 1} completed re row ${i + 1}`));
  }
  // The client of the killed process is gone, and its calls are still held at the service.
  expect(doubled.length).toBeLessThanOrEqual(CONCURRENCY);
  task.meta.fault = { rows: whole.length * ROWS };
});
