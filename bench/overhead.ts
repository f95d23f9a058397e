import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { CLI, type Contestant, ENTRIES, type Task } from './contestants.js';
import { Endpoint } from './endpoint.js';
import { writeJob, writeReviews } from './input.js';
import { type Command, counted, type Metered, metered } from './meter.js';
import {
  type Counted,
  type Measured,
  median,
  type Overhead,
  occasion,
  rounded,
  saveResult,
} from './results.js';
import type { EndpointStats } from './stub.js';
import { show } from './tables.js';

/**
 * What Promptmill costs beside the calls themselves, side by side with what a user would write or take instead. Everybody
 * does the same: read a CSV, call an endpoint with so many calls in flight, write the answers. In each round everybody
 * runs once in each case; figures are medians over the rounds, ratios are made within a round. What is counted and not
 * measured (modules, round trips) comes from one run of each before the first round.
 *
 *   npm run bench -- [--rounds 5] [--minutes 20] [--rows 30000] [--latency 0,50,200] [--prompt-kb 0.3,3,30] [--concurrency 100]
 *                    [--only redis,openai,…] [--dry]
 *
 * The first latency is measured with every length of prompt, the others with the first length. `--only` leaves others out,
 * but for the bare loop. With `--minutes` no round begins that would not be over by then. Whoever fails is left out from
 * that round on. `--dry` shows the tables and writes nothing.
 */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    minutes: { type: 'string', default: 'Infinity' },
    rows: { type: 'string', default: '30000' },
    latency: { type: 'string', default: '0,50,200' },
    'prompt-kb': { type: 'string', default: '0.3,3,30' },
    concurrency: { type: 'string', default: '100' },
    only: { type: 'string' },
    dry: { type: 'boolean', default: false },
  },
});
/** Where the service takes its time, a run lasts so long at the ideal rate, in seconds. */
const LONG_ENOUGH_S = 4;
/** An input has at most so many thousand characters. */
const INPUT_KB = 30_000;
/** Rows of the runs that show how long it takes to the first call. */
const FEW = 100;
/** At most so many rows are run to count the round trips to the store. */
const COUNTED = 10_000;

interface Case {
  readonly latencyMs: number;
  readonly promptKb: number;
}

/** What a contestant is to do. */
interface Plan extends Case {
  readonly round: number;
  readonly rows: number;
  /** Where the state directory is, in the folder of the bench. */
  readonly state: string;
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
  readonly meter: Metered;
}

const concurrency = Number(values.concurrency);
const folder = mkdtempSync(join(tmpdir(), 'promptmill-bench-'));
const job = writeJob(folder, concurrency);
const cases = casesOf(numbers(values.latency), numbers(values['prompt-kb']));
/** By name; each is written once. */
const inputs = new Map<string, Promise<string>>();
const missing: Overhead['missing'][number][] = [];
const contestants = await ready();
const endpoint = await Endpoint.start();
try {
  const rates: Run[] = [];
  const starts: Run[] = [];
  const versions: { readonly promptmill: Metered; readonly node: Metered }[] = [];
  const version: Command = { args: [CLI, '--version'], env: {} };
  const node: Command = { args: ['--eval', '0'], env: {} };
  console.log('counting, before the first round');
  const counts = await countsOf();
  const { modules } = await counted(version);
  let rounds = 0;
  for (let longestMs = 0; rounds < Number(values.rounds); rounds++) {
    if (rounds > 0 && performance.now() + longestMs > Number(values.minutes) * 60_000) break;
    const began = performance.now();
    console.log(`round ${rounds + 1} of ${values.rounds}`);
    versions.push({ promptmill: await metered(version), node: await metered(node) });
    starts.push(...(await startsOf(rounds + 1)));
    for (const each of cases) rates.push(...(await everybody(rounds + 1, each)));
    longestMs = Math.max(longestMs, performance.now() - began);
    console.log(`  ${((performance.now() - began) / 1000).toFixed(0)} s in all`);
  }
  const ofNode = (figure: (metered: Metered) => number): number =>
    rounded(median(versions.map(({ promptmill, node }) => figure(promptmill) / figure(node))), 2);
  const overhead: Overhead = {
    ...occasion(),
    rounds,
    concurrency,
    rates: summarise(complete(rates), starts),
    starts: summarise(complete(starts), starts),
    version: {
      time_of_node: ofNode(({ seconds }) => seconds),
      cpu_of_node: ofNode(({ cpu_us }) => cpu_us),
      modules,
    },
    counts,
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
      leaveOut(entry, 0, error);
    }
  }
  return found;
}

/** From a round on; from all of them at 0. */
function isLeftOut(id: string): boolean {
  return missing.some(({ contestant }) => contestant === id);
}

function leaveOut(
  { id, title }: { readonly id: string; readonly title: string },
  from: number,
  error: unknown,
): void {
  const reason = error instanceof Error ? error.message : String(error);
  console.log(`  left out from now on: ${title}: ${reason}`);
  missing.push({ contestant: id, title, from, reason });
}

