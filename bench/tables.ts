import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Counted,
  type Fleet,
  type Measured,
  type Memory,
  type Overhead,
  type Results,
  readResults,
} from './results.js';
import { TARGETS, type Target } from './targets.js';

const PERFORMANCE = join(import.meta.dirname, '../docs/performance.md');
const FLEET = join(import.meta.dirname, '../docs/fleet.md');

type Row = readonly (string | number)[];

/**
 * Prints the tables of a result and of the targets, and puts each between its marks in the docs:
 * `<!-- bench:overhead -->` and `<!-- /bench:overhead -->`.
 */
export function show(
  name: keyof Results,
  { dry, ...fresh }: Partial<Results> & { readonly dry: boolean },
): void {
  const results = { ...readResults(), ...fresh };
  const parts = partsOf(name, results);
  for (const text of Object.values(parts)) console.log(`\n${text}`);
  if (dry) return;
  for (const path of [PERFORMANCE, FLEET]) {
    const before = readFileSync(path, 'utf8');
    writeFileSync(path, Object.entries(parts).reduce(replace, before));
  }
  console.log(`\nwritten to bench/results/${name}.json and docs/`);
  remindOfReasons(results, readFileSync(PERFORMANCE, 'utf8'));
}

function partsOf(name: keyof Results, results: Results): Record<string, string> {
  const targets = { targets: targetsText(results) };
  if (name === 'overhead' && results.overhead) return { ...overheadTexts(results.overhead), ...targets };
  if (name === 'memory' && results.memory) return { memory: memoryText(results.memory), ...targets };
  if (name === 'fleet' && results.fleet) return { fleet: fleetText(results.fleet), ...targets };
  return targets;
}

function replace(text: string, [name, part]: readonly [string, string]): string {
  const marks = new RegExp(`(<!-- bench:${name} -->\n)[^]*?(\n<!-- /bench:${name} -->)`);
  return text.replace(marks, (_, begin, end) => `${begin}${part}${end}`);
}

/** Columns have one width, so that it can be read on a terminal too. */
function table(head: Row, rows: readonly Row[]): string {
  const widths = head.map((_, i) =>
    Math.max(3, ...[head, ...rows].map((row) => String(row[i] ?? '').length)),
  );
  const line = (cells: Row): string =>
    `| ${cells.map((cell, i) => String(cell).padEnd(widths[i] ?? 0)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}

function occasionText({ machine, date }: { readonly machine: string; readonly date: string }): string {
  return `${machine}; ${date}`;
}

function overheadTexts(overhead: Overhead): Record<string, string> {
  const { rates, starts, version, counts, missing, rounds, concurrency } = overhead;
  const lengths = [...new Set(rates.map(({ prompt_kb }) => prompt_kb))];
  const latencies = [...new Set(rates.map(({ latency_ms }) => latency_ms))].filter((ms) => ms > 0);
  const [length] = lengths;
  const plain = rates.filter(({ latency_ms, prompt_kb }) => latency_ms === 0 && prompt_kb === length);
  const everybody = [...new Map(rates.map((each) => [each.contestant, each.title]))];
  const of = (contestant: string, latency: number, kb: number | undefined): Measured | undefined =>
    rates.find((e) => e.contestant === contestant && e.latency_ms === latency && e.prompt_kb === kb);
  const countsOf = (contestant: string): Counted | undefined =>
    counts.find((each) => contestant.startsWith(each.contestant));
  const rangeOf = ([slowest, fastest]: Measured['spread']): string => `${slowest} to ${fastest}`;
  return {
    overhead: [
      `${concurrency} calls in flight, prompts of ${length} KB, no latency; medians of ${numberOf(rounds, 'round')} on ${occasionText(overhead)}.`,
      '',
      table(
        ['', 'rows', 'rows/s', 'all rounds', 'of bare', 'CPU µs/row', 'main thread', 'peak MB', 'trips/row'],
        plain.map((each) => [
          each.title,
          each.rows,
          each.rows_per_second,
          rangeOf(each.spread),
          each.of_bare ?? '',
          each.cpu_us_per_row,
          each.main_us_per_row,
          each.peak_mb,
          countsOf(each.contestant)?.trips_per_row ?? '',
        ]),
      ),
      ...missing.map(({ title, from, reason }) =>
        from <= 1
          ? `\nLeft out: ${title}: ${reason}.`
          : `\nLeft out from round ${from} on: ${title}: ${reason}.`,
      ),
    ].join('\n'),
    latency: table(
      ['', ...latencies.flatMap((ms) => [`${ms} ms: rows`, 'of ideal', 'CPU µs/row'])],
      everybody.map(([id, title]) => [
        title,
        ...latencies.flatMap((ms) => {
          const found = of(id, ms, length);
          return [found?.rows ?? '', found?.of_ideal ?? '', found?.steady_cpu_us_per_row ?? ''];
        }),
      ]),
    ),
    prompts: table(
      ['', ...lengths.flatMap((kb) => [`${kb} KB: rows`, 'rows/s', 'of bare', 'CPU µs/row'])],
      everybody.map(([id, title]) => [
        title,
        ...lengths.flatMap((kb) => {
          const found = of(id, 0, kb);
          return [
            found?.rows ?? '',
            found?.steady_rows_per_second ?? '',
            found?.steady_of_bare ?? '',
            found?.steady_cpu_us_per_row ?? '',
          ];
        }),
      ]),
    ),
    start: [
      table(
        ['', 'start to first call, s', 'modules', 'peak MB'],
        starts.map(
          (each): Row => [
            each.title,
            each.first_call_s,
            countsOf(each.contestant)?.modules ?? '',
            each.peak_mb,
          ],
        ),
      ),
      '',
      `\`promptmill --version\` loads ${version.modules} modules and takes ${version.time_of_node} times as long as \`node --eval 0\`, with ` +
        `${version.cpu_of_node} times its CPU.`,
    ].join('\n'),
  };
}

