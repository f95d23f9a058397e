import * as z from 'zod';
import { whole } from '../config/numbers.js';
import { either, PromptmillError, UsageError } from '../core/errors.js';
import { clipped } from '../core/figures.js';
import { STATUSES } from '../core/model.js';
import { nearest } from '../core/nearest.js';

/** A check for each option: callers in JavaScript have no types, and get a sentence about a wrong value. */
type Checks<Options> = { readonly [Name in keyof Required<Options>]: z.ZodType };

const text = z.string('must be a text').min(1, 'must not be empty');
const flag = z.boolean('must be true or false');
const count = whole(1);

/** @param methods that the value must have; its class may be that of another copy of the package */
const having = (methods: readonly string[], expected: string): z.ZodType =>
  z.custom((value) => {
    if (typeof value !== 'object' || value === null) return false;
    return methods.every((name) => typeof Reflect.get(value, name) === 'function');
  }, expected);
const callback = z.custom((value) => typeof value === 'function', 'must be a function');
const signal = having(['throwIfAborted', 'addEventListener'], 'must be an AbortSignal');

const OF_JOB = {
  // Checked where they are read.
  ...{ rows: z.unknown(), format: z.unknown() },
  ...{ limit: count, sample: count, seed: whole(0), by: text },
  concurrency: z.union(
    [whole(1, 10_000), z.literal('auto')],
    'must be a whole number from 1 to 10000, or auto',
  ),
  env: having([], 'must be an object, such as process.env'),
  signal,
  log: having(['debug', 'info', 'warn', 'error'], 'must be a pino logger'),
};

const OF_RUN = {
  ...OF_JOB,
  ...{ queue: text, emulate: flag, work: flag, onProgress: callback, onEvent: callback },
};

const { limit, ...OF_WHOLE } = OF_RUN;

const ONE_OF = `must be ${either(STATUSES)}`;

/** By function. */
export const CHECKS = {
  check: OF_JOB,
  run: {
    ...OF_RUN,
    output: z.union([text, z.literal(true)], 'must be the path of a file, or true for that of the job'),
    ...{ restart: flag, overwrite: flag, extend: flag },
    ahead: whole(1, 10_000),
  },
  retry: {
    ...OF_WHOLE,
    // Checked where it is read.
    job: z.unknown(),
    status: z.array(z.enum(STATUSES, ONE_OF), `must be a list, each ${either(STATUSES)}`),
    ...{ invalid: flag, abstained: flag },
    row: z.union([z.array(count), text], 'must be a list of row numbers, from 1, or a text such as 17,20-30'),
    restart: flag,
  },
  compare: {
    by: text,
    gold: z.array(text, 'must be a list of files and columns'),
    changed: z.looseObject({ path: text }, 'must be an object with the path of a CSV file'),
    page: z.looseObject({ path: text, render: callback }, 'must be an object with path and render'),
    signal,
  },
};

/** @throws UsageError `bad_option` for an unknown option, and for one of another kind than it has */
export function assertOptions<Options>(caller: string, of: Checks<Options>, options: unknown): void {
  const checks: Readonly<Record<string, z.ZodType>> = of;
  if (typeof options !== 'object' || options === null)
    throw new UsageError('bad_option', `${caller}: the options must be an object, got ${shown(options)}`);
  for (const [name, value] of Object.entries(options)) {
    const check = checks[name];
    if (check === undefined) throw unknownOption(caller, name, Object.keys(checks));
    const problem = value === undefined ? null : check.safeParse(value).error?.issues[0];
    if (problem) {
      const place = [name, ...problem.path].join('.');
      const got = problem.path.reduce((part: unknown, key) => Reflect.get(Object(part), key), value);
      throw new UsageError('bad_option', `${caller}: ${place} ${problem.message}, got ${shown(got)}`);
    }
  }
}

function unknownOption(caller: string, name: string, names: readonly string[]): UsageError {
  const near = nearest(name, names);
  return new UsageError(
    'bad_option',
    `${caller}: there is no option ${name}${near === null ? '' : `; did you mean ${near}?`}`,
    `The options are ${names.join(', ')}.`,
  );
}

/** @throws UsageError `bad_output` */
export function assertPath(caller: string, path: unknown): void {
  if (typeof path === 'string' && path !== '') return;
  throw new UsageError(
    'bad_output',
    `${caller} needs the path of an output, got ${shown(path)}`,
    'Give the output of a finished run.',
  );
}

const shown = (value: unknown): string => {
  if (typeof value === 'function') return 'a function';
  // JSON has no NaN.
  if (typeof value === 'number') return String(value);
  return typeof value === 'object' && value !== null
    ? 'an object'
    : clipped(JSON.stringify(value) ?? String(value), 60);
};

/** Names of options on the command line → in a program, where they differ. */
const RENAMED: Readonly<Record<string, string>> = { input: 'rows', 'no-work': 'work: false' };
export const RENAMED_BY_COMPARE: typeof RENAMED = { output: 'changed', html: 'page' };
const NAMES = Object.values(CHECKS).flatMap((checks) => Object.keys(checks));
const FLAG = new RegExp(
  String.raw`(?<!\S)--(${[...new Set([...NAMES, ...Object.keys(RENAMED), 'html'])].join('|')})\b( (?:[A-Z]+\b|embedded|rediss?:\S+))?`,
  'g',
);
const SWITCHES = Object.entries({ ...CHECKS.run, ...CHECKS.retry }).flatMap(([name, check]) =>
  check === flag ? name : [],
);

/** `--overwrite` of the commands is `overwrite: true` in a program. @param renamed what has another name there */
export const forProgram = (text: string, renamed = RENAMED): string =>
  text.replace(FLAG, (_, flagName: string, value = '') => {
    const name = renamed[flagName] ?? flagName;
    return SWITCHES.includes(name) ? `${name}: true${value}` : `${name}${value && `:${value}`}`;
  });

/** @returns the same error, in the words of a program */
export function inProgram(error: unknown, renamed = RENAMED): unknown {
  if (!(error instanceof PromptmillError)) return error;
  const hint = error.hint === undefined ? {} : { hint: forProgram(error.hint, renamed) };
  return Object.assign(error, { message: forProgram(error.message, renamed), ...hint });
}
