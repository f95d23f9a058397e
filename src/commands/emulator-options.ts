import { Option } from 'commander';
import { UsageError } from '../core/errors.js';
import { BATCH_FAULTS, type BatchFaults, isBatchFault } from '../emulator/batches/settings.js';

/** Options of the emulator that `promptmill run --emulate` has too, and how those of `emulate` are read. */

export const batchOptions = (): readonly [seconds: Option, faults: Option] => [
  number('--batch-seconds <s>', 'seconds that a hosted batch takes', [0, 86_400], 5),
  new Option(
    '--batch-fail <fault:share>',
    'a fault of hosted batches, may be repeated; emulate --help has the kinds',
  ).argParser(batchFault),
];

type Range = readonly [least: number, most: number];

export const whole = (flags: string, description: string, range: Range, preset?: number): Option =>
  number(flags, description, range, preset, true);

export function number(
  flags: string,
  description: string,
  [least, most]: Range,
  preset?: number,
  isWhole = false,
): Option {
  const option = new Option(flags, description).default(preset);
  return option.argParser((text) => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (value >= least && value <= most && (!isWhole || Number.isInteger(value))) return value;
    const expected = `a ${isWhole ? 'whole ' : ''}number from ${least} to ${most}`;
    throw badOption(option.long ?? flags, text, expected);
  });
}

/** A name, and a share from 0 to 1; another share is null. */
export function nameAndShare(text: string): { readonly name: string; readonly share: number | null } {
  const [, name = '', digits = ''] = /^([\w-]+):(\d*\.?\d+)$/.exec(text) ?? [];
  return { name, share: Number(digits) <= 1 ? Number(digits) : null };
}

function batchFault(text: string, others: BatchFaults = {}): BatchFaults {
  const { name, share } = nameAndShare(text);
  if (isBatchFault(name) && share !== null) return { ...others, [name]: share };
  const kinds = Object.keys(BATCH_FAULTS).join(', ');
  throw badOption('--batch-fail', text, `a fault and its share, such as expire:0.4; faults are ${kinds}`);
}

export function badOption(option: string, text: string, expected: string): UsageError {
  return new UsageError(
    'bad_option',
    `${option} ${JSON.stringify(text)} is not ${expected}`,
    'promptmill emulate --help explains the options.',
  );
}
