import type { Measured, Results } from './results.js';

/** What a result has to reach. */
export interface Target {
  readonly what: string;
  /** At least, or at most. */
  readonly bound: '≥' | '≤';
  readonly value: number;
  readonly unit: string;
  /** Undefined until it is measured. */
  readonly measured: (results: Results) => number | undefined;
}

/** Rows of the measurement of memory: many times more must not take more. */
export const MEMORY_ROWS = { few: 30_000, many: 1_000_000 };

const at =
  (contestant: string, latencyMs: number, figure: (measured: Measured) => number | null) =>
  ({ overhead }: Results): number | undefined => {
    const found = overhead?.rates.find(
      (each) => each.contestant === contestant && each.latency_ms === latencyMs && each.prompt_kb === 0.3,
    );
    return found === undefined ? undefined : (figure(found) ?? undefined);
  };
const ofIdeal = ({ of_ideal }: Measured): number | null => of_ideal;
const ofBare = ({ of_bare }: Measured): number | null => of_bare;
const start =
  (contestant: string) =>
  ({ overhead }: Results): number | undefined =>
    overhead?.starts.find((each) => each.contestant === contestant)?.first_call_s;
const peak =
  (store: string, rows: number) =>
  ({ memory }: Results): number | undefined =>
    memory?.runs.find((run) => run.store === store && run.rows === rows)?.peak_mb;
const trialOf = (results: Results, callers: 'workers' | 'runs', count: number, latencyMs: number) =>
  results.fleet?.trials.find((trial) => trial[callers] === count && trial.latency_ms === latencyMs);
/** The rate of two, of that of one. */
const twoOfOne =
  (callers: 'workers' | 'runs') =>
  (results: Results): number | undefined => {
    const [one, two] = [trialOf(results, callers, 1, 200), trialOf(results, callers, 2, 200)];
    return one && two ? two.rows_per_second / one.rows_per_second : undefined;
  };

export const TARGETS: readonly Target[] = [
  ...(
    [
      ['redis', 'Redis', 0.985, 0.38, 0.45],
      ['embedded', 'embedded', 0.985, 0.38, 0.35],
    ] as const
  ).flatMap(([id, name, ideal, bare, first]): Target[] => [
    {
      what: `200 ms an answer, ${name}`,
      bound: '≥',
      value: ideal,
      unit: 'of the ideal',
      measured: at(id, 200, ofIdeal),
    },
    {
      what: `no latency, ${name}`,
      bound: '≥',
      value: bare,
      unit: 'of the bare loop',
      measured: at(id, 0, ofBare),
    },
    ...(first === null
      ? []
      : [
          {
            what: `start to first call, ${name}`,
            bound: '≤' as const,
            value: first,
            unit: 's',
            measured: start(id),
          },
        ]),
  ]),
  {
    what: 'start to first call, embedded, new',
    bound: '≤',
    value: 0.35,
    unit: 's',
    measured: start('embedded-new'),
  },
  {
    what: '`--version`',
    bound: '≤',
    value: 1.5,
    unit: 'times a bare Node.js',
    measured: ({ overhead }) => overhead?.version.time_of_node,
  },
  ...(
    [
      ['redis', 'Redis'],
      ['embedded', 'embedded'],
    ] as const
  ).flatMap(([id, name]): Target[] => [
    {
      what: `CPU of the process, ${name}`,
      bound: '≤',
      value: 130,
      unit: 'µs a row',
      measured: at(id, 0, (each) => each.cpu_us_per_row),
    },
    {
      what: `against OpenAI SDK 6 + p-limit, ${name}`,
      bound: '≥',
      value: 3.5,
      unit: 'times its rate',
      measured: at(id, 0, (each) => each.of_openai),
    },
  ]),
  {
    what: 'CPU of its main thread, Redis',
    bound: '≤',
    value: 70,
    unit: 'µs a row',
    measured: at('redis', 0, (each) => each.main_us_per_row),
  },
  ...[MEMORY_ROWS.few, MEMORY_ROWS.many].flatMap((rows): Target[] => [
    {
      what: `peak memory, ${rows.toLocaleString('en')} rows, Redis`,
      bound: '≤',
      value: 190,
      unit: 'MB',
      measured: peak('redis', rows),
    },
    {
      what: `peak memory, ${rows.toLocaleString('en')} rows, embedded, new`,
      bound: '≤',
      value: rows === MEMORY_ROWS.few ? 205 : 230,
      unit: 'MB',
      measured: peak('embedded', rows),
    },
  ]),
  {
    what: 'fleet of three, 100 ms, 20 calls each',
    bound: '≥',
    value: 0.97,
    unit: 'of the ideal',
    measured: (results) => trialOf(results, 'workers', 3, 100)?.of_ideal,
  },
  ...(['workers', 'runs'] as const).map(
    (callers): Target => ({
      what: `two ${callers} of a deployment, of one`,
      bound: '≥',
      value: 1.95,
      unit: 'times its rate',
      measured: twoOfOne(callers),
    }),
  ),
  {
    what: 'rows of a killed worker are with others again',
    bound: '≤',
    value: 20,
    unit: 's',
    measured: (results) => results.fleet?.after_kill_s ?? undefined,
  },
];
