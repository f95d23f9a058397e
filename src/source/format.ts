import { either, UsageError } from '../core/errors.js';
import { csv, tsv } from './csv.js';
import { type InputFormat, type InputSpec, nameOf } from './input.js';
import { jsonl } from './jsonl.js';
import { kindOfName } from './kind.js';

/** Everything said about input formats elsewhere comes from this list. */
const INPUT_FORMATS: readonly InputFormat[] = [csv, tsv, jsonl];

export const INPUT_FORMAT_NAMES = INPUT_FORMATS.map(({ name }) => name);

export const INPUT_ENDINGS = INPUT_FORMATS.flatMap(({ endings }) => endings);

/** By the ending, with or without `.gz`; null if unknown. */
export function formatOfName(path: string): InputFormat | null {
  const plain = path.toLowerCase().replace(/\.gz$/, '');
  const ending = /\.[^./\\]*$/.exec(plain)?.[0] ?? '';
  return INPUT_FORMATS.find(({ endings }) => endings.includes(ending)) ?? null;
}

/** The given format, else by the name. @throws UsageError `bad_format`, `unknown_format` */
export function formatOf(spec: InputSpec): InputFormat {
  if (spec.format !== undefined) return formatNamed(spec.format);
  const format = formatOfName(spec.path);
  if (format !== null) return format;
  const kind = kindOfName(spec.path);
  if (kind !== null) throw new UsageError(kind.code, `${nameOf(spec)} ${kind.is} by its name.`, kind.remedy);
  throw new UsageError(
    'unknown_format',
    spec.path === '-'
      ? 'The format of standard input is unknown: it has no file name to tell it by.'
      : `The format of ${nameOf(spec)} is unknown; known endings are ${INPUT_ENDINGS.join(', ')}, each also with .gz.`,
    `Name the format with --format ${either(INPUT_FORMAT_NAMES)}, or with input.format in the job file.`,
  );
}

/** @throws UsageError `bad_format` */
export function formatNamed(name: string): InputFormat {
  const format = INPUT_FORMATS.find((known) => known.name === name);
  if (format !== undefined) return format;
  throw new UsageError('bad_format', `--format must be ${either(INPUT_FORMAT_NAMES)}, got ${name}`);
}