function memoryText(memory: Memory): string {
  return [
    `On ${occasionText(memory)}.`,
    '',
    table(
      ['', 'rows', 'peak MB', 'peak MB of Redis'],
      memory.runs.map((run) => [run.store, run.rows, run.peak_mb, run.store_mb ?? '']),
    ),
  ].join('\n');
}

function fleetText(fleet: Fleet): string {
  const columns = [...fleet.trials];
  const row = (title: string, figure: (trial: Fleet['trials'][number]) => number | string): Row => [
    title,
    ...columns.map(figure),
  ];
  return [
    `On ${occasionText(fleet)}.`,
    '',
    table(
      row('', ({ runs, workers }) => (runs > 0 ? numberOf(runs, 'run') : numberOf(workers, 'worker'))),
      [
        row('calls in flight of each, latency', (each) => `${each.concurrency}, ${each.latency_ms} ms`),
        row('rows', ({ rows }) => rows),
        row('rows/s, from the first call to the last', (each) => each.rows_per_second),
        row('of the ideal, middle 80 % of the calls', (each) => each.of_ideal),
        row(
          'CPU of the runs (without workers they make the calls), µs a row',
          (each) => each.collector_us_per_row,
        ),
        row('CPU of all workers, µs a row', (each) => each.workers_us_per_row),
        row('CPU of Redis, µs a row', (each) => each.redis_us_per_row),
        row('Redis commands a row, those inside of scripts included', (each) => each.redis_commands_per_row),
        row(
          'bytes to and from Redis a row',
          (each) => `${each.bytes_in_per_row} and ${each.bytes_out_per_row}`,
        ),
      ],
    ),
    '',
    `From the kill of a worker (\`kill -9\`) to the end of a run of which only its rows were left: ${fleet.after_kill_s === null ? 'not measured' : `${fleet.after_kill_s} s`}.`,
  ].join('\n');
}

function numberOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

function targetsText(results: Results): string {
  const rows = TARGETS.map((target): Row => {
    const { what, bound, value, unit, measured } = target;
    const figure = measured(results);
    const verdict = figure === undefined ? 'not measured' : isMet(target, figure) ? 'met' : '**missed**';
    return [
      what,
      `${bound} ${value} ${unit}`,
      figure === undefined ? '' : Number(figure.toFixed(3)),
      verdict,
    ];
  });
  return table(['', 'target', 'measured', ''], rows);
}

function isMet({ bound, value }: Target, figure: number): boolean {
  return bound === '≥' ? figure >= value : figure <= value;
}

/**
 * What is to be written by hand after a measurement: under "Targets that are missed" each target that is missed has a
 * line, `- _what_: the reason`, and no other has one.
 */
function remindOfReasons(results: Results, text: string): void {
  const section = text.split('\n## ').find((each) => each.startsWith('Targets that are missed')) ?? '';
  const given = [...section.matchAll(/^- _(.+?)_:/gm)].map(([, what]) => what);
  const missed = TARGETS.flatMap((target) => {
    const figure = target.measured(results);
    return figure === undefined || isMet(target, figure) ? [] : [target.what];
  });
  const lacking = missed.filter((what) => !given.includes(what));
  const done = given.filter((what) => !missed.some((each) => each === what));
  if (lacking.length + done.length > 0)
    console.log('\nTo do in docs/performance.md, "Targets that are missed":');
  for (const what of lacking) console.log(`  write the reason: - _${what}_: ...`);
  for (const what of done) console.log(`  remove, it is not missed: ${what}`);
}