async function countsOf(): Promise<Counted[]> {
  const all: Counted[] = [];
  for (const contestant of [...contestants]) {
    const { id: name, title, store } = contestant;
    const rows = store === null ? FEW : Math.min(COUNTED, Number(values.rows));
    const plan = { round: 0, latencyMs: 0, promptKb: 0.3, rows, state: 'state' };
    const found = await orLeaveOut(contestant, plan, async () => {
      const { figures } = await runOf(contestant, plan, counted);
      const { writes, changes, modules } = figures;
      const trips = store === 'ledger' ? changes : (writes[store ?? ''] ?? 0);
      return {
        contestant: name,
        title,
        modules,
        trips_per_row: store === null ? null : rounded(trips / rows, 2),
      };
    });
    if (found !== null) all.push(found);
  }
  return all;
}

/** Each round begins with another: a database goes on working for a while after its run, beside whoever comes next. */
function inTurn(round: number): Contestant[] {
  const at = round % contestants.length;
  return [...contestants.slice(at), ...contestants.slice(0, at)];
}

async function everybody(round: number, { latencyMs, promptKb }: Case): Promise<Run[]> {
  const runs: Run[] = [];
  for (const contestant of inTurn(round)) {
    const rows = rowsOf(contestant, { latencyMs, promptKb });
    const run = await measure(contestant, { round, latencyMs, promptKb, rows, state: 'state' });
    if (run !== null) runs.push(run);
  }
  return runs;
}

/** An embedded store is new in one of them. */
async function startsOf(round: number): Promise<Run[]> {
  const runs: Run[] = [];
  const few = { round, latencyMs: 0, promptKb: 0.3, rows: FEW, state: `state-${round}` };
  for (const contestant of inTurn(round)) {
    if (contestant.id === 'embedded' && !isLeftOut('embedded-new')) {
      const first = { ...contestant, id: 'embedded-new', title: `${contestant.title}, new` };
      const run = await measure(first, few);
      if (run !== null) runs.push(run);
    }
    const run = await measure(contestant, few);
    if (run !== null) runs.push(run);
  }
  return runs;
}

function rowsOf({ slow }: Contestant, { latencyMs, promptKb }: Case): number {
  const most = Math.min(Number(values.rows), Math.floor(INPUT_KB / promptKb));
  const rows = latencyMs === 0 ? most : (concurrency / latencyMs) * 1000 * LONG_ENOUGH_S;
  return Math.min(most, Math.max(Math.ceil(rows / slow), 5 * concurrency));
}

/** Null when it failed: then it is left out from then on. */
async function orLeaveOut<Result>(
  contestant: Contestant,
  { round }: Plan,
  work: () => Promise<Result>,
): Promise<Result | null> {
  try {
    return await work();
  } catch (error) {
    leaveOut(contestant, round, error);
    const at = contestants.findIndex(({ id }) => id === contestant.id);
    if (at !== -1) await contestants.splice(at, 1)[0]?.stop?.();
    return null;
  }
}

function measure(contestant: Contestant, plan: Plan): Promise<Run | null> {
  const { round, latencyMs, promptKb, rows } = plan;
  return orLeaveOut(contestant, plan, async () => {
    const { figures: meter, stats } = await runOf(contestant, plan, metered);
    const { first_ms, last_ms, middle } = stats;
    console.log(
      `  ${`${latencyMs} ms, ${promptKb} KB`.padEnd(15)}  ${contestant.title.padEnd(26)}  ${String(rows).padStart(6)} rows  ${meter.seconds.toFixed(1).padStart(5)} s`,
    );
    return {
      ...{ round, latencyMs, promptKb, rows, meter },
      contestant: contestant.id,
      title: contestant.title,
      rate: rows / meter.seconds,
      steadyRate: rows / ((last_ms - first_ms) / 1000),
      ofIdeal: latencyMs === 0 ? null : middle.calls / middle.ms / (concurrency / latencyMs),
      firstCallS: (first_ms - meter.began_ms) / 1000,
    };
  });
}

/** @throws Error when the process fails, or made another number of calls than rows, or left out rows */
async function runOf<Figures>(
  contestant: Contestant,
  { latencyMs, promptKb, rows, state }: Plan,
  run: (command: Command) => Promise<Figures>,
): Promise<{ figures: Figures; stats: EndpointStats }> {
  const task: Task = {
    ...{ url: endpoint.url, folder, concurrency, job },
    input: await inputOf(rows, promptKb),
    output: join(folder, `${contestant.id}.csv`),
    stateDir: join(folder, state),
  };
  rmSync(task.output, { force: true });
  await endpoint.begin(latencyMs);
  const figures = await run(contestant.command(task));
  const stats = await endpoint.stats();
  const lines = readFileSync(task.output, 'utf8').trimEnd().split('\n').length;
  if (stats.calls !== rows || lines <= rows) {
    throw new Error(`${stats.calls} calls and ${lines} lines for ${rows} rows`);
  }
  return { figures, stats };
}

function inputOf(rows: number, promptKb: number): Promise<string> {
  const name = `rows-${rows}-${promptKb}.csv`;
  const known = inputs.get(name) ?? writeReviews(join(folder, name), rows, promptKb);
  inputs.set(name, known);
  return known;
}

/** Without the runs of the round in which their contestant failed. */
function complete(runs: readonly Run[]): Run[] {
  return runs.filter((run) =>
    missing.every((each) => each.contestant !== run.contestant || run.round < each.from),
  );
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
