import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Fleet,
  type Measured,
  type Memory,
  type Overhead,
  type Results,
  readResults,
} from './results.js';
import { TARGETS, type Target } from './targets.js';

const DOCS = ['performance.md', 'scaling.md'].map((name) => join(import.meta.dirname, '../docs', name));

type Row = readonly (string | number)[];

/**
 * Prints the tables of a result and of the targets, and puts each between its marks in the docs:
 * `<!-- bench:overhead -->` and `<!-- /bench:overhead -->`.
 */
export function show(
  name: keyof Results,
  { dry, ...fresh }: Partial<Results> & { readonly dry: boolean },
): void {
  const parts = partsOf(name, { ...readResults(), ...fresh });
  for (const text of Object.values(parts)) console.log(`\n${text}`);
  if (dry) return;
  for (const path of DOCS) {
    const before = readFileSync(path, 'utf8');
    writeFileSync(path, Object.entries(parts).reduce(replace, before));
  }
  console.log(`\nwritten to bench/results/${name}.json and docs/`);
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

function table(head: Row, rows: readonly Row[]): string {
  const line = (cells: Row): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function occasionText({ machine, date }: { readonly machine: string; readonly date: string }): string {
  return `${machine}; ${date}`;
}

function overheadTexts(overhead: Overhead): Record<string, string> {
  const { rates, starts, version, missing, rounds, concurrency } = overhead;
  const lengths = [...new Set(rates.map(({ prompt_kb }) => prompt_kb))];
  const latencies = [...new Set(rates.map(({ latency_ms }) => latency_ms))].filter((ms) => ms > 0);
  const [length] = lengths;
  const plain = rates.filter(({ latency_ms, prompt_kb }) => latency_ms === 0 && prompt_kb === length);
  const everybody = [...new Map(rates.map((each) => [each.contestant, each.title]))];
  const of = (contestant: string, latency: number, kb: number | undefined): Measured | undefined =>
    rates.find((e) => e.contestant === contestant && e.latency_ms === latency && e.prompt_kb === kb);
  return {
    overhead: [
      `${concurrency} calls in flight, prompts of ${length} KB, no latency; medians of ${rounds} rounds on ${occasionText(overhead)}.`,
      '',
      table(
        [
          '',
          'rows',
          'rows/s',
          'slowest to fastest round',
          'of the bare loop',
          'CPU of the process, µs a row',
          'of it main thread',
          'peak memory, MB',
          'store round trips a row',
        ],
        plain.map((each) => [
          each.title,
          each.rows,
          each.rows_per_second,
          each.spread.join(' to '),
          each.of_bare ?? '',
          each.cpu_us_per_row,
          each.main_us_per_row,
          each.peak_mb,
          each.trips_per_row ?? '',
        ]),
      ),
      ...missing.map(({ title, reason }) => `\nLeft out: ${title}. ${reason}`),
    ].join('\n'),
    latency: table(
      ['', ...latencies.flatMap((ms) => [`${ms} ms: rows`, 'of the ideal', 'CPU, µs a row'])],
      everybody.map(([id, title]) => [
        title,
        ...latencies.flatMap((ms) => {
          const found = of(id, ms, length);
          return [found?.rows ?? '', found?.of_ideal ?? '', found?.steady_cpu_us_per_row ?? ''];
        }),
      ]),
    ),
    prompts: table(
      ['', ...lengths.flatMap((kb) => [`${kb} KB: rows`, 'rows/s', 'of the bare loop', 'CPU, µs a row'])],
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
    start: table(
      ['', 'start to first call, s', 'modules loaded', 'peak memory, MB'],
      [
        ...starts.map((each): Row => [each.title, each.first_call_s, each.modules, each.peak_mb]),
        ['`promptmill --version`', `${version.seconds} (to its end)`, version.modules, ''],
      ],
    ),
  };
}

function memoryText(memory: Memory): string {
  return [
    `On ${occasionText(memory)}.`,
    '',
    table(
      ['', 'rows', 'peak of the process, MB', 'peak of Redis, MB'],
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
      row('workers', ({ workers }) => workers),
      [
        row('calls in flight of each, latency', (each) => `${each.concurrency}, ${each.latency_ms} ms`),
        row('rows', ({ rows }) => rows),
        row('rows/s, from the first call to the last', (each) => each.rows_per_second),
        row('of the ideal, middle 80 % of the calls', (each) => each.of_ideal),
        row('CPU of the run (producer, collector), µs a row', (each) => each.collector_us_per_row),
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
    `From the kill of a worker (\`kill -9\`) to the end of a run of which only its rows were left: ${fleet.after_kill_s} s.`,
  ].join('\n');
}

function targetsText(results: Results): string {
  const verdict = ({ bound, value }: Target, measured: number): string => {
    const met = bound === '≥' ? measured >= value : measured <= value;
    return met ? 'met' : '**missed**';
  };
  const rows = TARGETS.map((target): Row => {
    const { what, bound, value, unit, measured } = target;
    const figure = measured(results);
    return [
      what,
      `${bound} ${value} ${unit}`,
      ...(figure === undefined ? ['', 'not measured'] : [Number(figure.toFixed(3)), verdict(target, figure)]),
    ];
  });
  return table(['', 'target', 'measured', ''], rows);
}
