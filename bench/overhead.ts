import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { CLI, type Contestant, ENTRIES, type Task } from './contestants.js';
import { Endpoint } from './endpoint.js';
import { writeJob, writeReviews } from './input.js';
import { type Metered, metered } from './meter.js';
import { type Measured, median, type Overhead, occasion, rounded, saveResult } from './results.js';
import { show } from './tables.js';

/**
 * What Promptmill costs beside the calls themselves, side by side with what a user would write or take instead. Everybody
 * does the same: read a CSV, call an endpoint with so many calls in flight, write the answers. In each round everybody
 * runs once in each case; figures are medians over the rounds, ratios are made within a round.
 *
 *   npm run bench -- [--rounds 5] [--rows 30000] [--latency 0,50,200] [--prompt-kb 0.3,3,30] [--concurrency 100]
 *                    [--only redis,openai,…] [--dry]
 *
 * The first latency is measured with every length of prompt, the others with the first length. `--only` leaves others out,
 * but for the bare loop. `--dry` shows the tables and writes nothing.
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    rows: { type: 'string', default: '30000' },
    latency: { type: 'string', default: '0,50,200' },
    'prompt-kb': { type: 'string', default: '0.3,3,30' },
    concurrency: { type: 'string', default: '100' },
    only: { type: 'string' },
    dry: { type: 'boolean', default: false },
  },
});
/** Where the service takes its time, a run lasts so long at the ideal rate, in seconds. */
const LONG_ENOUGH_S = 5;
/** An input has at most so many thousand characters. */
const INPUT_KB = 45_000;
/** Rows of the runs that show how long it takes to the first call. */
const FEW = 100;

interface Case {
  readonly latencyMs: number;
  readonly promptKb: number;
}

/** One run of a contestant. */
interface Run extends Case {
  readonly round: number;
  readonly contestant: string;
  readonly title: string;
  readonly rows: number;
  /** Rows a second from the start of the process to its end. */
  readonly rate: number;
  /** Rows a second from the first call to the last. */
  readonly steadyRate: number;
  readonly ofIdeal: number | null;
  readonly firstCallS: number;
  readonly trips: number | null;
  readonly meter: Metered;
}

const concurrency = Number(values.concurrency);
const folder = mkdtempSync(join(tmpdir(), 'promptmill-bench-'));
const job = writeJob(folder, concurrency);
const cases = casesOf(numbers(values.latency), numbers(values['prompt-kb']));
/** By name; each is written once. */
const inputs = new Map<string, Promise<string>>();
const missing: { title: string; reason: string }[] = [];
const contestants = await ready();
const endpoint = await Endpoint.start();
try {
  const rates: Run[] = [];
  const starts: Run[] = [];
  const versions: Metered[] = [];
  for (let round = 1; round <= Number(values.rounds); round++) {
    console.log(`round ${round} of ${values.rounds}`);
    versions.push(await metered({ args: [CLI, '--version'], env: {} }));
    starts.push(...(await startsOf(round)));
    for (const each of cases) rates.push(...(await everybody(round, each)));
  }
  const overhead: Overhead = {
    ...occasion(),
    rounds: Number(values.rounds),
    concurrency,
    rates: summarise(complete(rates), starts),
    starts: summarise(complete(starts), starts),
    version: {
      seconds: rounded(median(versions.map(({ seconds }) => seconds)), 2),
      modules: median(versions.map(({ modules }) => modules)),
    },
    missing,
  };
  if (!values.dry) saveResult('overhead', overhead);
  show('overhead', { overhead, dry: values.dry });
} finally {
  endpoint.stop();
  for (const { stop } of contestants) await stop?.();
  rmSync(folder, { recursive: true, force: true });
}

function numbers(list: string): number[] {
  return list.split(',').map(Number);
}

function casesOf(latencies: readonly number[], lengths: readonly number[]): Case[] {
  const [latency = 0] = latencies;
  const [length = 0.3] = lengths;
  return [
    ...latencies.map((latencyMs) => ({ latencyMs, promptKb: length })),
    ...lengths.slice(1).map((promptKb) => ({ latencyMs: latency, promptKb })),
  ];
}

async function ready(): Promise<Contestant[]> {
  const wanted = values.only?.split(',');
  const found: Contestant[] = [];
  for (const entry of ENTRIES) {
    if (wanted !== undefined && entry.id !== 'bare' && !wanted.includes(entry.id)) continue;
    try {
      found.push(await entry.ready(entry));
    } catch (error) {
      leaveOut(entry.title, error);
    }
  }
  return found;
}

function leaveOut(title: string, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  console.log(`left out: ${title}: ${reason}`);
  missing.push({ title, reason });
}

async function everybody(round: number, { latencyMs, promptKb }: Case): Promise<Run[]> {
  const runs: Run[] = [];
  for (const contestant of [...contestants]) {
    const rows = rowsOf(contestant, { latencyMs, promptKb });
    const run = await tryOut(contestant, { round, latencyMs, promptKb, rows, state: 'state' });
    if (run !== null) runs.push(run);
  }
  return runs;
}

/** An embedded store is new in one of them. */
async function startsOf(round: number): Promise<Run[]> {
  const runs: Run[] = [];
  const few = { round, latencyMs: 0, promptKb: 0.3, rows: FEW };
  for (const contestant of [...contestants]) {
    if (contestant.id === 'embedded') {
      const first = { ...contestant, id: 'embedded-new', title: `${contestant.title}, new` };
      const run = await tryOut(first, { ...few, state: `state-${round}` });
      if (run !== null) runs.push(run);
    }
    const run = await tryOut(contestant, { ...few, state: `state-${round}` });
    if (run !== null) runs.push(run);
  }
  return runs;
}

function rowsOf({ slow }: Contestant, { latencyMs, promptKb }: Case): number {
  const most = Math.min(Number(values.rows), Math.floor(INPUT_KB / promptKb));
  const rows = latencyMs === 0 ? most : (concurrency / latencyMs) * 1000 * LONG_ENOUGH_S;
  return Math.min(most, Math.max(Math.ceil(rows / slow), 10 * concurrency));
}

/** Who cannot do it is left out from then on; Promptmill and the bare loop have to. */
async function tryOut(
  contestant: Contestant,
  plan: Case & { readonly round: number; readonly rows: number; readonly state: string },
): Promise<Run | null> {
  try {
    const run = await runOf(contestant, plan);
    console.log(
      `  ${contestant.title}, ${plan.latencyMs} ms, ${plan.promptKb} KB: ${plan.rows} rows in ${run.meter.seconds.toFixed(1)} s`,
    );
    return run;
  } catch (error) {
    if (contestant.store !== null || contestant.id === 'bare') throw error;
    leaveOut(contestant.title, error);
    contestants.splice(contestants.indexOf(contestant), 1);
    return null;
  }
}

async function runOf(
  contestant: Contestant,
  plan: Case & { readonly round: number; readonly rows: number; readonly state: string },
): Promise<Run> {
  const { round, latencyMs, promptKb, rows, state } = plan;
  const task: Task = {
    ...{ url: endpoint.url, folder, concurrency, job },
    input: await inputOf(rows, promptKb),
    output: join(folder, `${contestant.id}.csv`),
    stateDir: join(folder, state),
  };
  rmSync(task.output, { force: true });
  await endpoint.begin(latencyMs);
  const meter = await metered(contestant.command(task));
  const { calls, first_ms, last_ms, middle } = await endpoint.stats();
  const lines = readFileSync(task.output, 'utf8').trimEnd().split('\n').length;
  if (calls !== rows || lines <= rows) {
    throw new Error(`${contestant.title}: ${calls} calls and ${lines} lines for ${rows} rows`);
  }
  const ideal = concurrency / latencyMs;
  return {
    ...{ round, latencyMs, promptKb, rows, meter },
    contestant: contestant.id,
    title: contestant.title,
    rate: rows / meter.seconds,
    steadyRate: rows / ((last_ms - first_ms) / 1000),
    ofIdeal: latencyMs === 0 ? null : middle.calls / middle.ms / ideal,
    firstCallS: (first_ms - meter.began_ms) / 1000,
    trips: tripsOf(contestant, meter),
  };
}

function tripsOf({ store }: Contestant, { statements, writes }: Metered): number | null {
  if (store === null) return null;
  return store === 'statements' ? statements : (writes[store] ?? 0);
}

function inputOf(rows: number, promptKb: number): Promise<string> {
  const name = `rows-${rows}-${promptKb}.csv`;
  const known = inputs.get(name) ?? writeReviews(join(folder, name), rows, promptKb);
  inputs.set(name, known);
  return known;
}

/** The runs of those that took part in every round. */
function complete(runs: readonly Run[]): Run[] {
  return runs.filter(({ title }) => missing.every((each) => each.title !== title));
}

/** The medians over the rounds of each contestant in each case. */
function summarise(runs: readonly Run[], starts: readonly Run[]): Measured[] {
  return runs.filter(({ round }) => round === 1).map((first) => medians(first, runs, starts));
}

function medians(first: Run, all: readonly Run[], starts: readonly Run[]): Measured {
  const group = all.filter((run) => run.contestant === first.contestant && sameCase(run, first));
  const { contestant, title, latencyMs, promptKb, rows } = first;
  const middle = (figure: (run: Run) => number, digits: number): number =>
    rounded(median(group.map(figure)), digits);
  const middleOrNull = (figure: (run: Run) => number | null, digits: number): number | null => {
    const figures = group.map(figure).filter((each) => each !== null);
    return figures.length < group.length ? null : rounded(median(figures), digits);
  };
  const rates = group.map(({ rate }) => Math.round(rate));
  return {
    ...{ contestant, title, rows },
    latency_ms: latencyMs,
    prompt_kb: promptKb,
    rows_per_second: middle(rateOf, 0),
    of_bare: middleOrNull((run) => ratio(run, 'bare', all, rateOf), 2),
    of_openai: middleOrNull((run) => ratio(run, 'openai', all, rateOf), 2),
    of_ideal: middleOrNull(({ ofIdeal }) => ofIdeal, 3),
    steady_rows_per_second: middle(steadyRateOf, 0),
    steady_of_bare: middleOrNull((run) => ratio(run, 'bare', all, steadyRateOf), 2),
    steady_cpu_us_per_row: middleOrNull((run) => steadyCpu(run, starts), 0),
    cpu_us_per_row: middle(({ meter }) => meter.cpu_us / rows, 0),
    main_us_per_row: middle(({ meter }) => (meter.main_us ?? Number.NaN) / rows, 0),
    peak_mb: middle(({ meter }) => meter.peak_bytes / 1e6, 0),
    first_call_s: middle(({ firstCallS }) => firstCallS, 2),
    trips_per_row: middleOrNull(({ trips }) => (trips === null ? null : trips / rows), 2),
    modules: middle(({ meter }) => meter.modules, 0),
    spread: [Math.min(...rates), Math.max(...rates)],
  };
}

function rateOf({ rate }: Run): number {
  return rate;
}

function steadyRateOf({ steadyRate }: Run): number {
  return steadyRate;
}

/** The rate of a run, of that of another contestant in the same round and case; null where that one is missing. */
function ratio(run: Run, id: string, all: readonly Run[], rate: (run: Run) => number): number | null {
  const other = all.find((each) => each.contestant === id && each.round === run.round && sameCase(each, run));
  return other === undefined ? null : rate(run) / rate(other);
}

/** CPU for each row beyond those of the contestant's start in the same round, in µs; null where there are none. */
function steadyCpu({ contestant, round, rows, meter }: Run, starts: readonly Run[]): number | null {
  const start = starts.find((each) => each.contestant === contestant && each.round === round);
  if (start === undefined || rows <= start.rows) return null;
  return (meter.cpu_us - start.meter.cpu_us) / (rows - start.rows);
}

function sameCase(a: Case, b: Case): boolean {
  return a.latencyMs === b.latencyMs && a.promptKb === b.promptKb;
}
